package decode

import (
	"math"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"gudang/internal/reading"
)

func sparkplugFleet() Fleet {
	return Fleet{
		Name:   "sparkplug",
		Doc:    "Sparkplug B: the data and birth messages of edge nodes and their devices. The sensor is `edge` or `edge/device`. Data that names its metrics by alias alone needs a birth message that came since the service started; until then it is rejected as `invalid_metric`: ask the node for a rebirth, or let the host application do so.",
		Topics: []string{"spBv1.0/+/+/{sensor...}"},
		Samples: []Sample{
			{"spBv1.0/Barn/DBIRTH/edge-2/silo-5", "CPCy5tSkNBIaCgt0ZW1wZXJhdHVyZRAHIAppAAAAAACAKUASFwoIaHVtaWRpdHkQCCAKaQAAAAAAwE9AGAc="},
			{"spBv1.0/Barn/DDATA/edge-2/silo-5", "CPCy5tSkNBISEAcYwMLm1KQ0aQAAAAAAACpAGAc="},
		},
	}
}

// Field numbers of sparkplug_b.proto (Sparkplug 3.0, section 6.4).
const (
	payloadTimestamp = 1
	payloadMetrics   = 2
	payloadUUID      = 4

	metricName       = 1
	metricAlias      = 2
	metricTimestamp  = 3
	metricDatatype   = 4
	metricIsNull     = 7
	metricProperties = 9
	metricInt        = 10
	metricLong       = 11
	metricFloat      = 12
	metricDouble     = 13
	metricBoolean    = 14

	propertyKeys   = 1
	propertyValues = 2
	propertyString = 8
)

// sparkplugCompressed is the UUID of a payload that holds another, compressed
// one in its body.
const sparkplugCompressed = "SPBV1.0_COMPRESSED"

// Data types (section 6.4.16) that change what a number is.
const (
	typeInt8     = 1
	typeInt16    = 2
	typeInt32    = 3
	typeInt64    = 4
	typeBoolean  = 11
	typeDateTime = 13
)

// sparkplugMetric is a metric of a message, as sent.
type sparkplugMetric struct {
	name     []byte
	alias    uint64
	aliased  bool
	time     uint64 // ms, 0: none
	datatype uint64
	null     bool
	unit     []byte
	kind     protowire.Number // of the value, 0: none that is a number
	bits     uint64           // of the value
}

// decodeSparkplug reads Sparkplug B. Births and data hold readings; deaths,
// commands and states none. What a birth says of a metric holds for the data
// that follows, which may name it by an alias alone and leave out its type.
func decodeSparkplug(d *Decoder) {
	group, kind, device, ok := sparkplugTopic(d.msg.Topic)
	if !ok {
		d.ignore(reading.StatusWord, "no topic of an edge node or device")
		return
	}
	node := sparkplugNode{group, device[:strings.IndexByte(device+"/", '/')]}
	switch kind {
	case "NBIRTH", "NDATA", "DBIRTH", "DDATA":
	case "NDEATH":
		d.births.forget(node)
		fallthrough
	case "DDEATH", "NCMD", "DCMD":
		d.ignore(reading.StatusWord, "a death or a command")
		return
	default:
		d.reject(reading.NoReading, "the topic's type of message is not one of Sparkplug B's")
		return
	}
	stamp, ok := sparkplugCheck(d.msg.Payload)
	if !ok {
		d.reject(reading.InvalidValue, "it is no Sparkplug B payload, or is truncated")
		return
	}
	if string(textField(d.msg.Payload, payloadUUID)) == sparkplugCompressed {
		d.reject(reading.NoReading, "the payload is compressed, which is not read: switch that off at the edge node")
		return
	}
	var born *birth
	switch kind {
	case "NBIRTH":
		d.births.forget(node) // what its devices said before counts no more
		born = d.births.bear(node, device)
	case "DBIRTH":
		born = d.births.bear(node, device)
	default:
		born = d.births.find(node, device)
	}
	d.readSparkplug(kind[1:] == "BIRTH", stamp, device, born)
}

// sparkplugTopic takes a topic apart: namespace/group/type/edge[/device].
// Before the namespace a bridge may have put levels of its own.
func sparkplugTopic(topic string) (group, kind, device string, ok bool) {
	const namespace = "spBv1.0/"
	i := strings.Index("/"+topic, "/"+namespace)
	if i < 0 {
		return "", "", "", false
	}
	group, rest, _ := strings.Cut(topic[i+len(namespace):], "/")
	kind, device, ok = strings.Cut(rest, "/")
	return group, kind, device, ok && device != "" && group != "STATE"
}

// sparkplugCheck checks the outer structure, so that a truncated message is
// refused before anything is made of it, and finds the time of the message.
func sparkplugCheck(b []byte) (stamp uint64, ok bool) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return 0, false
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(num, typ, b)
		if size < 0 {
			return 0, false
		}
		switch {
		case num == payloadTimestamp && typ == protowire.VarintType:
			stamp, _ = protowire.ConsumeVarint(b)
		case num == payloadMetrics && typ == protowire.BytesType:
			metric, _ := protowire.ConsumeBytes(b)
			if _, ok := parseSparkplugMetric(metric); !ok {
				return 0, false
			}
		case num == payloadTimestamp || num == payloadMetrics:
			return 0, false // of another type on the wire
		}
		b = b[size:]
	}
	return stamp, true
}

func parseSparkplugMetric(b []byte) (m sparkplugMetric, ok bool) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return m, false
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(num, typ, b)
		if size < 0 {
			return m, false
		}
		var v uint64
		var text []byte
		switch typ {
		case protowire.VarintType:
			v, _ = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			v32, _ := protowire.ConsumeFixed32(b)
			v = uint64(v32)
		case protowire.Fixed64Type:
			v, _ = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			text, _ = protowire.ConsumeBytes(b)
		}
		if !m.take(num, typ, v, text) {
			return m, false
		}
		b = b[size:]
	}
	return m, true
}

// take notes a field. It reports false if the field has another type on the
// wire than the schema says. Fields without a meaning here are skipped.
func (m *sparkplugMetric) take(num protowire.Number, typ protowire.Type, v uint64, text []byte) bool {
	want := protowire.VarintType
	switch num {
	case metricName, metricProperties:
		want = protowire.BytesType
	case metricFloat:
		want = protowire.Fixed32Type
	case metricDouble:
		want = protowire.Fixed64Type
	case metricAlias, metricTimestamp, metricDatatype, metricIsNull, metricInt, metricLong, metricBoolean:
	default:
		return true
	}
	if typ != want {
		return false
	}
	switch num {
	case metricName:
		m.name = text
		return utf8.Valid(text)
	case metricAlias:
		m.alias, m.aliased = v, true
	case metricTimestamp:
		m.time = v
	case metricDatatype:
		m.datatype = v
	case metricIsNull:
		m.null = v != 0
	case metricProperties:
		if unit := sparkplugUnit(text); utf8.Valid(unit) {
			m.unit = unit
		}
	case metricInt, metricLong, metricFloat, metricDouble:
		m.kind, m.bits = num, v
	}
	return true
}

// sparkplugUnit is the property engUnit of a PropertySet, which is a list of
// keys and a list of values beside it.
func sparkplugUnit(set []byte) []byte {
	at, keys := -1, 0
	for b := set; len(b) > 0; {
		num, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			return nil
		}
		if num == propertyKeys && typ == protowire.BytesType {
			if key := bytesField(b[:n]); at < 0 && strings.EqualFold(string(key[:min(len(key), 16)]), "engUnit") {
				at = keys
			}
			keys++
		}
		b = b[n:]
	}
	for b := set; len(b) > 0 && at >= 0; {
		num, typ, n := protowire.ConsumeField(b)
		if num == propertyValues && typ == protowire.BytesType {
			if at == 0 {
				return textField(bytesField(b[:n]), propertyString)
			}
			at--
		}
		b = b[n:]
	}
	return nil
}

// bytesField is the content of a whole field of type bytes.
func bytesField(b []byte) []byte {
	_, _, n := protowire.ConsumeTag(b)
	content, _ := protowire.ConsumeBytes(b[n:])
	return content
}

// textField is the content of the first field of that number and type bytes.
func textField(b []byte, field protowire.Number) []byte {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			return nil
		}
		if num == field && typ == protowire.BytesType {
			return bytesField(b[:n])
		}
		b = b[n:]
	}
	return nil
}

// readSparkplug adds the metrics of a message that has been checked.
func (d *Decoder) readSparkplug(isBirth bool, stamp uint64, device string, born *birth) {
	outer := d.newScope()
	if d.topic.route.sensor {
		outer.sensor, outer.sensorWhy = d.topicSensor()
	} else {
		d.scratch = append(d.scratch[:0], device...)
		outer.sensor, outer.sensorWhy = d.sensorID(d.scratch)
	}
	outer.resolved = true
	orphans := 0
	for b := d.msg.Payload; len(b) > 0 && d.out.Outcome == reading.Pending; {
		num, typ, n := protowire.ConsumeField(b)
		if num == payloadMetrics && typ == protowire.BytesType {
			m, _ := parseSparkplugMetric(bytesField(b[:n]))
			if isBirth {
				d.births.learn(born, &m)
			} else {
				born.complete(&m)
			}
			switch {
			case len(m.name) > 0:
				d.readSparkplugMetric(&m, stamp, outer)
			case m.aliased:
				orphans++
			}
		}
		b = b[n:]
	}
	switch {
	case orphans == 0 || d.out.Outcome != reading.Pending:
	case len(d.found) == 0:
		d.reject(reading.InvalidMetric, "it names metrics by an alias alone, and no birth message that explains it was seen: ask the edge node for a rebirth")
	default:
		d.found = append(d.found, candidate{metric: "alias", why: reading.InvalidMetric})
	}
}

func (d *Decoder) readSparkplugMetric(m *sparkplugMetric, stamp uint64, sc scope) {
	if m.null || m.kind == 0 || m.datatype == typeBoolean || m.datatype == typeDateTime || sparkplugOwn(m.name) {
		return
	}
	if m.time == 0 {
		m.time = stamp
	}
	if m.time > 0 {
		ms := int64(min(m.time, math.MaxInt64))
		if doubt := d.clock.doubt(ms, d.msg.Received); doubt != "" {
			d.out.BadClock, d.out.Detail = true, doubt
		} else {
			sc.at, sc.fromPayload = ms, true
		}
	}
	v := m.value()
	why := reading.Reason("")
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v, why = 0, reading.NotFinite
	}
	f, unit := d.inVolts(d.plainField(m.name), m.unit), m.unit
	if f.unit != "" && findUnit(f.unit, string(unit)) == nil {
		unit = nil // no unit that is known: the canonical one is supposed
	}
	d.add(&sc, f, unit, v, why)
}

// value is the number. Integers of all sizes come in two fields, in which a
// negative one is the two's complement (section 6.4.16).
func (m *sparkplugMetric) value() float64 {
	switch m.kind {
	case metricFloat:
		return float64(math.Float32frombits(uint32(m.bits)))
	case metricDouble:
		return math.Float64frombits(m.bits)
	}
	switch m.datatype {
	case typeInt8:
		return float64(int8(m.bits))
	case typeInt16:
		return float64(int16(m.bits))
	case typeInt32:
		return float64(int32(m.bits))
	case typeInt64:
		return float64(int64(m.bits))
	}
	return float64(m.bits)
}

// sparkplugOwn says whether a metric is Sparkplug's own: the sequence number of
// births, the controls and the properties of node and device.
func sparkplugOwn(name []byte) bool {
	group, _, ok := strings.Cut(string(name[:min(len(name), 32)]), "/")
	switch group {
	case "Node Control", "Device Control", "Node Info", "Device Info", "Properties":
		return ok
	}
	return string(name) == "bdSeq"
}
