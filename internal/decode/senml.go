package decode

import (
	"bytes"
	"math"

	"gudang/internal/reading"
)

// The labels of SenML (RFC 8428, section 4) that something is made of here. The
// values that are no numbers only tell that a record is complete.
const (
	senMLNewest   = 10      // the version (bver) of RFC 8428
	senMLAbsolute = 1 << 28 // seconds: smaller times are relative to now, section 4.5.3
)

// senMLRecord is what a record says. What it does not say is nil.
type senMLRecord struct {
	bn, bt, bu, bv, bs, bver *node
	n, u, t, v, s            *node
	others                   int // values that are no numbers: vs, vb, vd
	unknown                  []byte
}

// decodeSenML reads a SenML pack (RFC 8428) in JSON.
func decodeSenML(d *Decoder) {
	if !d.parseObject() {
		return
	}
	if d.doc.nodes[0].kind != anArray {
		d.reject(reading.NoReading, "SenML is a JSON array of records")
		return
	}
	d.readSenML()
}

// isSenML says whether an array is a SenML pack and no array of another kind:
// its first record has a base name, or nothing but labels of SenML, among them
// another base field or a name and a value.
func (d *Decoder) isSenML() bool {
	nodes := d.doc.nodes
	if nodes[0].kind != anArray || len(nodes) < 2 || nodes[1].kind != anObject {
		return false
	}
	based, named, valued, others := false, false, false, false
	for i := int32(2); i < nodes[1].next; i = nodes[i].next {
		n := &nodes[i]
		switch string(d.doc.key(n)) {
		case "bn":
			if n.kind == aString {
				return true
			}
		case "bt", "bv", "bs", "bver":
			based = based || n.kind == aNumber
		case "n":
			named = n.kind == aString
		case "v", "vs", "vb", "vd", "s":
			valued = true
		case "bu", "u", "t", "ut":
		default:
			others = true
		}
	}
	return (based || named && valued) && !others
}

// senMLBase are the base fields in force: each record that has one sets it for
// itself and for those behind it (section 4.1).
type senMLBase struct {
	name, unit []byte
	micros     float64 // of the base time
	timed      bool
	value, sum float64
}

// readSenML reads the records of the pack. A mistake in a base field spoils all
// that is behind it, and a field that must be understood may change the meaning
// of all: these refuse the pack. Any other mistake costs its record.
func (d *Decoder) readSenML() {
	nodes := d.doc.nodes
	d.found = room(d.found, min(d.doc.members, MaxReadings))
	var base senMLBase
	for i := int32(1); i < nodes[0].next; i = nodes[i].next {
		if nodes[i].kind != anObject {
			d.reject(reading.NoReading, "a SenML record is no JSON object")
			return
		}
		r := d.senMLRecord(i)
		switch {
		case r.unknown != nil:
			d.reject(reading.NoReading, "a SenML field whose name ends in _ must be understood, and is not")
			return
		case !d.rebase(&base, &r):
			d.reject(reading.InvalidValue, "a base field of SenML is of the wrong type, or its version is above 10")
			return
		}
		d.readSenMLRecord(&base, &r)
	}
}

func (d *Decoder) senMLRecord(at int32) (r senMLRecord) {
	nodes := d.doc.nodes
	for i := at + 1; i < nodes[at].next; i = nodes[i].next {
		n := &nodes[i]
		switch key := d.doc.key(n); string(key) {
		case "bn":
			r.bn = n
		case "bt":
			r.bt = n
		case "bu":
			r.bu = n
		case "bv":
			r.bv = n
		case "bs":
			r.bs = n
		case "bver":
			r.bver = n
		case "n":
			r.n = n
		case "u":
			r.u = n
		case "t":
			r.t = n
		case "v":
			r.v = n
		case "s":
			r.s = n
		case "vs", "vb", "vd":
			r.others++
		default: // section 4.4
			if bytes.HasSuffix(key, []byte{'_'}) {
				r.unknown = key
			}
		}
	}
	return r
}

// rebase takes over the base fields of a record.
func (d *Decoder) rebase(base *senMLBase, r *senMLRecord) bool {
	for _, text := range []struct {
		n  *node
		to *[]byte
	}{{r.bn, &base.name}, {r.bu, &base.unit}} {
		if text.n == nil {
			continue
		}
		if text.n.kind != aString {
			return false
		}
		*text.to = d.doc.val(text.n)
	}
	version := 0.0
	for _, number := range []struct {
		n  *node
		to *float64
	}{{r.bt, &base.micros}, {r.bv, &base.value}, {r.bs, &base.sum}, {r.bver, &version}} {
		if number.n == nil {
			continue
		}
		v, ok := d.senMLNumber(number.n)
		if !ok {
			return false
		}
		*number.to = v
	}
	if r.bt != nil {
		base.micros, base.timed = math.Round(base.micros*1e6), true
	}
	return r.bver == nil || version >= 1 && version <= senMLNewest && version == math.Trunc(version)
}

func (d *Decoder) senMLNumber(n *node) (v float64, ok bool) {
	if n.kind != aNumber {
		return 0, false
	}
	v, why := parseNumber(d.doc.val(n))
	return v, why == ""
}

func (d *Decoder) readSenMLRecord(base *senMLBase, r *senMLRecord) {
	if r.v == nil && r.s == nil {
		return // a text, a truth value, data, or base fields alone
	}
	unit := base.unit
	if r.u != nil && r.u.kind == aString {
		unit = d.doc.val(r.u)
	}
	var name []byte
	if r.n != nil && r.n.kind == aString {
		name = d.doc.val(r.n)
	}
	sc := d.newScope()
	f := d.senMLName(base.name, name, unit, &sc)
	d.senMLTime(base, r.t, &sc)
	malformed := r.n != nil && r.n.kind != aString || r.u != nil && r.u.kind != aString || r.v != nil && r.others > 0
	if r.v != nil {
		v, why := d.senMLValue(r.v, base.value)
		if malformed {
			why = reading.InvalidValue
		}
		f, unit := d.senMLUnit(f, unit)
		d.add(&sc, f, unit, v, why)
	}
	if r.s != nil {
		v, why := d.senMLValue(r.s, base.sum)
		if malformed {
			why = reading.InvalidValue
		}
		d.scratch = append(append(d.scratch[:0], f.name...), "_sum"...)
		// The integral of a quantity over time has another unit than it.
		d.add(&sc, d.plainField(d.scratch), nil, v, why)
	}
}

func (d *Decoder) senMLValue(n *node, base float64) (float64, reading.Reason) {
	text := d.doc.val(n)
	if n.kind == aString {
		text = trim(text)
	}
	switch n.kind {
	case aNumber, aString:
		v, why := parseNumber(text)
		return base + v, why
	case aNotFinite:
		return 0, reading.NotFinite
	case aBool:
		return 0, reading.Boolean
	}
	return 0, reading.InvalidValue
}

// senMLTime adds base time and time, and takes what is below 2^28 s as relative
// to now, which is the receive time. Without either the time is now.
func (d *Decoder) senMLTime(base *senMLBase, t *node, sc *scope) {
	micros := base.micros
	if t != nil {
		v, ok := d.senMLNumber(t)
		if !ok {
			d.out.BadClock, d.out.Detail = true, malformedTime
			return
		}
		micros += math.Round(v * 1e6)
	}
	if t == nil && !base.timed || micros == 0 {
		return
	}
	if !(math.Abs(micros) < 1<<62) {
		d.out.BadClock, d.out.Detail = true, malformedTime
		return
	}
	ms := floorDiv(int64(micros), 1000)
	relative := math.Abs(micros) < senMLAbsolute*1e6
	if relative {
		ms += d.msg.Received
	}
	if doubt := d.clock.doubt(ms, d.msg.Received); doubt != "" {
		d.out.BadClock, d.out.Detail = true, doubt
		return
	}
	// A retained message is as old as it likes: what is relative to now then
	// says nothing.
	if !relative || !d.msg.Retained {
		sc.at, sc.fromPayload = ms, true
	}
}

// senMLName takes the concatenated name apart (section 4.5.1): the device, and
// the metric behind its last "/" or ":". A name that is a device alone has the
// metric of its unit.
//
//	bn "urn:dev:ow:10e2073a01080063:", n "voltage"
//	bn "S-0001/", n "temperature"
//	n "2001:db8::4", u "%RH"
//	n "temperature", which leaves the device to the topic
func (d *Decoder) senMLName(bn, n, unit []byte, sc *scope) *field {
	name := append(append(d.scratch[:0], bn...), n...)
	d.scratch = name
	cut := len(name) // where the metric begins
	switch i := bytes.LastIndexAny(n, "/:"); {
	case len(n) > 0 && len(bn) > 0 && isMetricPart(n[i+1:]):
		cut = len(bn) + i + 1
	case len(n) > 0 && len(bn) > 0:
	default:
		cut = wholeName(name, unit)
		if cut < 0 {
			cut = len(name)
			if f := d.names.get(name); f.known || senMLMetric(unit) == "" && d.topicHasSensor() {
				cut = 0
			}
		}
	}
	device, metric := name[:cut], name[cut:]
	if len(metric) > 0 && len(device) > 1 && bytes.IndexByte([]byte("/:_.-"), device[len(device)-1]) >= 0 {
		device = device[:len(device)-1]
	}
	if len(device) > 0 || len(name) == 0 && !d.topicHasSensor() {
		sc.sensor, sc.sensorWhy = d.sensorID(device)
		sc.resolved = true
	}
	if !validSenMLName(name) && len(name) > 0 {
		sc.sensorWhy, sc.resolved = reading.InvalidSensor, true
	}
	if len(metric) == 0 {
		if m := senMLMetric(unit); m != "" {
			return d.names.getString(m)
		}
		return d.names.getString(valueMetric)
	}
	return d.plainField(metric)
}

// wholeName finds the metric in a name that comes in one piece: its index, the
// length if there is none, -1 if the name is a single word.
func wholeName(name, unit []byte) int {
	i := bytes.LastIndexAny(name, "/:")
	if bytes.HasPrefix(name, []byte("urn:dev:")) && bytes.Count(name, []byte{':'}) == 3 && bytes.IndexByte(name, '/') < 0 {
		// RFC 9039: the third ":" is before the identifier, and "_" is
		// before the part of a device.
		if under := bytes.LastIndexByte(name, '_'); under > i {
			return under + 1
		}
		return len(name)
	}
	switch {
	case i < 0:
		return -1
	case isMetricPart(name[i+1:]) && (name[i] == '/' || senMLMetric(unit) == "" || len(name)-i > 4):
		return i + 1
	}
	return len(name)
}

// isMetricPart tells the name of a metric from a part of an address or a
// number: it begins with a letter and is not all hexadecimal.
func isMetricPart(b []byte) bool {
	if len(b) == 0 || !isLower(b[0]) && !isUpper(b[0]) {
		return false
	}
	for _, c := range b {
		if !isDigit(c) && c != '-' && !('a' <= c && c <= 'f') && !('A' <= c && c <= 'F') {
			return true
		}
	}
	return len(b) < 4 // "a", "db"
}

// validSenMLName says whether a name has the characters that section 4.5.1
// lets it have.
func validSenMLName(name []byte) bool {
	for i, c := range name {
		if !isDigit(c) && !isLower(c) && !isUpper(c) && (i == 0 || bytes.IndexByte([]byte("-:./_"), c) < 0) {
			return false
		}
	}
	return true
}

// topicHasSensor says whether the topic would name a sensor.
func (d *Decoder) topicHasSensor() bool { return d.topic.route.sensor || len(d.topic.loose) > 0 }

// plainField is the field of a name that is a metric's whatever else it could
// mean as a key of JSON: SenML's "model" and "id" are numbers that were
// measured.
func (d *Decoder) plainField(name []byte) *field {
	f := d.names.get(name)
	if f.role == roleMetric {
		return f
	}
	plain := field{role: roleMetric, name: snake(string(name)), key: string(name), lo: -reading.MaxValue, hi: reading.MaxValue}
	if plain.name == "" || len(plain.name) > MaxMetric {
		plain.name, plain.invalid = string(name[:utf8Cut(string(name), MaxMetric)]), true
	}
	return &plain
}
