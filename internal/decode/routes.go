package decode

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A route is an entry of MQTT_TOPICS, or a part of one that names a fleet:
// which topics it wants, what their levels mean, and how their payloads are
// read.
//
//	template[=decoder]
//	fleet
//
// A template is an MQTT topic filter in which a level may be {sensor} or
// {metric}, which match what "+" matches, or {sensor...}, which matches one or
// more levels, in any place. What is behind the last "=" is the decoder; a
// topic that itself holds "=" needs one named.
type route struct {
	entry  string
	filter string // what is subscribed to: may match more than the template
	format *format
	levels []level
	multi  int // index of the level that matches several; -1: none
	sensor bool
	metric bool
}

type level struct {
	kind levelKind
	text string // of a literal
}

type levelKind uint8

const (
	literal    levelKind = iota
	anyLevel             // +
	anyLevels            // #
	aSensor              // {sensor}
	aMetric              // {metric}
	sensorRest           // {sensor...}
)

const maxTopic = 65535 // bytes: MQTT 3.1.1, section 4.7.3

func parseRoutes(entries []string) ([]*route, error) {
	if len(entries) == 0 {
		return nil, errors.New("no topic to read: MQTT_TOPICS is empty")
	}
	var routes, wild []*route
	last := 0 // behind the last fleet
	for _, entry := range entries {
		name := strings.TrimSpace(entry)
		fleet := findFleet(name)
		if fleet == nil {
			r, err := parseRoute(name)
			if err != nil {
				return nil, fmt.Errorf("cannot use topic %q: %w", entry, err)
			}
			routes = append(routes, r)
			continue
		}
		rs, err := fleet.routes()
		if err != nil {
			return nil, fmt.Errorf("BUG: fleet %q: %w", name, err)
		}
		for _, r := range rs {
			if startsWild(r.filter) {
				wild = append(wild, r)
			} else {
				routes = append(routes, r)
			}
		}
		last = len(routes)
	}
	// The topics of some fleets begin with the name of the device. Before the
	// others such a template would take their messages: homeassistant/sensor/x/state
	// is one of ESPHome's too, of a device called homeassistant.
	return slices.Insert(routes, last, wild...), nil
}

func parseRoute(entry string) (*route, error) {
	template, name, named := cutLast(entry, "=")
	if !named {
		name = auto
	}
	r := &route{entry: entry, multi: -1, format: findFormat(name)}
	if r.format == nil {
		return nil, fmt.Errorf("unknown decoder %q (known: %s)", name, formatNames())
	}
	if !named && findFormat(entry) != nil {
		return nil, fmt.Errorf("a decoder needs a template, such as sensors/{sensor}=%s; without one these are known: %s", entry, fleetNames())
	}
	if err := checkTopicText(template); err != nil {
		return nil, err
	}
	parts := strings.Split(template, "/")
	if parts[0] == "$share" {
		return nil, errors.New("shared subscriptions are set with MQTT_SHARE")
	}
	for i, part := range parts {
		l, err := parseLevel(part)
		if err != nil {
			return nil, err
		}
		switch l.kind {
		case anyLevels:
			if i != len(parts)-1 {
				return nil, errors.New("# must be the last level")
			}
		case aSensor, sensorRest:
			if r.sensor {
				return nil, errors.New("it names the sensor twice")
			}
			r.sensor = true
		case aMetric:
			if r.metric {
				return nil, errors.New("it names the metric twice")
			}
			r.metric = true
		}
		if l.kind == anyLevels || l.kind == sensorRest {
			if r.multi >= 0 {
				return nil, errors.New("only one level may stand for several")
			}
			r.multi = i
		}
		r.levels = append(r.levels, l)
	}
	r.filter = r.mqttFilter()
	return r, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// checkTopicText checks what MQTT 3.1.1, section 4.7.3 asks of any topic
// filter, and refuses control characters, which section 1.5.3 lets a broker
// close the connection for.
func checkTopicText(s string) error {
	switch {
	case s == "":
		return errors.New("the template is empty")
	case len(s) > maxTopic:
		return fmt.Errorf("the template is longer than %d bytes", maxTopic)
	case !utf8.ValidString(s):
		return errors.New("the template is not UTF-8 text")
	case strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("the template holds a control character")
	}
	return nil
}

func parseLevel(s string) (level, error) {
	switch s {
	case "+":
		return level{kind: anyLevel}, nil
	case "#":
		return level{kind: anyLevels}, nil
	case "{sensor}":
		return level{kind: aSensor}, nil
	case "{metric}":
		return level{kind: aMetric}, nil
	case "{sensor...}":
		return level{kind: sensorRest}, nil
	}
	if strings.ContainsAny(s, "+#{}") {
		return level{}, fmt.Errorf("level %q: a whole level is +, #, {sensor}, {metric}, {sensor...} or plain text", s)
	}
	return level{kind: literal, text: s}, nil
}

// mqttFilter is the narrowest MQTT filter that matches all that the template
// does. MQTT has no filter for several levels in the middle, so there all that
// begins alike is subscribed to and the rest is not selected.
func (r *route) mqttFilter() string {
	var parts []string
	for _, l := range r.levels {
		switch l.kind {
		case literal:
			parts = append(parts, l.text)
		case anyLevels, sensorRest:
			return strings.Join(append(parts, "#"), "/")
		default:
			parts = append(parts, "+")
		}
	}
	return strings.Join(parts, "/")
}

// Filters are the MQTT topic filters to subscribe to, each once, in the order
// of the configuration.
func (d *Decoder) Filters() []string {
	var filters []string
	for _, r := range d.routes {
		if !slices.Contains(filters, r.filter) {
			filters = append(filters, r.filter)
		}
	}
	return filters
}

// Overlaps are the pairs of filters that can match one topic. A broker may
// then deliver a message once for each (MQTT 3.1.1, section 3.3.5): a reading
// without a time of its own would be stored twice.
func (d *Decoder) Overlaps() [][2]string {
	var pairs [][2]string
	filters := d.Filters()
	for i, a := range filters {
		for _, b := range filters[i+1:] {
			if overlap(a, b) {
				pairs = append(pairs, [2]string{a, b})
			}
		}
	}
	return pairs
}

func overlap(a, b string) bool {
	// A filter that begins with a wildcard matches no topic that begins with $.
	if a[0] == '$' && startsWild(b) || b[0] == '$' && startsWild(a) {
		return false
	}
	as, bs := strings.Split(a, "/"), strings.Split(b, "/")
	for i := 0; ; i++ {
		switch {
		case i < len(as) && as[i] == "#", i < len(bs) && bs[i] == "#":
			return true // also with the other at its end: a/# matches a
		case i == len(as) || i == len(bs):
			return len(as) == len(bs)
		case as[i] != bs[i] && as[i] != "+" && bs[i] != "+":
			return false
		}
	}
}

func startsWild(filter string) bool { return filter[0] == '+' || filter[0] == '#' }

// captures is what the levels of a topic mean by the route that it matched.
// The spans are offsets into the topic.
type captures struct {
	route  *route
	sensor span
	metric span
	loose  []span // what + and # matched, in order
}

type span struct{ start, end uint32 }

func (s span) of(text string) string { return text[s.start:s.end] }

// match finds the first route that wants the topic. It allocates nothing.
func (d *Decoder) match(topic string) *route {
	for _, r := range d.routes {
		if d.topic.match(r, topic) {
			return r
		}
	}
	return nil
}

// match compares the levels before the one that stands for several from the
// front, those behind it from the back, and gives it what is between. Its
// rules are those of MQTT 3.1.1, section 4.7.
func (c *captures) match(r *route, topic string) bool {
	c.route, c.sensor, c.metric, c.loose = r, span{}, span{}, c.loose[:0]
	if topic == "" || len(topic) > maxTopic || topic[0] == '$' && r.levels[0].kind != literal {
		return false
	}
	front := r.levels
	if r.multi >= 0 {
		front = r.levels[:r.multi]
	}
	pos := 0 // start of the next level; len(topic)+1: there is none
	for _, l := range front {
		if pos > len(topic) {
			return false
		}
		end := len(topic)
		if i := strings.IndexByte(topic[pos:], '/'); i >= 0 {
			end = pos + i
		}
		if !c.take(l, topic, pos, end) {
			return false
		}
		pos = end + 1
	}
	if r.multi < 0 {
		return pos > len(topic)
	}
	several := len(c.loose)
	back := r.levels[r.multi+1:]
	end := len(topic) // of the last level that is left
	for i := len(back) - 1; i >= 0; i-- {
		if end < pos {
			return false
		}
		start := max(pos, strings.LastIndexByte(topic[:end], '/')+1)
		if !c.take(back[i], topic, start, end) {
			return false
		}
		end = start - 1
	}
	slices.Reverse(c.loose[several:])
	if pos > end { // no level is left, and only # takes that: a/# matches a
		return r.levels[r.multi].kind == anyLevels
	}
	return c.take(r.levels[r.multi], topic, pos, end)
}

func (c *captures) take(l level, topic string, start, end int) bool {
	s := span{uint32(start), uint32(end)}
	switch l.kind {
	case literal:
		return topic[start:end] == l.text
	case aSensor, sensorRest:
		c.sensor = s
	case aMetric:
		c.metric = s
	default:
		c.loose = append(c.loose, s)
	}
	return true
}
