package reading

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"
)

func TestIDsAreVersion8UUIDsInOrderOfTime(t *testing.T) {
	s := Series{"S-01", "temperature"}
	a, b := s.ID(1_780_000_000_000), s.ID(1_780_000_060_000)
	if bytes.Compare(a[:], b[:]) >= 0 {
		t.Errorf("%x is not before %x", a, b)
	}
	if ms := int64(a[0])<<40 | int64(a[1])<<32 | int64(a[2])<<24 | int64(a[3])<<16 | int64(a[4])<<8 | int64(a[5]); ms != 1_780_000_000_000 {
		t.Errorf("the id's time is %d", ms)
	}
	if a[6]>>4 != 8 || a[8]>>6 != 2 {
		t.Errorf("version %d, variant %d; want 8 and 2", a[6]>>4, a[8]>>6)
	}
	if a != s.ID(1_780_000_000_000) {
		t.Error("the same series and time gave another id")
	}
}

// The hash is over sensor, NUL, metric: without the NUL two series could meet.
func TestIDsOfDifferentSeriesDiffer(t *testing.T) {
	if (Series{"ab", "c"}).ID(1) == (Series{"a", "bc"}).ID(1) {
		t.Error("ab+c and a+bc have one id")
	}
	long := string(bytes.Repeat([]byte("x"), 4*MaxSensorID))
	if (Series{long, "a"}).ID(1) == (Series{long, "b"}).ID(1) {
		t.Error("the end of a long name is not hashed")
	}
}

func TestMergeLatestKeepsTheNewest(t *testing.T) {
	p := func(times ...int64) (out []Point) {
		for _, t := range times {
			out = append(out, Point{t, float64(t)})
		}
		return out
	}
	for _, c := range []struct {
		name             string
		have, more, want []Point
	}{
		{"into nothing", nil, p(3, 2, 1), p(3, 2, 1)},
		{"newer ones push out the oldest", p(3, 2, 1), p(5, 4), p(5, 4, 3)},
		{"a late one doesn't push out a newer one", p(5, 4, 3), p(2), p(5, 4, 3)},
		{"a late one fills a free place", p(5, 3), p(4), p(5, 4, 3)},
		{"the same again changes nothing", p(5, 4, 3), p(5, 4, 3), p(5, 4, 3)},
	} {
		if got := MergeLatest(c.have, c.more, 3); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if got := MergeLatest([]Point{{7, 1}}, []Point{{7, 2}}, 3); len(got) != 1 || got[0].Value != 1 {
		t.Errorf("another value for a known time: %v, want the first to stay", got)
	}
}

func TestSensorMerge(t *testing.T) {
	s := Sensor{}
	s.Merge(Sensor{ID: "S-01", FirstSeen: 5, LastSeen: 9, Metrics: map[string][]Point{"t": {{9, 1}}}}, 2)
	s.Merge(Sensor{ID: "S-01", FirstSeen: 3, LastSeen: 7, Metrics: map[string][]Point{"t": {{7, 2}, {3, 3}}, "h": {{7, 4}}}}, 2)
	want := Sensor{ID: "S-01", FirstSeen: 3, LastSeen: 9, Metrics: map[string][]Point{"t": {{9, 1}, {7, 2}}, "h": {{7, 4}}}}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v, want %+v", s, want)
	}
}

func TestASensorsDocumentIsBounded(t *testing.T) {
	var s Sensor
	for i := range int64(3 * MaxMetrics) {
		s.Merge(Sensor{ID: "S", FirstSeen: i, LastSeen: i, Metrics: map[string][]Point{fmt.Sprintf("m%d", i): {{i, 0}}}}, 2)
	}
	if len(s.Metrics) != MaxMetrics {
		t.Fatalf("%d metrics, want %d", len(s.Metrics), MaxMetrics)
	}
	if _, ok := s.Metrics[fmt.Sprintf("m%d", 3*MaxMetrics-1)]; !ok {
		t.Error("the newest metric was left out")
	}
}

func TestPagesGiveEveryReadingOnce(t *testing.T) {
	var all []Reading
	for ms := range int64(7) {
		for _, m := range []string{"b", "a"} {
			all = append(all, Reading{Series{"S", m}, ms, float64(ms)})
		}
	}
	for limit := 1; limit <= len(all)+1; limit++ {
		q := Query{Sensor: "S", Limit: limit}
		var got []Reading
		for {
			page := q.Page(append([]Reading(nil), all...))
			got = append(got, page...)
			if len(page) < limit {
				break
			}
			last := page[len(page)-1]
			q.After = Cursor{last.Time, last.Metric}
		}
		if len(got) != len(all) {
			t.Fatalf("limit %d: %d readings, want %d", limit, len(got), len(all))
		}
		for i := 1; i < len(got); i++ {
			if !(Cursor{got[i-1].Time, got[i-1].Metric}).Past(got[i].Time, got[i].Metric) {
				t.Fatalf("limit %d: %v is not after %v", limit, got[i], got[i-1])
			}
		}
	}
	q := Query{Sensor: "S", Metric: "a", From: 2, To: 4}
	if got := q.Page(append([]Reading(nil), all...)); len(got) != 2 || got[0].Time != 2 || got[1].Time != 3 {
		t.Errorf("range [2,4) of a: %v", got)
	}
}
