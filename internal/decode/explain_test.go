package decode

import (
	"encoding/base64"
	"testing"
	"time"
)

// everything is an entry of each fleet and decoder.
func everything() []string {
	entries := []string{"+/{sensor}/{metric}", "+/{sensor...}"}
	for _, g := range generic {
		entries = append(entries, g.entry)
	}
	for _, f := range Fleets() {
		entries = append(entries, f.Name)
	}
	return entries
}

func FuzzExplain(f *testing.F) {
	add := func(entry string, samples []Sample) {
		_, decoder, ok := cutLast(entry, "=")
		if !ok {
			decoder = entry
		}
		for _, s := range samples {
			payload := []byte(s.Payload)
			if format := findFormat(decoder); format != nil && format.binary {
				payload, _ = base64.StdEncoding.DecodeString(s.Payload)
			}
			f.Add(entry, s.Topic, payload)
		}
	}
	for _, g := range generic {
		add(g.entry, g.samples)
	}
	for _, fleet := range Fleets() {
		add(fleet.Name, fleet.Samples)
	}
	known := everything()
	f.Fuzz(func(t *testing.T, entry, topic string, payload []byte) {
		topics := known
		if _, err := parseRoutes([]string{entry}); err == nil {
			topics = []string{entry}
		}
		d, err := New(Config{Topics: topics, ClockAhead: time.Minute, ClockBehind: 8760 * time.Hour})
		if err != nil {
			t.Skip("a fuzzed entry")
		}
		m := Message{Topic: topic, Payload: payload, Received: samplesNow.UnixMilli()}
		var r, again Result
		d.Decode(m, &r)
		e := d.Explain(m, &r)
		if r.Reason != "not_selected" && (len(e.Values) != len(r.Values) || len(e.Dropped) != len(r.Dropped)) {
			t.Fatalf("%d origins of %d values, %d of %d left out", len(e.Values), len(r.Values), len(e.Dropped), len(r.Dropped))
		}
		for i, o := range e.Values {
			if o.Sensor == "" || o.Metric == "" || o.Time == "" {
				t.Errorf("%+v has no origin: %+v", r.Values[i], o)
			}
		}
		d.Decode(m, &again)
		if again.Outcome != r.Outcome || len(again.Values) != len(r.Values) {
			t.Errorf("after Explain the same message becomes %v instead of %v", again, r)
		}
	})
}
