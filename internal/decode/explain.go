package decode

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gudang/internal/reading"
)

// Origin is where the parts of a reading come from, in words.
type Origin struct{ Sensor, Metric, Value, Time string }

// Explanation is what a person wants to know of a result.
type Explanation struct {
	Entry   string // of MQTT_TOPICS, empty if none matches
	Decoder string
	Values  []Origin // of Result.Values
	Dropped []string // why each of Result.Dropped was left out
}

// Explain says where all that is in r comes from, which Decode has just made of
// m. It reads the message once more and looks for what r has: so that decoding
// itself need not keep what nobody asks for.
func (d *Decoder) Explain(m Message, r *Result) Explanation {
	var e Explanation
	rt := d.match(m.Topic)
	if rt == nil {
		return e
	}
	e.Entry, e.Decoder = rt.entry, rt.format.name
	d.msg = m
	x := explainer{d: d, m: m, route: rt, generic: e.Decoder == auto || e.Decoder == "json"}
	x.json = len(m.Payload) <= d.maxSize && d.doc.parse(trim(m.Payload))
	for _, v := range r.Values {
		e.Values = append(e.Values, Origin{x.sensor(v.Sensor), x.metric(v), x.value(v), x.time(v, r)})
	}
	for _, dropped := range r.Dropped {
		e.Dropped = append(e.Dropped, x.dropped(dropped))
	}
	d.msg, d.doc.buf = Message{}, nil
	return e
}

type explainer struct {
	d       *Decoder
	m       Message
	route   *route
	generic bool // its decoder looks for the keys of the tables, and no others
	json    bool // d.doc has the payload
}

const fromPayload = "from the payload"

func payloadKey(key []byte) string { return fromPayload + "'s " + word(key) }

// word is a name out of a message, quoted where it is not plain.
func word(text []byte) string {
	s := string(text)
	if q := strconv.Quote(s); strings.ContainsAny(s, " ,;:") || len(q) != len(s)+2 {
		return q
	}
	return s
}

// find is the first member of the payload for which ok is true.
func (x *explainer) find(ok func(n *node, key, val []byte) bool) *node {
	if !x.json {
		return nil
	}
	doc := &x.d.doc
	for i := range doc.nodes {
		n := &doc.nodes[i]
		if n.key.end > n.key.start && ok(n, doc.key(n), doc.val(n)) {
			return n
		}
	}
	return nil
}

func scalar(n *node) bool { return n.kind == aString || n.kind == aNumber }

func (x *explainer) sensor(id string) string {
	if where := x.whole(id); where != "" {
		return where
	}
	// device/probe: a slash in the middle that nothing in the message has.
	for i := strings.LastIndexByte(id, '/'); i > 0; i = strings.LastIndexByte(id[:i], '/') {
		if where := x.whole(id[:i]); where != "" {
			return where + ", probe " + word([]byte(id[i+1:])) + " from the payload"
		}
	}
	return fromPayload
}

// whole is where an id stands in one piece, empty if it does so nowhere.
func (x *explainer) whole(id string) string {
	d := x.d
	n := x.find(func(n *node, key, val []byte) bool {
		if !scalar(n) {
			return false
		}
		if d.names.get(key).role == roleSensor {
			return string(val) == id
		}
		return !x.generic && n.kind == aString && strings.TrimRight(string(val), ":/._-") == id
	})
	if n != nil {
		return payloadKey(d.doc.key(n))
	}
	if !x.generic {
		if n := x.find(func(_ *node, key, _ []byte) bool { return string(key) == id }); n != nil {
			return "a key of the payload"
		}
	}
	if c := &d.topic; c.route.sensor && c.sensor.of(x.m.Topic) == id {
		return levels(x.m.Topic, int(c.sensor.start), int(c.sensor.end))
	}
	if i := strings.Index("/"+x.m.Topic+"/", "/"+id+"/"); i >= 0 {
		return levels(x.m.Topic, i, i+len(id))
	}
	if own, _ := d.topicSensor(); own == id {
		return "from what the wildcards matched in the topic"
	}
	if !x.json && bytes.Contains(x.m.Payload, []byte(id)) {
		return fromPayload
	}
	return ""
}

// levels names the levels of a topic, the first of which is 1.
func levels(topic string, start, end int) string {
	first := 1 + strings.Count(topic[:start], "/")
	if last := first + strings.Count(topic[start:end], "/"); last > first {
		return fmt.Sprintf("from topic levels %d to %d", first, last)
	}
	return fmt.Sprintf("from topic level %d", first)
}

func (x *explainer) metric(v Value) string {
	key := []byte(v.key)
	if v.key == "" {
		return fromPayload
	}
	if n := x.find(func(_ *node, k, _ []byte) bool { return bytes.Equal(k, key) }); n != nil && v.Metric != valueMetric {
		return payloadKey(key)
	}
	if n := x.find(func(n *node, _, val []byte) bool { return n.kind == aString && bytes.Equal(val, key) }); n != nil {
		return payloadKey(x.d.doc.key(n))
	}
	topic := x.m.Topic
	if i := strings.LastIndex("/"+topic+"/", "/"+v.key+"/"); i >= 0 {
		return levels(topic, i, i+len(v.key))
	}
	if v.Metric == valueMetric && (x.generic || x.route.format.name == "number") {
		return "nothing names it: a level {metric} of the template would"
	}
	return fromPayload
}

// value says from what unit a value was converted.
func (x *explainer) value(v Value) string {
	if v.given == v.Value {
		return ""
	}
	sent := "converted from " + number(v.given)
	for i := range units {
		if u := &units[i]; u.Canonical == v.Unit && u.canonical(v.given) == v.Value {
			return sent + " " + unitSign(u.Spellings[0])
		}
	}
	return sent
}

// unitSign is a spelling of the table as people write it.
func unitSign(spelling string) string {
	signs := map[string]string{"c": "°C", "f": "°F", "k": "K", "pa": "Pa", "kpa": "kPa", "inhg": "inHg", "mmhg": "mmHg", "mv": "mV", "/": "(a ratio)"}
	if sign, ok := signs[spelling]; ok {
		return sign
	}
	return spelling
}

func (x *explainer) time(v Value, r *Result) string {
	switch {
	case !v.FromPayload && r.BadClock:
		return r.Detail
	case !v.FromPayload:
		return "the payload has no time: receive time"
	}
	n := x.find(func(n *node, key, val []byte) bool {
		if f := x.d.names.get(key); !scalar(n) || f.role != roleTime && !f.timeLike && x.generic {
			return false
		}
		ms, ok := x.d.clock.parse(trim(val), x.m.Received)
		return ok && ms == v.Time
	})
	if n == nil {
		return fromPayload
	}
	text := trim(x.d.doc.val(n))
	note := payloadKey(x.d.doc.key(n))
	if _, zoned, ok := parseDate(text); ok && !zoned {
		return note + ", which has no zone: TIMEZONE " + x.d.clock.zone.String()
	} else if ok {
		return note
	}
	whole, _, _ := bytes.Cut(text, []byte{'.'})
	if i, err := strconv.ParseInt(string(whole), 10, 64); err == nil {
		return note + ", in " + [...]string{"s", "ms", "µs", "ns"}[magnitude(i)] + " since 1970"
	}
	return note
}

func magnitude(n int64) int {
	limits := []int64{secondsBelow, millisBelow, microsBelow}
	if i := slices.IndexFunc(limits, func(limit int64) bool { return -limit < n && n < limit }); i >= 0 {
		return i
	}
	return len(limits)
}

func (x *explainer) dropped(m Dropped) string {
	if m.Reason != reading.OutOfRange {
		return ReasonText(m.Reason)
	}
	f := x.d.names.getString(m.Metric)
	unit := ""
	if f.unit != "" {
		unit = " " + f.unit
	}
	return fmt.Sprintf("%s was sent, plausible is %s to %s%s (METRIC_RANGES changes it)", number(m.given), number(f.lo), number(f.hi), unit)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// Suggest finds entries of MQTT_TOPICS with which something of the message
// would be stored: fleets whose topic it is, and a template made of the topic.
func Suggest(cfg Config, m Message) []string {
	m.Retained = false // whether it is stored must not depend on when it came
	var entries []string
	for _, f := range Fleets() {
		entries = append(entries, f.Name)
	}
	entries = append(entries, template(m.Topic))
	return slices.DeleteFunc(entries, func(entry string) bool {
		cfg.Topics = []string{entry}
		d, err := New(cfg)
		if err != nil {
			return true
		}
		var r Result
		d.Decode(m, &r)
		return r.Outcome != reading.Pending
	})
}

// endings are last levels of a topic that name neither sensor nor metric.
var endings = []string{
	"reading", "readings", "telemetry", "state", "status", "data", "sensor", "sensors", "batch", "json", "value", "values", "measurement", "measurements", "up", "update", "event", "events",
}

// template guesses which level of a topic is the sensor.
func template(topic string) string {
	parts := strings.Split(topic, "/")
	last := len(parts) - 1
	n, err := newNames(nil)
	if err != nil {
		return ""
	}
	switch {
	case last > 0 && n.getString(parts[last]).known:
		parts[last], parts[last-1] = "{metric}", "{sensor}"
	case last > 0 && slices.Contains(endings, strings.ToLower(parts[last])):
		parts[last-1] = "{sensor}"
	default:
		parts[last] = "{sensor}"
	}
	return strings.Join(parts, "/")
}
