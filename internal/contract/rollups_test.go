package contract

import (
	"maps"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"gudang/internal/reading"
	"gudang/internal/upkeep"
)

func of(hours float64) int64 { return dawn + int64(hours*float64(hour)) }

// onlyRollups takes the buckets away, so that what is answered was rolled up.
func (s *suite) onlyRollups(t *testing.T) {
	t.Helper()
	if err := s.sink.DeleteBefore(t.Context(), reading.KindBuckets, math.MaxInt64>>20, s.goOn); err != nil {
		t.Fatal(err)
	}
}

func testRollupIsTheSum(t *testing.T, s *suite) {
	buckets := append(history("a", of(1), 26), history("b", of(5), 2)...)
	s.write(t, buckets...)
	c := new(clock).at(of(72))
	rollUp(t, rollupsOf(s.sink, c, upkeep.RollupsConfig{}))
	s.onlyRollups(t)
	for _, sensor := range []string{"a", "b"} {
		for _, span := range []reading.Span{hour, day} {
			want := sums(span, buckets...)
			maps.DeleteFunc(want, func(k reading.Key, _ reading.Summary) bool { return k.Sensor != sensor })
			s.wantRollups(t, sensor, span, want)
		}
	}
}

func testRollupsWithoutHole(t *testing.T, s *suite) {
	buckets := append(history("a", of(1), 5), history("a", of(22), 5)...)
	s.write(t, buckets...)
	c := new(clock)
	r := rollupsOf(s.sink, c, upkeep.RollupsConfig{})
	// Nothing, some hours, a day and some hours, and all are rolled up.
	for _, hours := range []float64{0, 3.5, 24.5, 100} {
		rollUp(t, rollupsOf(s.sink, c.at(of(hours)), upkeep.RollupsConfig{}))
		s.wantRollups(t, "a", hour, sums(hour, buckets...))
		s.wantRollups(t, "a", day, sums(day, buckets...))
		s.wantRollups(t, "a", 7*day, sums(7*day, buckets...))
	}
	rollUp(t, r)
	s.onlyRollups(t)
	s.wantRollups(t, "a", 7*day, sums(7*day, buckets...))
}

func testRollupsPages(t *testing.T, s *suite) {
	buckets := history("a", of(1), 10)
	s.write(t, buckets...)
	rollUp(t, rollupsOf(s.sink, new(clock).at(of(6)), upkeep.RollupsConfig{}))
	for _, metric := range []string{"", "humidity"} {
		q := reading.Query{Sensor: "a", Metric: metric, From: of(2) + 1, To: of(9.5), Limit: 3}
		var have []reading.Summary
		for {
			page, err := s.query.Rollups(t.Context(), q, hour)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			have = append(have, page...)
			last := page[len(page)-1]
			q.After = reading.Cursor{Time: last.Start, Metric: last.Metric}
		}
		want := sums(hour, buckets...)
		maps.DeleteFunc(want, func(k reading.Key, _ reading.Summary) bool {
			return k.Start < q.From || k.Start >= q.To || metric != "" && k.Metric != metric
		})
		if len(have) != len(want) || len(want) < 7 {
			t.Fatalf("%q: %d roll-ups on the pages, want %d", metric, len(have), len(want))
		}
		for _, r := range have {
			if !r.Same(want[r.Key]) {
				t.Errorf("%+v, want %+v", r, want[r.Key])
			}
		}
	}
	if _, err := s.query.Rollups(t.Context(), reading.Query{Sensor: "a"}, hour); err == nil {
		t.Error("a query without a limit was answered")
	}
}

func testRollupsNotBeforeDue(t *testing.T, s *suite) {
	s.write(t, history("a", of(1), 1)...)
	c := new(clock)
	due := of(2) + reading.RollupGrace.Milliseconds()
	rollUp(t, rollupsOf(s.sink, c.at(due-1), upkeep.RollupsConfig{}))
	if _, found, err := s.sink.FirstAt(t.Context(), hour, 0); err != nil || found {
		t.Errorf("a window was rolled up before it was due (%v)", err)
	}
	rollUp(t, rollupsOf(s.sink, c.at(due), upkeep.RollupsConfig{}))
	first, found, err := s.sink.FirstAt(t.Context(), hour, 0)
	if err != nil || !found || first != of(1) {
		t.Errorf("the first roll-up is at %d, %t, %v", first, found, err)
	}
	if _, found, err := s.sink.FirstAt(t.Context(), hour, first+1); err != nil || found {
		t.Errorf("there is another roll-up (%v)", err)
	}
}

func testRollupsGap(t *testing.T, s *suite) {
	years := 4 * 365 * 24.0
	buckets := append(history("a", of(0), 2), history("a", of(years), 2)...)
	s.write(t, buckets...)
	f := &faulty{Store: s.sink}
	rollUp(t, rollupsOf(f, new(clock).at(of(years+48)), upkeep.RollupsConfig{}))
	if f.calls > 200 {
		t.Errorf("%d calls", f.calls)
	}
	s.onlyRollups(t)
	s.wantRollups(t, "a", hour, sums(hour, buckets...))
	s.wantRollups(t, "a", day, sums(day, buckets...))
}

func testRollupsLate(t *testing.T, s *suite) {
	buckets := append(history("a", of(2), 4), history("a", of(24), 2)...)
	s.write(t, buckets...)
	c := new(clock).at(of(60))
	r := rollupsOf(s.sink, c, upkeep.RollupsConfig{})
	rollUp(t, r)
	more := []*reading.Bucket{
		bucketOf(series("a", "temperature"), of(3), point{500, -90}), // into a stored bucket
		bucketOf(series("a", "humidity"), of(5)+60_000, point{500, 90}, point{600, 91}),
		bucketOf(series("b", "pressure"), of(26), point{500, 1000}), // a series that is new
	}
	s.late(t, more...)
	marks, err := s.sink.Stale(t.Context(), reading.Mark{}, 100)
	if err != nil || len(marks) != len(more) {
		t.Fatalf("%d marks, want %d (%v)", len(marks), len(more), err)
	}
	s.mark(t, more[0]) // the same again makes the same mark again
	again, err := s.sink.Stale(t.Context(), reading.Mark{}, 100)
	if err != nil || len(again) != len(more) || slices.Equal(marks, again) {
		t.Errorf("marks %v, after %v (%v)", again, marks, err)
	}
	settle(t, r, c)
	if left, err := s.sink.Stale(t.Context(), reading.Mark{}, 100); err != nil || len(left) > 0 {
		t.Errorf("%d marks are left (%v)", len(left), err)
	}
	s.onlyRollups(t)
	all := append(buckets, more...)
	for _, span := range []reading.Span{hour, day} {
		a, b := sums(span, all...), sums(span, more[2])
		maps.DeleteFunc(a, func(k reading.Key, _ reading.Summary) bool { return k.Sensor != "a" })
		s.wantRollups(t, "a", span, a)
		s.wantRollups(t, "b", span, b)
	}
}

func testRollupsLateBeforeBegin(t *testing.T, s *suite) {
	buckets := history("a", of(48), 3)
	s.write(t, buckets...)
	c := new(clock).at(of(96))
	r := rollupsOf(s.sink, c, upkeep.RollupsConfig{})
	rollUp(t, r)
	early := history("a", of(7), 2)
	s.late(t, early...)
	settle(t, r, c)
	s.onlyRollups(t)
	all := append(buckets, early...)
	s.wantRollups(t, "a", hour, sums(hour, all...))
	s.wantRollups(t, "a", day, sums(day, all...))
}

// A reading comes after the roll-up was made for its mark and before the mark
// is removed: the mark has been made again, and must stay.
func testRollupsLateMeanwhile(t *testing.T, s *suite) {
	buckets := history("a", of(0), 2)
	s.write(t, buckets...)
	c := new(clock).at(of(60))
	f := &faulty{Store: s.sink}
	r := rollupsOf(f, c, upkeep.RollupsConfig{})
	rollUp(t, r)
	first := bucketOf(series("a", "temperature"), of(0), point{100, 50})
	second := bucketOf(series("a", "temperature"), of(0), point{200, 60})
	s.late(t, first)
	f.before = func(call string) {
		if call == "Unmark" && second != nil {
			buckets = append(buckets, first, second)
			s.late(t, second)
			second = nil
		}
	}
	settle(t, r, c)
	if second != nil {
		t.Fatal("no mark was removed")
	}
	if marks, err := s.sink.Stale(t.Context(), reading.Mark{}, 100); err != nil || len(marks) != 1 {
		t.Fatalf("%d marks, want the one that was made again (%v)", len(marks), err)
	}
	settle(t, r, c)
	s.onlyRollups(t)
	s.wantRollups(t, "a", hour, sums(hour, buckets...))
	s.wantRollups(t, "a", day, sums(day, buckets...))
}

func testRollupsCrash(t *testing.T, s *suite) {
	var buckets []*reading.Bucket
	c := new(clock)
	n := 0
	for fails := 1; ; fails++ {
		crashed := false
		for _, late := range []bool{false, true} {
			// A day more, and a late reading in the one before.
			start := of(float64(24 * n))
			more := history("a", start, 1)
			s.write(t, more...)
			buckets = append(buckets, more...)
			if n > 0 {
				r := bucketOf(series("a", "humidity"), start-int64(hour), point{int32(fails), float64(fails)})
				s.late(t, r)
				buckets = append(buckets, r)
			}
			n++
			c.at(of(float64(24*n) + 0.5))
			f := &faulty{Store: s.sink, fails: fails, late: late}
			r := rollupsOf(f, c, upkeep.RollupsConfig{})
			for pass := 0; pass < 2 && !crashed; pass++ {
				_, err := r.Pass(t.Context())
				crashed = crashed || err != nil
				c.now = c.now.Add(reading.QuietFor)
			}
			settle(t, rollupsOf(s.sink, c, upkeep.RollupsConfig{}), c) // the next process
		}
		if !crashed && fails > 1 {
			break
		}
	}
	if n < 12 {
		t.Errorf("only %d crashes", n)
	}
	s.onlyRollups(t)
	s.wantRollups(t, "a", hour, sums(hour, buckets...))
	s.wantRollups(t, "a", day, sums(day, buckets...))
}

func testRollupsTwoInstances(t *testing.T, s *suite) {
	other := &suite{harness: s.harness}
	other.sink, other.query = s.open(t)
	buckets := history("a", of(0), 40)
	s.write(t, buckets...)
	var tasks []*upkeep.Rollups
	clocks := []*clock{new(clock).at(of(60)), new(clock).at(of(60.01))}
	for i, of := range []*suite{s, other} {
		tasks = append(tasks, rollupsOf(of.sink, clocks[i], upkeep.RollupsConfig{}))
	}
	both := func(do func(i int)) {
		var wg sync.WaitGroup
		for i := range tasks {
			wg.Go(func() { do(i) })
		}
		wg.Wait()
	}
	for round := range 10 {
		for i := range 4 {
			b := bucketOf(series("a", "temperature"), of(float64(i*9)), point{int32(round + 100), float64(round * i)})
			s.late(t, b)
			buckets = append(buckets, b)
		}
		both(func(i int) {
			for range 3 {
				if _, err := tasks[i].Pass(t.Context()); err != nil {
					t.Errorf("instance %d: %v", i, err)
				}
				clocks[i].now = clocks[i].now.Add(reading.QuietFor)
			}
		})
	}
	settle(t, tasks[0], clocks[0])
	s.onlyRollups(t)
	s.wantRollups(t, "a", hour, sums(hour, buckets...))
	s.wantRollups(t, "a", day, sums(day, buckets...))
}

// While roll-ups are off nothing is marked: all must be looked at again.
func testRollupsOffAndOn(t *testing.T, s *suite) {
	buckets := history("a", of(0), 5)
	s.write(t, buckets...)
	c := new(clock).at(of(60))
	rollUp(t, rollupsOf(s.sink, c, upkeep.RollupsConfig{}))
	rollUp(t, rollupsOf(s.sink, c, upkeep.RollupsConfig{Spans: []reading.Span{}}))
	if p, err := s.sink.Progress(t.Context()); err != nil || len(p) > 0 {
		t.Errorf("progress %v (%v)", p, err)
	}
	unmarked := bucketOf(series("a", "humidity"), of(1), point{7, 70})
	s.write(t, unmarked)
	rollUp(t, rollupsOf(s.sink, c, upkeep.RollupsConfig{}))
	s.onlyRollups(t)
	s.wantRollups(t, "a", hour, sums(hour, append(buckets, unmarked)...))
}

// Roll-ups are turned on while retention goes on: of the day in which it is,
// and of the hour, there is no roll-up, and what is left of them is answered.
func testRollupsBeginWhole(t *testing.T, s *suite) {
	buckets := history("a", of(4), 23)
	s.write(t, buckets...)
	c := new(clock).at(of(30))
	cfg := upkeep.RollupsConfig{Buckets: 24 * time.Hour}
	r := rollupsOf(s.sink, c, cfg)
	rollUp(t, r)
	late := bucketOf(series("a", "humidity"), of(8), point{7, 70})
	s.late(t, late)
	settle(t, r, c)
	buckets = append(buckets, late)
	s.wantRollups(t, "a", hour, sums(hour, buckets...))
	s.wantRollups(t, "a", day, sums(day, buckets...))
	s.onlyRollups(t)
	s.wantRollups(t, "a", hour, sums(hour, onlyFrom(buckets, of(7))...))
	c.at(of(54))
	rollUp(t, r)
	if first, found, err := s.sink.FirstAt(t.Context(), day, 0); err != nil || !found || first != of(24) {
		t.Errorf("the first day is rolled up at %d, %t, %v", first, found, err)
	}
}

// The first bucket is of a new hour, and one of the hour before comes after it,
// in time: it has no mark.
func testRollupsBeginEarlyEnough(t *testing.T, s *suite) {
	first := bucketOf(series("a", "x"), of(24), point{0, 1})
	s.write(t, first)
	c := new(clock).at(of(24) + 60_000)
	r := rollupsOf(s.sink, c, upkeep.RollupsConfig{})
	rollUp(t, r)
	before := bucketOf(series("a", "x"), of(24)-60_000, point{59_000, 2})
	s.write(t, before)
	c.at(of(50))
	rollUp(t, r)
	s.onlyRollups(t)
	s.wantRollups(t, "a", hour, sums(hour, first, before))
	s.wantRollups(t, "a", day, sums(day, first, before))
}

// Before each step of one instance a reading comes late, and another instance
// does all that it finds to do.
func testRollupsInBetween(t *testing.T, s *suite) {
	buckets := append(history("a", of(1), 2), history("a", of(23), 2)...)
	s.write(t, buckets...)
	c := new(clock).at(of(60))
	other := rollupsOf(s.sink, c, upkeep.RollupsConfig{})
	f := &faulty{Store: s.sink}
	n := int32(0)
	late := func() {
		n++
		b := bucketOf(series("a", "humidity"), of([]float64{2, 23, 24}[n%3]), point{n, float64(-n)})
		s.late(t, b)
		buckets = append(buckets, b)
	}
	f.before = func(string) {
		if f.calls%3 == 0 || n > 20 {
			return
		}
		late()
		if _, err := other.Pass(t.Context()); err != nil {
			t.Error(err)
		}
		c.now = c.now.Add(reading.QuietFor)
	}
	one := rollupsOf(f, c, upkeep.RollupsConfig{})
	for range 4 {
		late()
		settle(t, one, c)
	}
	f.before = nil
	settle(t, one, c)
	if f.calls < 10 {
		t.Errorf("only %d steps", f.calls)
	}
	if marks, err := s.sink.Stale(t.Context(), reading.Mark{}, 100); err != nil || len(marks) > 0 {
		t.Errorf("%d marks are left (%v)", len(marks), err)
	}
	s.onlyRollups(t)
	s.wantRollups(t, "a", hour, sums(hour, buckets...))
	s.wantRollups(t, "a", day, sums(day, buckets...))
}
