package decode

import (
	"bytes"

	"gudang/internal/reading"
)

// decodeAuto reads what is a number, or JSON, whichever it looks like.
func decodeAuto(d *Decoder) {
	text := trim(d.msg.Payload)
	if len(text) > 0 && (text[0] == '{' || text[0] == '[' || text[0] == '"' || bytes.HasPrefix(text, []byte("\uFEFF"))) {
		decodeJSON(d)
		return
	}
	d.readText(text)
}

// decodeJSON reads JSON of no particular sender:
//
//	{"temperature": 22.4, "humidity": "41", "ts": 1773480413}
//	{"temperature": {"value": 72.3, "unit": "F"}}
//	{"AM2301": {"Temperature": 4.6, "Humidity": 78.2}, "computed": {"dew_point": 1.1}}
//	{"sensor": "rack-1", "metric": "temperature", "value": 22.4}
//	{"id": "rack-1", "readings": [{"ts": 1773480413, "t": 22.4}, …]}
//	[{"id": "rack-1", "t": 22.4}, {"id": "rack-2", "t": 21.9}]
//	{"id": "rack-1", "sensors": [{"name": "in", "t": 22.4}, {"name": "out", "t": 3.1}]}
//
// Each number under a key is a reading, unless the key is known to be none.
func decodeJSON(d *Decoder) {
	text := trim(d.msg.Payload)
	if len(text) == 0 || isStatus(text) { // "online" needs no quotes
		d.readText(text)
		return
	}
	if !d.doc.parse(text) {
		d.reject(d.doc.why, d.doc.detail)
		return
	}
	switch root := &d.doc.nodes[0]; root.kind {
	case anObject, anArray:
		if d.isSenML() {
			d.readSenML()
			return
		}
		d.readDocument()
	case aString:
		d.readText(trim(d.doc.val(root)))
	default:
		d.readText(d.doc.val(root))
	}
}

// prepare makes room for what the document's nodes mean and are.
func (d *Decoder) prepare() {
	n := len(d.doc.nodes)
	if cap(d.fields) < n {
		d.fields = make([]*field, n, n+n/2)
	}
	d.fields = d.fields[:n]
	clear(d.fields)
	d.found = room(d.found, min(d.doc.members, MaxReadings))
}

func (d *Decoder) readDocument() {
	d.prepare()
	if d.doc.nodes[0].kind == anObject {
		d.readObject(0, d.newScope())
	} else {
		d.readArray(0, d.newScope())
	}
	if len(d.found) > 0 || d.out.Outcome != reading.Pending {
		return
	}
	for i := range d.doc.nodes {
		if k := d.doc.nodes[i].kind; (k == aNumber || k == aNotFinite) && unread(d.fields[i]) {
			d.reject(reading.NoReading, "it holds numbers, none of them where a reading is looked for")
			return
		}
	}
	d.ignore(reading.StatusWord, ReasonText(reading.StatusWord))
}

func unread(f *field) bool {
	return f == nil || f.role == roleHolder || f.role == roleMetric || f.role == roleValue
}

// scope is what an object says of all readings in it, its own or inherited.
type scope struct {
	id          int32 // of the outermost object, or element of an array
	probe       int32 // node of the named group that the readings stand in; 0: none
	sensor      string
	sensorWhy   reading.Reason
	resolved    bool // sensor and sensorWhy are set
	fixed       bool // and no key can name another one
	at          int64
	fromPayload bool
	unit        []byte // of a "value" in the object
	temperature []byte // unit of all temperatures
	pressure    []byte // likewise
	metric      *field // of a "value" in the object
}

func (d *Decoder) newScope() scope {
	d.scopes++
	return scope{id: d.scopes, at: d.msg.Received}
}

func (d *Decoder) readArray(at int32, sc scope) {
	nodes := d.doc.nodes
	name := d.elementName(at)
	for i := at + 1; i < nodes[at].next; i = nodes[i].next {
		d.scopes++
		sc.id = d.scopes
		switch {
		case name != "":
			d.readObject(i, d.element(sc, d.text(d.child(i, name))))
		case nodes[i].kind == anObject:
			d.readObject(i, sc)
		case nodes[i].kind == anArray:
			d.readArray(i, sc)
		}
	}
}

// readObject reads an object that may name its sensor and hold others. Its
// recursion is bounded by MaxDepth.
func (d *Decoder) readObject(at int32, sc scope) {
	d.survey(at, &sc, true)
	if !sc.resolved {
		sc.sensor, sc.sensorWhy = d.topicSensor()
		sc.resolved = true
	}
	nodes := d.doc.nodes
	for i := at + 1; i < nodes[at].next; i = nodes[i].next {
		f, n := d.fields[i], &nodes[i]
		switch {
		case n.kind == anObject && (f.role == roleHolder || f.role == roleValue):
			d.readObject(i, sc)
		case n.kind == anArray && (f.role == roleHolder || f.role == roleValue):
			d.readArray(i, sc)
		case n.kind == anObject && (f.role == roleMetric || f.role == roleMetricID):
			d.readGroup(i, f, sc)
		default:
			d.readScalar(n, f, &sc)
		}
	}
}

// readGroup reads an object under a key that is a metric, {"temperature":
// {"value": 22.4}}, or the name of a probe or a kind of readings, {"AM2301":
// {"Temperature": 4.6}}.
func (d *Decoder) readGroup(at int32, group *field, sc scope) {
	if d.survey(at, &sc, false) && group.role == roleMetric {
		sc.metric = group
	}
	nodes := d.doc.nodes
	for i := at + 1; i < nodes[at].next; i = nodes[i].next {
		f, n := d.fields[i], &nodes[i]
		switch {
		case f.role == roleValue:
			d.readScalar(n, f, &sc)
		case f.role != roleMetric:
		case group.known:
			d.readPart(n, group, f, &sc)
		case n.kind == anObject:
			inner := sc
			inner.probe = at
			d.readValue(i, f, inner)
		default:
			inner := sc
			inner.probe = at
			d.readScalar(n, f, &inner)
		}
	}
}

// readValue reads {"value": 22.4, "unit": "C"} and nothing else of an object.
func (d *Decoder) readValue(at int32, metric *field, sc scope) {
	if !d.survey(at, &sc, false) {
		return
	}
	sc.metric = metric
	nodes := d.doc.nodes
	for i := at + 1; i < nodes[at].next; i = nodes[i].next {
		if d.fields[i].role == roleValue {
			d.readScalar(&nodes[i], d.fields[i], &sc)
		}
	}
}

// readPart reads a member of an object under a metric's key: its value in the
// unit that the member is named by, {"temperature": {"celsius": 22.4}}, or a
// metric of its own, {"temperature": {"min": 21.9}}.
func (d *Decoder) readPart(n *node, group, f *field, sc *scope) {
	key := d.doc.key(n)
	switch u := findUnit(group.unit, string(key)); {
	case f.name == group.name:
		d.readScalar(n, f, sc)
	case u != nil:
		in := *group
		in.declare(string(key))
		d.readScalar(n, &in, sc)
	default:
		d.scratch = append(append(append(d.scratch[:0], group.name...), '_'), key...)
		d.readScalar(n, d.names.get(d.scratch), sc)
	}
}

// survey looks through the members of an object for what they say of the
// others, wherever they stand, and reports whether there is a "value". Only an
// object that stands for a device can name the sensor: Tasmota's probes have
// an "Id" of their own.
func (d *Decoder) survey(at int32, sc *scope, device bool) (hasValue bool) {
	const none = 255
	nodes := d.doc.nodes
	sensorRank, metricRank := uint8(none), uint8(none)
	when := stamp{rank: none}
	var t *node // of the key "t"
	var tAt int32
	if !device {
		sc.metric, sc.unit = nil, nil
	}
	for i := at + 1; i < nodes[at].next; i = nodes[i].next {
		n := &nodes[i]
		f := d.names.get(d.doc.key(n))
		d.fields[i] = f
		hasValue = hasValue || f.role == roleValue && n.kind != anObject && n.kind != anArray
		if n.kind != aString && n.kind != aNumber {
			continue
		}
		switch f.role {
		case roleMetric:
			if f.timeLike {
				t, tAt = n, i
			}
		case roleTime:
			d.readTime(n, f.rank, &when)
		case roleSensor:
			if device && !sc.fixed && f.rank < sensorRank && d.readSensor(n, sc) {
				sensorRank = f.rank
			}
		case roleUnit:
			if n.kind == aString {
				sc.unit = d.doc.val(n)
			}
		case roleUnitOf:
			if n.kind == aString && f.unit == "°C" {
				sc.temperature = d.doc.val(n)
			} else if n.kind == aString && f.unit == "hPa" {
				sc.pressure = d.doc.val(n)
			}
		case roleMetricID:
			// "name" and "type" say many things: only a known metric counts.
			if m := d.names.get(d.doc.val(n)); n.kind == aString && f.rank < metricRank && m.role == roleMetric && (m.known || f.rank < vagueMetricKeys) {
				sc.metric, metricRank = m, f.rank
			}
		}
	}
	if t != nil && (hasValue || d.isEpoch(t)) {
		d.fields[tAt] = d.names.getString(timeKeys[0])
		d.readTime(t, none-1, &when)
	}
	d.believe(sc, &when)
	return hasValue
}

// believe gives the scope a time, or the receive time if it is not believed.
func (d *Decoder) believe(sc *scope, when *stamp) {
	switch {
	case when.believed:
		sc.at, sc.fromPayload = when.ms, true
	case when.doubt != "":
		sc.at, sc.fromPayload = d.msg.Received, false
		d.out.BadClock, d.out.Detail = true, when.doubt
	}
}

// stamp is the best time of an object so far.
type stamp struct {
	ms       int64
	rank     uint8
	believed bool
	doubt    string // why the first one was not believed
}

func (d *Decoder) readTime(n *node, rank uint8, best *stamp) {
	text := trim(d.doc.val(n))
	if len(text) == 0 || best.believed && best.rank <= rank {
		return
	}
	ms, ok := d.clock.parse(text, d.msg.Received)
	doubt := malformedTime
	if ok {
		doubt = d.clock.doubt(ms, d.msg.Received)
	}
	if doubt == "" {
		best.ms, best.rank, best.believed = ms, rank, true
	} else if best.doubt == "" {
		best.doubt = doubt
	}
}

// isEpoch says whether a number is a time since 1970 that is believed, which
// no temperature is.
func (d *Decoder) isEpoch(n *node) bool {
	ms, ok := parseEpoch(trim(d.doc.val(n)))
	return ok && d.clock.doubt(ms, d.msg.Received) == ""
}

// readSensor takes text or an integer as the sensor id. An empty one is none.
func (d *Decoder) readSensor(n *node, sc *scope) bool {
	id := d.doc.val(n)
	if n.kind == aNumber && !allDigits(bytes.TrimPrefix(id, []byte{'-'})) {
		return false
	}
	s, why := d.sensorID(id)
	if why == reading.NoSensor {
		return false
	}
	sc.sensor, sc.sensorWhy, sc.resolved = s, why, true
	return true
}

// readScalar adds the number of a member, if it is to be one.
func (d *Decoder) readScalar(n *node, f *field, sc *scope) {
	unit := sc.unit
	switch {
	case f.role == roleValue:
		if f = sc.metric; f == nil {
			f = d.topicMetric()
		}
		if f.role != roleMetric && f.role != roleValue {
			return
		}
	case f.role != roleMetric:
		return
	case findUnit(f.unit, string(unit)) == nil:
		unit = nil // of something else in the object
	}
	if unit == nil && f.unit == "°C" {
		unit = sc.temperature
	} else if unit == nil && f.unit == "hPa" {
		unit = sc.pressure
	}
	expected := f.known || f.role == roleValue || n.kind == aNumber
	switch n.kind {
	case aNumber:
		v, why := parseNumber(d.doc.val(n))
		d.add(sc, f, unit, v, why)
	case aNotFinite:
		d.add(sc, f, unit, 0, reading.NotFinite)
	case aString:
		text := trim(d.doc.val(n))
		v, unit, why := measured(text, f, unit)
		switch {
		case len(text) == 0 || why == reading.InvalidValue && isStatus(text):
			d.addNothing(sc, f)
		case expected || why == "" && plainDecimal(text):
			d.add(sc, f, unit, v, why)
		}
	case aNull:
		d.addNothing(sc, f)
	case aBool, anArray:
		if !expected {
			return
		}
		why := reading.InvalidValue
		if n.kind == aBool {
			why = reading.Boolean
		}
		d.add(sc, f, unit, 0, why)
	}
}

// plainDecimal says whether text under an unknown key is to be a number: "007"
// and "1e9" are rather a part number.
func plainDecimal(text []byte) bool {
	digits := bytes.TrimPrefix(text, []byte{'-'})
	if len(digits) == 0 || len(digits) > 20 || !isDigit(digits[0]) || len(digits) > 1 && digits[0] == '0' && digits[1] != '.' {
		return false
	}
	return allDigits(bytes.Replace(digits, []byte{'.'}, nil, 1))
}
