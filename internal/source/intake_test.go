package source

import (
	"strings"
	"testing"

	"gudang/internal/decode"
	"gudang/internal/reading"
)

func values(names ...string) []decode.Value {
	var vs []decode.Value
	for _, n := range names {
		vs = append(vs, decode.Value{Reading: reading.Reading{Series: reading.Series{Sensor: n, Metric: "t"}}})
	}
	return vs
}

func sent(topic, payload string, id uint16, qos byte, again bool) *message {
	return &message{topic: topic, payload: []byte(payload), id: id, qos: qos, again: again}
}

func TestReadingsWithoutATimeGetTimesOfTheirOwn(t *testing.T) {
	s := newStamps(10)
	seen := map[int64]bool{}
	for i := range 3000 { // three for each millisecond
		vs := values("a")
		now := 1_000_000 + int64(i/3)
		s.stamp(vs, now, sent("t", "20", uint16(i), 1, false))
		if seen[vs[0].Time] || vs[0].Time < now {
			t.Fatalf("reading %d got time %d, which another has or which is before it arrived", i, vs[0].Time)
		}
		seen[vs[0].Time] = true
	}
	vs := values("b", "c")
	s.stamp(vs, 1_001_000, sent("t", "", 1, 1, false))
	if vs[0].Time != 1_001_000 || vs[1].Time != 1_001_000 {
		t.Errorf("readings of other series got %d and %d, want the receive time", vs[0].Time, vs[1].Time)
	}
}

func TestAReadingsOwnTimeStays(t *testing.T) {
	vs := values("a", "b")
	vs[0].Time, vs[0].FromPayload = 5, true
	newStamps(10).stamp(vs, 1000, sent("t", "", 1, 1, false))
	if vs[0].Time != 5 || vs[1].Time != 1000 {
		t.Errorf("times %d and %d, want 5 and 1000", vs[0].Time, vs[1].Time)
	}
}

func TestAMessageThatIsSentAgainKeepsItsTime(t *testing.T) {
	for _, c := range []struct {
		name           string
		topic, payload string
		id             uint16
		qos            byte
		again          bool
		same           bool
	}{
		{"the same message with the DUP flag", "t", "20", 7, 1, true, true},
		{"an equal message that is new", "t", "20", 7, 1, false, false},
		{"another payload under the same identifier", "t", "21", 7, 1, true, false},
		{"another topic under the same identifier", "u", "20", 7, 1, true, false},
		{"another identifier", "t", "20", 8, 1, true, false},
	} {
		s := newStamps(10)
		first := values("a")
		s.stamp(first, 1000, sent("t", "20", 7, 1, false))
		second := values("a")
		s.stamp(second, 9000, sent(c.topic, c.payload, c.id, c.qos, c.again))
		if same := second[0].Time == first[0].Time; same != c.same {
			t.Errorf("%s: times %d and %d", c.name, first[0].Time, second[0].Time)
		}
	}
}

func TestStampsForgetWhatTheyNoLongerNeed(t *testing.T) {
	s := newStamps(10)
	for i := range 100_000 {
		s.stamp(values(string(rune('a'+i%26))+string(rune(i))), int64(1000+i), sent("t", "", 0, 0, false))
	}
	if n := len(s.recent) + len(s.before); n > 5000 {
		t.Errorf("%d series are remembered", n)
	}
}

func TestTheIntakeIsBounded(t *testing.T) {
	q := newIntake(2)
	r := &decode.Result{Values: values("a"), Dropped: []decode.Dropped{{Metric: "h", Reason: reading.OutOfRange}}}
	for i, want := range []verdict{taken, taken, full} {
		if got := q.put(reading.Delivery{Readings: 1}, r); got != want {
			t.Fatalf("message %d: %v, want %v", i, got, want)
		}
	}
	q.overflow()
	var b reading.Batch
	if !q.Take(&b) || len(b.Deliveries) != 2 || len(b.Readings) != 2 || len(b.Dropped) != 2 || b.Overflow != 1 {
		t.Fatalf("took %+v", b)
	}
	if got := q.put(reading.Delivery{}, &decode.Result{}); got != full {
		t.Errorf("%v after they were taken, want full until they have ended", got)
	}
	q.Done(2)
	if got := q.put(reading.Delivery{}, &decode.Result{}); got != taken {
		t.Errorf("%v after they have ended, want taken", got)
	}
	q.end()
	if got := q.put(reading.Delivery{}, &decode.Result{}); got != over {
		t.Errorf("%v after the end, want over", got)
	}
	if q.Take(&b) {
		t.Error("more to come after the end")
	}
	if len(b.Deliveries) != 1 {
		t.Errorf("%d deliveries left at the end, want 1", len(b.Deliveries))
	}
}

func TestParseURLs(t *testing.T) {
	for list, want := range map[string]string{
		"tcp://a":                            "tcp://a:1883",
		"mqtt://a:1884, ssl://b":             "tcp://a:1884,ssl://b:8883",
		"mqtts://a,ws://b/mqtt,wss://c:9001": "ssl://a:8883,ws://b:80,wss://c:9001",
		"tcp://user:secret@[::1]:1883":       "tcp://[::1]:1883",
	} {
		urls, err := ParseURLs(list)
		if err != nil {
			t.Errorf("%s: %v", list, err)
			continue
		}
		if got := (&Config{URLs: urls}).brokers(); got != want {
			t.Errorf("%s: %s, want %s", list, got, want)
		}
	}
	for _, list := range []string{"", "a:1883", "http://a", "tcp://", "tcp://a,", "tcp://a b", "tcp://u:secret@a:port"} {
		_, err := ParseURLs(list)
		if err == nil {
			t.Errorf("%q was accepted", list)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error shows the password: %v", list, err)
		}
	}
}
