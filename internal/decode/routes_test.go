package decode

import (
	"slices"
	"strings"
	"testing"
)

var templateSeeds = []string{
	"warehouse/+/{sensor}/{metric}", "{sensor...}/state", "zigbee2mqtt/{sensor...}", "a/#", "#", "+", "{sensor}", "$SYS/#", "a//b", "/a", "a/{sensor...}/{metric}/x",
	"a/b=number", "a=b=auto", "x{sensor}", "a/#/b", "$share/g/a", "{metric}/{metric}", "", "=json",
}

// slowMatch is section 4.7 of MQTT 3.1.1 by splitting, and trying every length
// for the level that stands for several.
func slowMatch(r *route, topic string) bool {
	if topic == "" || len(topic) > maxTopic || topic[0] == '$' && r.levels[0].kind != literal {
		return false
	}
	var match func(ls []level, ts []string) bool
	match = func(ls []level, ts []string) bool {
		if len(ls) == 0 {
			return len(ts) == 0
		}
		switch l := ls[0]; l.kind {
		case anyLevels:
			return true
		case sensorRest:
			for n := 1; n <= len(ts); n++ {
				if match(ls[1:], ts[n:]) {
					return true
				}
			}
			return false
		case literal:
			return len(ts) > 0 && ts[0] == l.text && match(ls[1:], ts[1:])
		}
		return len(ts) > 0 && match(ls[1:], ts[1:])
	}
	return match(r.levels, strings.Split(topic, "/"))
}

func filterMatches(filter, topic string) bool {
	r, err := parseRoute(filter + "=auto")
	return err == nil && slowMatch(r, topic)
}

func TestTemplates(t *testing.T) {
	// A number on each topic shows who the sensor is, and what the metric.
	for _, c := range []struct{ name, template, topic, want string }{
		{"{sensor} and {metric}", "w/+/{sensor}/{metric}", "w/a/s1/t", "s1 temperature=1"},
		{"without {metric} the last level is it, if the sensor is named", "w/{sensor}/+", "w/s1/flow", "s1 flow=1"},
		{"a known one in plain text, too", "w/{sensor}/humidity", "w/s1/humidity", "s1 humidity=1"},
		{"an unknown one is not", "w/{sensor}/reading", "w/s1/reading", "s1 value=1"},
		{"what # matched names the metric as a whole", "w/{sensor}/#", "w/s1/soil/temp", "s1 soil_temperature=1"},
		{"without {sensor} what + matched is joined", "w/+/x/+", "w/a/x/b", "a/b value=1"},
		{"with what # matched", "w/+/#", "w/a/b/c", "a/b/c value=1"},
		{"a known metric at the end is no sensor", "w/+/+", "w/a/temp", "a temperature=1"},
		{"nor at the end of #", "w/#", "w/a/b/temp", "a/b temperature=1"},
		{"unless nothing else is there", "w/+", "w/temp", "temp temperature=1"},
		{"# without a level names nobody", "w/#", "w", "!value no_sensor; rejected no_sensor"},
		{"{sensor...} holds slashes", "z/{sensor...}", "z/a/b", "a/b value=1"},
		{"in the middle", "z/{sensor...}/{metric}/state", "z/a/b/temp/state", "a/b temperature=1"},
		{"at the front", "{sensor...}/state", "a/b/state", "a/b value=1"},
		{"not when nothing is left for it", "z/{sensor...}/state", "z/state", "ignored not_selected"},
		{"nor when the end differs", "z/{sensor...}/state", "z/a/b/status", "ignored not_selected"},
		{"nor the prefix alone", "z/{sensor...}", "z", "ignored not_selected"},
		{"a leading slash is an empty level", "/w/{sensor}", "/w/s1", "s1 value=1"},
		{"an empty level matches + but is no sensor", "w/{sensor}", "w/", "!value no_sensor; rejected no_sensor"},
		{"a leading wildcard matches no $ topic", "+/{sensor}", "$SYS/x", "ignored not_selected"},
		{"nor does a leading {sensor...}", "{sensor...}", "$SYS/x", "ignored not_selected"},
		{"a $ topic in plain text is matched", "$aws/things/{sensor}/up", "$aws/things/t1/up", "t1 value=1"},
		{"levels are compared as a whole", "w/{sensor}", "wx/s1", "ignored not_selected"},
		{"more levels than the template", "w/{sensor}", "w/s1/x", "ignored not_selected"},
		{"an = in a topic needs a decoder named", "a=b/{sensor}=number", "a=b/s1", "s1 value=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDecoder(t, c.template)
			var out Result
			d.Decode(Message{Topic: c.topic, Payload: []byte("1"), Received: received.UnixMilli()}, &out)
			if got := describe(&out); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestTheFirstMatchingEntryWins(t *testing.T) {
	d := newDecoder(t, "w/{sensor}/fixed", "w/+/{metric}=number", "w/#")
	var out Result
	d.Decode(Message{Topic: "w/s1/flow", Payload: []byte("1")}, &out)
	if got, want := describe(&out), "s1 flow=1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWrongTemplatesAreNamed(t *testing.T) {
	for entry, says := range map[string]string{
		"":                         "empty",
		"=json":                    "empty",
		"w/x{sensor}":              "x{sensor}",
		"w/{sensor":                "{sensor",
		"w/{name}":                 "{name}",
		"w/a+":                     "a+",
		"w/#/x":                    "last level",
		"w/{sensor}/{sensor...}":   "sensor twice",
		"w/{metric}/{metric}":      "metric twice",
		"{sensor...}/#":            "several",
		"$share/g/w/+":             "MQTT_SHARE",
		"w/+=numbr":                "auto, json, number",
		"json":                     "needs a template",
		"w/a\x00":                  "control",
		"w/\xff":                   "UTF-8",
		strings.Repeat("w", 65536): "longer",
	} {
		_, err := New(Config{Topics: []string{"ok/{sensor}", entry}})
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "cannot use topic") {
			t.Errorf("%.40q: got error %v, want it to say %q", entry, err, says)
		}
	}
}

func TestFilters(t *testing.T) {
	d := newDecoder(t, "w/+/{sensor}/{metric}", "z/{sensor...}/state", "z/{sensor...}", "{sensor...}/x", "a/#", " b ")
	want := []string{"w/+/+/+", "z/#", "#", "a/#", "b"}
	if got := d.Filters(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOverlaps(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"a/b", "a/c", false},
		{"a/+", "a/b", true},
		{"a/+", "+/b", true},
		{"a/+", "a/b/c", false},
		{"a/#", "a", true},
		{"a/#", "a/b/c", true},
		{"a/#", "b/#", false},
		{"#", "a/b", true},
		{"#", "$SYS/#", false},
		{"+/b", "$SYS/b", false},
		{"$SYS/#", "$SYS/+", true},
		{"a/+/c", "a/b/+", true},
		{"a/+/c", "a/+/d", false},
		{"a/b/#", "a/+", true},
		{"a/b/c/#", "a/+", false},
		{"a", "a/+", false},
	} {
		for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			d := newDecoder(t, pair[:]...)
			if got := len(d.Overlaps()) == 1; got != c.want {
				t.Errorf("%q and %q: got %v", pair[0], pair[1], got)
			}
		}
	}
}

func TestMatchingDoesNotAllocate(t *testing.T) {
	d := newDecoder(t, "a/{sensor}", "w/+/+/{sensor...}/{metric}")
	if n := testing.AllocsPerRun(100, func() { d.match("w/a/b/c/d/e/f") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
