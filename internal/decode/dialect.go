package decode

import (
	"slices"
	"strings"

	"gudang/internal/reading"
)

// This file is what the dialects share.

// level is the nth level of the message's topic from its end, 0 being the
// last, empty if there is none.
func (d *Decoder) level(n int) string {
	topic := d.msg.Topic
	for ; n > 0; n-- {
		i := strings.LastIndexByte(topic, '/')
		if i < 0 {
			return ""
		}
		topic = topic[:i]
	}
	return topic[strings.LastIndexByte(topic, '/')+1:]
}

// hasLevel says whether one of the levels of the topic is that text.
func (d *Decoder) hasLevel(text string) bool {
	topic := d.msg.Topic
	for {
		i := strings.IndexByte(topic, '/')
		if i < 0 {
			return topic == text
		}
		if topic[:i] == text {
			return true
		}
		topic = topic[i+1:]
	}
}

// noReading ends a message that is of a kind without readings.
func (d *Decoder) noReading() {
	d.ignore(reading.StatusWord, ReasonText(reading.StatusWord))
}

// parseObject makes a document of the payload of a dialect that sends JSON
// objects, or arrays of them, and reports false if the message is at its end:
// words such as "online" are no error anywhere.
func (d *Decoder) parseObject() bool {
	text := trim(d.msg.Payload)
	if len(text) == 0 || isStatus(text) {
		d.readText(text)
		return false
	}
	if !d.doc.parse(text) {
		d.reject(d.doc.why, d.doc.detail)
		return false
	}
	if k := d.doc.nodes[0].kind; k != anObject && k != anArray {
		if k == aBool || k == aNull {
			d.noReading()
		} else {
			d.reject(reading.NoReading, "it is JSON, but neither an object nor an array")
		}
		return false
	}
	d.prepare()
	return true
}

// finish ends a message of which nothing is said yet although nothing in it
// became a reading.
func (d *Decoder) finish() {
	if len(d.found) == 0 && d.out.Outcome == reading.Pending {
		d.noReading()
	}
}

// child is the member of that key of the object at that node, -1 if there is
// none; at may be -1.
func (d *Decoder) child(at int32, key string) int32 {
	if at < 0 || d.doc.nodes[at].kind != anObject {
		return -1
	}
	nodes := d.doc.nodes
	for i := at + 1; i < nodes[at].next; i = nodes[i].next {
		if string(d.doc.key(&nodes[i])) == key {
			return i
		}
	}
	return -1
}

// text is the trimmed text of a string or number, nil of anything else.
func (d *Decoder) text(at int32) []byte {
	if at < 0 || d.doc.nodes[at].kind != aString && d.doc.nodes[at].kind != aNumber {
		return nil
	}
	return trim(d.doc.val(&d.doc.nodes[at]))
}

// timed gives the scope the time that stands at a node, if there is one. It is
// for the dialects that say where their time is.
func (d *Decoder) timed(sc *scope, at int32) {
	if at < 0 || len(d.text(at)) == 0 {
		return
	}
	when := stamp{rank: 255}
	d.readTime(&d.doc.nodes[at], 0, &when)
	d.believe(sc, &when)
}

// ofTopic gives the scope the sensor that the topic names.
func (d *Decoder) ofTopic(sc *scope) {
	sc.sensor, sc.sensorWhy = d.topicSensor()
	sc.resolved, sc.fixed = true, true
}

// named gives the scope the sensor of that id, for good.
func (d *Decoder) named(sc *scope, id []byte) {
	sc.sensor, sc.sensorWhy = d.sensorID(id)
	sc.resolved, sc.fixed = true, true
}

// probeOf makes the scope one of a probe of the device: device/probe. It is a
// scope of its own, so that nothing in it is taken for a second value of what
// another probe measures.
func (d *Decoder) probeOf(sc scope, probe []byte) scope {
	d.scopes++
	sc.id = d.scopes
	if sc.sensorWhy == "" && len(probe) > 0 {
		d.scratch = append(append(append(d.scratch[:0], sc.sensor...), '/'), probe...)
		d.named(&sc, d.scratch)
	}
	return sc
}

// numbered says whether a name ends in what tells it from others of its kind:
// DS18B20-2, node_0, probe3.
func numbered(name string) bool { return name != "" && isDigit(name[len(name)-1]) }

// readState reads a payload that is the text of a topic where any word is a
// good one. What is no number is a state like any other, unless it looks as if
// it were to be one: "26,4" must not pass in silence.
func (d *Decoder) readState(text []byte, f *field, sc *scope) {
	if _, why := parseNumber(unquote(text)); notNumeric(why) && !numberLike(unquote(text)) {
		d.noReading()
		return
	}
	d.readNumber(text, f, sc)
}

// readNumber reads a payload that is the text of a topic where numbers belong.
// A sensor in sc that is not resolved is the topic's.
func (d *Decoder) readNumber(text []byte, f *field, sc *scope) {
	text = unquote(text)
	v, unit, why := measured(text, f, nil)
	switch {
	case why == reading.InvalidValue && (len(text) == 0 || isStatus(text)):
		d.noReading()
	case notNumeric(why):
		d.reject(why, notANumber(text, why, "the payload is no number"))
	case f.role != roleMetric && f.role != roleValue:
		d.reject(reading.NoReading, "the topic names no metric for the number")
	default:
		d.add(sc, f, unit, v, why)
	}
}

func unquote(text []byte) []byte {
	if len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"' {
		return trim(text[1 : len(text)-1])
	}
	return text
}

// metricIn finds the known metric at the end of a name, which is all that says
// what it is: cold_room_temperature, kitchen_dew_point. It is of that metric and
// not one of its kind, since the rest of the name is the sensor's. ok is false
// if there is none.
func (d *Decoder) metricIn(name string) (f field, ok bool) {
	for from := 0; ; {
		rest := name[from:]
		if f := d.names.getString(rest); f.known && (len(rest) >= 3 || f.name == "ph") {
			before := strings.TrimSuffix(name[:from], "_")
			if f.kind == "humidity" && slices.Contains(notRelative, before[strings.LastIndexByte(before, '_')+1:]) {
				return field{}, false
			}
			in := *f
			in.key = name
			d.names.rename(&in, f.kind)
			return in, true
		}
		i := strings.IndexByte(rest, '_')
		if i < 0 {
			return field{}, false
		}
		from += i + 1
	}
}
