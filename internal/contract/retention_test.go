package contract

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gudang/internal/reading"
	"gudang/internal/upkeep"
)

// goOn is a rest that takes no time.
func (s *suite) goOn(ctx context.Context, _ int) error { return ctx.Err() }

func retentionOf(store upkeep.Deleter, c *clock, cfg upkeep.RetentionConfig) *upkeep.Retention {
	cfg.Clock, cfg.Log, cfg.Span, cfg.Longest = c.clock(), slog.New(slog.DiscardHandler), minute, day
	if cfg.Forget == nil {
		cfg.Forget = func(string) {}
	}
	if cfg.Gone == nil {
		cfg.Gone = func(string) {}
	}
	return upkeep.NewRetention(cfg, store, prometheus.NewRegistry())
}

// onlyFrom are the buckets that begin at t or later.
func onlyFrom(buckets []*reading.Bucket, t int64) []*reading.Bucket {
	return slices.DeleteFunc(slices.Clone(buckets), func(b *reading.Bucket) bool { return b.Start < t })
}

func testRetentionExact(t *testing.T, s *suite) {
	// One that came last is the oldest, as an import leaves it.
	buckets := append(history("a", of(9), 7), history("b", of(3), 5)...)
	for i := range int64(5) {
		buckets = append(buckets, bucketOf(series("edge", "x"), of(12)+(i-2)*60_000, point{59_999, 1}))
	}
	s.write(t, buckets...)
	c := new(clock).at(of(36))
	r := retentionOf(s.sink, c, upkeep.RetentionConfig{Buckets: 24 * time.Hour})
	for range 2 { // the second has nothing to do
		if err := r.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.wantStored(t, onlyFrom(buckets, of(12)-60_000)...)
	}
	c.now = c.now.Add(time.Millisecond)
	if err := r.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantStored(t, onlyFrom(buckets, of(12)-59_999)...)
}

func testRetentionCrash(t *testing.T, s *suite) {
	c := new(clock).at(of(36))
	cfg := upkeep.RetentionConfig{Buckets: 24 * time.Hour}
	crashes := 0
	for fails := 1; ; fails++ {
		buckets := append(history("a", of(10), 4), history("b", of(8), 2)...)
		s.write(t, buckets...)
		err := retentionOf(&faulty{Store: s.sink, fails: fails}, c, cfg).Pass(t.Context())
		if err == nil {
			break
		}
		if !errors.Is(err, errFault) {
			t.Fatal(err)
		}
		crashes++
		if err := retentionOf(s.sink, c, cfg).Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.wantStored(t, onlyFrom(buckets, of(12)-60_000)...)
	}
	if crashes < 2 {
		t.Errorf("only %d crashes", crashes)
	}
}

func testRollupsOutliveBuckets(t *testing.T, s *suite) {
	buckets := history("a", of(6), 20)
	s.write(t, buckets...)
	c := new(clock).at(of(31))
	cfg := upkeep.RollupsConfig{Buckets: 48 * time.Hour, Retention: 96 * time.Hour}
	r := rollupsOf(s.sink, c, cfg)
	rollUp(t, r)
	deleter := retentionOf(s.sink, c, upkeep.RetentionConfig{Buckets: cfg.Buckets, Rollups: cfg.Retention})
	hours, days := sums(hour, buckets...), sums(day, buckets...)

	// Half of the buckets are deleted, and what comes late for them changes nothing.
	c.at(of(63))
	if err := deleter.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.late(t, bucketOf(series("a", "humidity"), of(8), point{777, 1000}))
	settle(t, r, c)
	s.wantRollups(t, "a", hour, hours)
	s.wantRollups(t, "a", day, days)

	// All are, and the task begins anew.
	c.at(of(90))
	if err := deleter.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if stored := s.scan(t, func(string) bool { return true }); len(stored) > 0 {
		t.Errorf("%d buckets are left", len(stored))
	}
	rollUp(t, rollupsOf(s.sink, c, cfg))
	s.wantRollups(t, "a", hour, hours)
	s.wantRollups(t, "a", day, days)

	// Roll-ups go when their longest window is as old as they are kept.
	c.at(of(96 + 24 + 10))
	if err := deleter.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	for k := range hours {
		if k.Start < of(10) {
			delete(hours, k)
		}
	}
	s.wantRollups(t, "a", hour, hours)
}

func testRetentionSensors(t *testing.T, s *suite) {
	s.write(t, history("dead", of(0), 2)...)
	s.write(t, history("rolled", of(0), 2)...)
	c := new(clock).at(of(20))
	rollUp(t, rollupsOf(s.sink, c, upkeep.RollupsConfig{Spans: []reading.Span{hour}}))
	if err := s.sink.DeleteBefore(t.Context(), reading.KindRollups, of(30), s.goOn); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.sink.RollUpSeries(t.Context(), reading.Window{Span: hour, Start: of(0)}, []reading.Series{series("rolled", "humidity")}); err != nil {
		t.Fatal(err)
	}
	s.write(t, history("alive", of(40), 2)...)
	s.write(t, history("backlog", of(40), 2)...) // whose document says otherwise
	var sensors []reading.Sensor
	for id, last := range map[string]int64{"dead": of(2), "rolled": of(2), "alive": of(42), "backlog": of(2)} {
		sensors = append(sensors, reading.Sensor{ID: id, FirstSeen: last, LastSeen: last})
	}
	if err := s.sink.MergeSensors(t.Context(), sensors, 1); err != nil {
		t.Fatal(err)
	}
	var forgot, gone []string
	r := retentionOf(s.sink, c.at(of(60)), upkeep.RetentionConfig{
		Buckets: 24 * time.Hour,
		Forget:  func(id string) { forgot = append(forgot, id) }, Gone: func(id string) { gone = append(gone, id) },
	})
	if err := r.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left []string
	if err := s.query.SensorIDs(t.Context(), func(id string) error { left = append(left, id); return nil }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(left)
	if want := []string{"alive", "backlog", "rolled"}; !slices.Equal(left, want) {
		t.Errorf("%v are left, want %v", left, want)
	}
	if want := []string{"backlog", "dead", "rolled"}; !slices.Equal(forgot, want) || !slices.Equal(gone, []string{"dead"}) {
		t.Errorf("forgot %v, want %v; %v are gone", forgot, want, gone)
	}
}

// A store that deletes by itself lists what it goes by; one that does not says
// why. The task deletes wherever it is not sure.
func testWhoDeletes(t *testing.T, s *suite) {
	byServer, why, err := s.sink.Expire(t.Context(), 25*time.Hour, 48*time.Hour)
	if err != nil || byServer == (why != "") {
		t.Fatalf("by the server: %t, %q (%v)", byServer, why, err)
	}
	list := func() (ours []string) {
		t.Helper()
		indexes, err := s.query.TTLIndexes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, index := range indexes {
			if index.Ours {
				ours = append(ours, fmt.Sprintf("%s.%s %v", index.Kind, index.Field, index.After))
			}
		}
		return ours
	}
	want := []string{"buckets.start 25h0m0s", "overflow.time 25h0m0s", "raw.time 48h0m0s"}
	if have := list(); byServer && !slices.Equal(have, want) {
		t.Errorf("it deletes by %q, want %q", have, want)
	}
	if _, _, err := s.sink.Expire(t.Context(), 0, 0); err != nil {
		t.Fatal(err)
	}
	if have := list(); len(have) > 0 {
		t.Errorf("it still deletes by %q", have)
	}
}
