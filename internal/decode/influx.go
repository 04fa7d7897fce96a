package decode

import (
	"bytes"

	"github.com/influxdata/line-protocol/v2/lineprotocol"

	"gudang/internal/reading"
)

// decodeInflux reads lines of InfluxDB's line protocol, as Telegraf sends them:
//
//	climate,site=dc1,sensor=dht22-11 temperature=26.4,humidity=48i 1773480413000000000
//
// The sensor is that of a tag, else {sensor}, else the tag "host", else that of
// the topic's wildcards: Telegraf adds the host that it runs on to all that it
// collects, which is seldom where the sensor is. The metric is the field, or
// the measurement if the field is called value. A line that is malformed costs
// itself and not its neighbours. Telegraf's JSON says the same in other words.
func decodeInflux(d *Decoder) {
	text := trim(d.msg.Payload)
	if len(text) == 0 || isStatus(text) {
		d.readText(text)
		return
	}
	if text[0] == '{' {
		d.readTelegraf()
		return
	}
	lines := lineprotocol.NewDecoderWithBytes(text)
	malformed := 0
	for lines.Next() && d.out.Outcome == reading.Pending {
		if err := d.readLine(lines); err != nil {
			malformed++
		}
	}
	switch {
	case malformed == 0 || d.out.Outcome != reading.Pending:
	case len(d.found) == 0:
		d.reject(reading.InvalidValue, "it is no line protocol")
	default:
		// Listed, so that the loss is seen.
		d.found = append(d.found, candidate{metric: "line", why: reading.InvalidValue})
	}
}

// readLine reads an entry. The parser's slices live until its next call.
func (d *Decoder) readLine(lines *lineprotocol.Decoder) error {
	name, err := lines.Measurement()
	if err != nil {
		return err
	}
	measurement := d.names.get(name)
	sc := d.newScope()
	unit, err := d.readTags(lines, &sc)
	if err != nil {
		return err
	}
	first := len(d.found)
	for {
		key, kind, value, err := lines.NextFieldBytes()
		if err != nil {
			d.found = d.found[:first]
			return err
		}
		if key == nil {
			break
		}
		d.readInfluxField(d.names.get(key), measurement, kind, value, unit, &sc)
	}
	at, err := lines.TimeBytes()
	if err != nil {
		d.found = d.found[:min(first, len(d.found))]
		return err
	}
	if len(at) == 0 {
		return nil
	}
	// The time is the last thing of a line.
	when := stamp{}
	if ms, ok := parseEpoch(at); !ok {
		when.doubt = malformedTime
	} else if when.doubt = d.clock.doubt(ms, d.msg.Received); when.doubt == "" {
		when.ms, when.believed = ms, true
	}
	d.believe(&sc, &when)
	for i := first; i < len(d.found); i++ {
		d.found[i].time, d.found[i].fromPayload = sc.at, sc.fromPayload
	}
	return nil
}

func (d *Decoder) readTags(lines *lineprotocol.Decoder, sc *scope) (unit []byte, err error) {
	best := tagRank(noTag)
	for {
		key, value, err := lines.NextTag()
		if err != nil {
			return nil, err
		}
		if key == nil {
			return unit, nil
		}
		if d.readTag(key, value, sc, &best) {
			unit = bytes.Clone(value)
		}
	}
}

// tagRank is that of the tag which names the sensor so far.
type tagRank uint8

const noTag = 255

// readTag takes the sensor from a tag that names it, and says whether the tag
// is of the unit.
func (d *Decoder) readTag(key, value []byte, sc *scope, best *tagRank) (isUnit bool) {
	isHost := string(key) == "host" && *best == noTag && !d.topic.route.sensor
	f := d.names.get(key)
	if isHost || f.role == roleSensor && tagRank(f.rank) < *best {
		if s, why := d.sensorID(value); why != reading.NoSensor {
			sc.sensor, sc.sensorWhy, sc.resolved = s, why, true
			if !isHost {
				*best = tagRank(f.rank)
			}
		}
	}
	return f.role == roleUnit
}

// readInfluxField adds a number. A truth value or a text is none.
func (d *Decoder) readInfluxField(f, measurement *field, kind lineprotocol.ValueKind, value, unit []byte, sc *scope) {
	if kind != lineprotocol.Float && kind != lineprotocol.Int && kind != lineprotocol.Uint {
		return
	}
	switch f.role {
	case roleNone, roleTime, roleSensor:
		return
	case roleValue:
		if measurement.role == roleMetric {
			f = measurement
		}
	case roleMetric:
	default:
		f = d.plainField([]byte(f.key))
	}
	if findUnit(f.unit, string(unit)) == nil && f.unit != "" {
		unit = nil // of another field
	}
	if kind != lineprotocol.Float && len(value) > 0 {
		value = bytes.TrimRight(value, "iu")
	}
	v, why := parseNumber(value)
	d.add(sc, f, unit, v, why)
}
