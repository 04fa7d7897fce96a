package bucketer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"gudang/internal/reading"
)

// intake is a source that tests fill by hand.
type intake struct {
	ready chan struct{}

	mu     sync.Mutex
	batch  reading.Batch
	ended  bool
	done   int
	acked  []int
	serial int
}

func newIntake() *intake { return &intake{ready: make(chan struct{}, 1)} }

func (in *intake) Ack(id uint16, _ byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.acked = append(in.acked, int(id))
}

func (in *intake) Ready() <-chan struct{} { return in.ready }

func (in *intake) Take(into *reading.Batch) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	into.Deliveries = append(into.Deliveries, in.batch.Deliveries...)
	into.Readings = append(into.Readings, in.batch.Readings...)
	into.Dropped = append(into.Dropped, in.batch.Dropped...)
	into.Overflow = in.batch.Overflow
	in.batch.Reset()
	return !in.ended
}

func (in *intake) Done(n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.done += n
}

func (in *intake) wake() {
	select {
	case in.ready <- struct{}{}:
	default:
	}
}

// send delivers one message.
func (in *intake) send(d reading.Delivery, rs ...reading.Reading) {
	in.mu.Lock()
	d.Readings = len(rs)
	d.Acker, d.ID, d.QoS = in, uint16(in.serial), 1
	in.serial++
	in.batch.Deliveries = append(in.batch.Deliveries, d)
	in.batch.Readings = append(in.batch.Readings, rs...)
	in.mu.Unlock()
	in.wake()
}

func (in *intake) end() {
	in.mu.Lock()
	in.ended = true
	in.mu.Unlock()
	in.wake()
}

func (in *intake) acks() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.acked)
}

// store is a sink that keeps everything, like a real one, and can be slow.
type store struct {
	delay time.Duration

	mu      sync.Mutex
	kept    map[reading.Key]*reading.Bucket
	flushes []int // buckets in each
	refuse  func(*reading.Bucket) bool
}

func newStore() *store { return &store{kept: map[reading.Key]*reading.Bucket{}} }

func (s *store) Write(ctx context.Context, buckets []*reading.Bucket) (refused []reading.Refusal, err error) {
	if s.delay > 0 {
		select {
		case <-time.After(s.delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushes = append(s.flushes, len(buckets))
	for _, b := range buckets {
		if s.refuse != nil && s.refuse(b) {
			for _, off := range b.Offsets {
				refused = append(refused, reading.Refusal{Bucket: b, Offset: off, Reason: reading.StoreRefused})
			}
			continue
		}
		have := s.kept[b.Key()]
		if have == nil {
			have = &reading.Bucket{Series: b.Series, Start: b.Start}
			s.kept[b.Key()] = have
		}
		for i, off := range b.Offsets {
			if v := have.Add(b.Start+int64(off), b.Values[i]); v != reading.Added {
				refused = append(refused, reading.Refusal{Bucket: b, Offset: off, Verdict: v})
			}
		}
	}
	return refused, nil
}

// sizes is how many buckets each flush had.
func (s *store) sizes() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.flushes)
}

type rig struct {
	*intake
	*store
	b    *Bucketer
	reg  *prometheus.Registry
	errs chan error
	stop context.CancelFunc
}

// start runs a bucketer; the caller is in a synctest bubble or not.
func start(t *testing.T, change func(*Config, *store)) *rig {
	t.Helper()
	span, err := reading.NewSpan(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{intake: newIntake(), store: newStore(), reg: prometheus.NewRegistry(), errs: make(chan error, 1)}
	cfg := Config{Span: span, ReadingInterval: 10 * time.Second, FlushInterval: time.Second, FlushReadings: 1000}
	if change != nil {
		change(&cfg, r.store)
	}
	r.b = New(cfg, r.intake, r.store, NewSensors(1000), r.reg)
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	go func() { r.errs <- r.b.Run(ctx) }()
	return r
}

func (r *rig) finish(t *testing.T) {
	t.Helper()
	r.end()
	if err := <-r.errs; err != nil {
		t.Errorf("Run: %v", err)
	}
	r.stop()
}

func (r *rig) count(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if len(labels) == 1 && (len(m.GetLabel()) == 0 || m.GetLabel()[0].GetValue() != labels[0]) {
				continue
			}
			switch {
			case m.Counter != nil:
				return m.Counter.GetValue()
			case m.Gauge != nil:
				return m.Gauge.GetValue()
			case m.Histogram != nil:
				return float64(m.Histogram.GetSampleCount())
			}
		}
	}
	t.Fatalf("no metric %s %v", name, labels)
	return 0
}

func temp(sensor string, ms int64, v float64) reading.Reading {
	return reading.Reading{Series: reading.Series{Sensor: sensor, Metric: "temperature"}, Time: ms, Value: v}
}

func TestMessagesAreAckedInOrderWhenTheirFlushIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(_ *Config, s *store) { s.delay = 100 * time.Millisecond })
		now := time.Now().UnixMilli()
		for i := range 10 {
			r.send(reading.Delivery{}, temp("S-01", now+int64(i), 20))
		}
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		if n := r.acks(); n != 0 {
			t.Fatalf("%d messages acked before the flush was stored", n)
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if n := r.acks(); n != 10 {
			t.Fatalf("%d messages acked after the flush was stored, want 10", n)
		}
		r.finish(t)
		for i, n := range r.acked {
			if n != i {
				t.Fatalf("acks came in the order %v", r.acked)
			}
		}
	})
}

// The broker holds 20 messages back until the first 20 are acked. Waiting for
// the timer would move 20 a second.
func TestAQuietIntakeIsFlushedEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(c *Config, _ *store) { c.FlushInterval = time.Minute })
		begun := time.Now()
		for range 150 {
			have := r.acks()
			for i := range 20 {
				r.send(reading.Delivery{}, temp("S-01", begun.UnixMilli()+int64(have+i), 20))
			}
			for r.acks() < have+20 {
				time.Sleep(time.Millisecond)
			}
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("3,000 messages in windows of 20 took %v", took)
		}
		r.finish(t)
	})
}

// Without anybody waiting for an ack, the interval is what decides.
func TestReadingsWithoutAcksWaitForTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(c *Config, _ *store) { c.FlushInterval = 10 * time.Second })
		now := time.Now().UnixMilli()
		for i := range 9 {
			r.intake.mu.Lock()
			r.batch.Deliveries = append(r.batch.Deliveries, reading.Delivery{Readings: 1})
			r.batch.Readings = append(r.batch.Readings, temp("S-01", now+int64(i), 20))
			r.intake.mu.Unlock()
			r.wake()
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if len(r.sizes()) != 0 {
			t.Fatalf("flushed after %d readings, before the interval", 9)
		}
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if got := r.sizes(); !slices.Equal(got, []int{1}) {
			t.Fatalf("flushes %v, want one of one bucket", got)
		}
		r.finish(t)
	})
}

func TestFlushesGrowWhileTheStoreIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(c *Config, s *store) { c.FlushReadings, s.delay = 10, time.Second })
		now := time.Now().UnixMilli()
		for i := range 200 {
			r.send(reading.Delivery{}, temp(fmt.Sprintf("S-%03d", i), now, 20))
			time.Sleep(10 * time.Millisecond)
		}
		r.finish(t)
		if len(r.flushes) > 4 {
			t.Errorf("flushes %v, want a few that grow", r.flushes)
		}
	})
}

func TestWhatIsGatheredDuringAFlushIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(c *Config, s *store) { c.FlushReadings, s.delay = 10, time.Hour })
		now := time.Now().UnixMilli()
		for i := range 1000 {
			r.send(reading.Delivery{}, temp(fmt.Sprintf("S-%03d", i), now, 20))
			synctest.Wait()
		}
		r.intake.mu.Lock()
		left := len(r.batch.Deliveries)
		r.intake.mu.Unlock()
		if taken := 1000 - left; taken > 10+10*gatherAhead+1 {
			t.Errorf("%d readings were taken into memory while the store hung", taken)
		}
		r.stop()
		if err := <-r.errs; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v, want context.Canceled", err)
		}
		if n := r.acks(); n != 0 {
			t.Errorf("%d messages acked that were not stored", n)
		}
	})
}

func TestEveryMessageEndsAsOneOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		now := time.Now().UnixMilli()
		poison := "poisoned"
		r.refuse = func(b *reading.Bucket) bool { return b.Sensor == poison }
		flush := func() { time.Sleep(2 * time.Second); synctest.Wait() }

		r.send(reading.Delivery{}, temp("A", now, 1))
		flush()
		r.send(reading.Delivery{}, temp("A", now, 1))                                    // there already: the store says
		r.send(reading.Delivery{}, temp("A", now+1, 1))                                  // new
		r.send(reading.Delivery{}, temp("A", now+1, 1))                                  // there already: memory says
		r.send(reading.Delivery{}, temp("A", now, 2))                                    // conflict, in memory
		r.send(reading.Delivery{}, temp("A", now, 1), temp("A", now+2, 1))               // half new
		r.send(reading.Delivery{}, temp(poison, now, 1))                                 // refused
		r.send(reading.Delivery{Outcome: reading.Ignored, Reason: reading.Retained})     // decoded so
		r.send(reading.Delivery{Outcome: reading.Rejected, Reason: reading.InvalidJSON}) // decoded so
		r.intake.mu.Lock()
		r.batch.Dropped = append(r.batch.Dropped, reading.OutOfRange)
		r.batch.Overflow = 3
		r.intake.mu.Unlock()
		flush()
		r.send(reading.Delivery{}, temp("A", now, 3)) // conflict: the store says
		flush()
		r.finish(t)

		for _, c := range []struct {
			name, label string
			want        float64
		}{
			{"gudang_messages_total", "stored", 3},
			{"gudang_messages_total", "duplicate", 2},
			{"gudang_messages_total", "ignored", 1},
			{"gudang_messages_total", "rejected", 4 + 3},
			{"gudang_rejected_total", "conflict", 2},
			{"gudang_rejected_total", "store_refused", 1},
			{"gudang_rejected_total", "invalid_json", 1},
			{"gudang_rejected_total", "out_of_range", 1},
			{"gudang_rejected_total", "queue_full", 3},
			{"gudang_ignored_total", "retained", 1},
		} {
			if got := r.count(t, c.name, c.label); got != c.want {
				t.Errorf("%s{%s} = %v, want %v", c.name, c.label, got, c.want)
			}
		}
		if got := r.count(t, "gudang_readings_stored_total"); got != 3 {
			t.Errorf("%v readings stored, want 3", got)
		}
		if got := r.count(t, "gudang_readings_duplicate_total"); got != 3 {
			t.Errorf("%v duplicate readings, want 3", got)
		}
		if r.acks() != 10 || r.done != 10 {
			t.Errorf("%d messages acked, room of %d given back; want 10", r.acks(), r.done)
		}
	})
}

// Sensors that send every 10 s, and a flush a minute: about one write a bucket,
// which is a sixth of a write a reading. No reading waits for longer.
func TestAFlushAMinuteWritesEachBucketAboutOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(c *Config, _ *store) { c.FlushInterval, c.FlushReadings = time.Minute, 100_000 })
		time.Sleep(17*time.Second + 300*time.Millisecond) // a start at any time
		const sensors = 100
		sent := 0
		for range 20 * 60 * 10 { // twenty minutes, ten sensors a second
			r.intake.mu.Lock()
			r.batch.Deliveries = append(r.batch.Deliveries, reading.Delivery{Readings: 1})
			r.batch.Readings = append(r.batch.Readings, temp(fmt.Sprintf("S-%03d", sent%sensors), time.Now().UnixMilli(), 20))
			r.intake.mu.Unlock()
			r.wake()
			sent++
			time.Sleep(100 * time.Millisecond)
		}
		if r.b.gather.since.Before(time.Now().Add(-time.Minute)) {
			t.Errorf("a reading has waited since %v, now it is %v", r.b.gather.since, time.Now())
		}
		r.finish(t)
		writes := 0
		for _, n := range r.sizes() {
			writes += n
		}
		if perReading := float64(writes) / float64(sent); perReading > 0.2 {
			t.Errorf("%d writes for %d readings are %.2f a reading, want 0.2 at most", writes, sent, perReading)
		}
	})
}

// What was left out of a message may come without it, and what was lost too.
func TestABatchWithoutMessagesIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.intake.mu.Lock()
		r.batch.Dropped = append(r.batch.Dropped, reading.OutOfRange, reading.NotFinite)
		r.batch.Overflow = 2
		r.intake.mu.Unlock()
		r.wake()
		synctest.Wait()
		r.finish(t)
		for reason, want := range map[string]float64{"out_of_range": 1, "not_finite": 1, "queue_full": 2} {
			if got := r.count(t, "gudang_rejected_total", reason); got != want {
				t.Errorf("%v rejected for %s, want %v", got, reason, want)
			}
		}
	})
}

func TestSensorsBeyondTheLimitAreRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.b.sensors.max = 2
		r.b.sensors.Know("A")
		now := time.Now().UnixMilli()
		for _, s := range []string{"A", "B", "C", "A", "B", "D"} {
			r.send(reading.Delivery{}, temp(s, now, 1))
			now++
		}
		r.finish(t)
		if got := r.count(t, "gudang_rejected_total", "too_many_sensors"); got != 2 {
			t.Errorf("%v rejected, want 2", got)
		}
		if got := r.count(t, "gudang_readings_stored_total"); got != 4 {
			t.Errorf("%v stored, want 4", got)
		}
	})
}

func TestALateReadingIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		now := time.Now()
		for i := range 360 {
			r.send(reading.Delivery{}, temp("S-01", now.Add(-time.Hour+time.Duration(i)*10*time.Second).Truncate(time.Minute).Add(time.Duration(i)*time.Millisecond).UnixMilli(), 20))
		}
		r.send(reading.Delivery{}, temp("S-01", now.UnixMilli(), 20))
		r.finish(t)
		if got := r.count(t, "gudang_readings_late_total"); got != 360 {
			t.Errorf("%v late, want 360", got)
		}
	})
}

// Whatever the sizes of batches and flushes, the store must end with what a
// map of identities holds.
func TestRandomTrafficEndsExact(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			r := start(t, func(c *Config, s *store) {
				c.FlushReadings = 1 + rng.IntN(50)
				s.delay = time.Duration(rng.IntN(20)) * time.Millisecond
			})
			base := time.Now().UnixMilli()
			model := map[reading.Reading]bool{}
			var sent, readings int
			for range 400 {
				var rs []reading.Reading
				for range rng.IntN(4) {
					x := temp(fmt.Sprintf("S-%d", rng.IntN(5)), base+rng.Int64N(200)*1000, 0)
					x.Value = float64(x.Time % 97) // one value for a time: copies, no conflicts
					rs = append(rs, x)
					model[x] = true
				}
				d := reading.Delivery{}
				if len(rs) == 0 {
					d.Outcome, d.Reason = reading.Ignored, reading.EmptyPayload
				}
				r.send(d, rs...)
				sent++
				readings += len(rs)
				if rng.IntN(10) == 0 {
					time.Sleep(time.Duration(rng.IntN(10)) * time.Millisecond)
				}
			}
			r.finish(t)
			n := 0
			for _, b := range r.kept {
				n += b.Count()
			}
			if n != len(model) {
				t.Errorf("seed %d: %d readings stored, want %d", seed, n, len(model))
			}
			stored, dup := r.count(t, "gudang_readings_stored_total"), r.count(t, "gudang_readings_duplicate_total")
			if int(stored) != len(model) || int(stored+dup) != readings {
				t.Errorf("seed %d: counted %v stored and %v duplicate of %d, want %d stored", seed, stored, dup, readings, len(model))
			}
			if r.acks() != sent {
				t.Errorf("seed %d: %d of %d messages acked", seed, r.acks(), sent)
			}
		})
	}
}

func TestBucketFillIsObservedOnceForEachBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		// Live: six readings a minute for three minutes, then one late copy and
		// one late new reading for a bucket that was observed.
		minute := time.Now().Truncate(time.Minute).Add(time.Minute)
		time.Sleep(time.Until(minute))
		for i := range 18 {
			r.send(reading.Delivery{}, temp("S-01", time.Now().UnixMilli(), float64(i)))
			r.send(reading.Delivery{}, temp("S-01", time.Now().UnixMilli(), float64(i))) // a copy fills nothing
			time.Sleep(10 * time.Second)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := r.count(t, "gudang_bucket_fill_ratio"); n != 3 {
			t.Errorf("%v buckets observed, want 3", n)
		}
		r.send(reading.Delivery{}, temp("S-01", minute.Add(5*time.Second).UnixMilli(), 1))
		time.Sleep(10 * time.Second)
		if n := r.count(t, "gudang_bucket_fill_ratio"); n != 3 {
			t.Errorf("%v buckets observed after a late reading, want 3", n)
		}
		// A backlog of old minutes, shuffled: each is observed once too.
		old := minute.Add(-40 * time.Minute)
		for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(120) {
			r.send(reading.Delivery{}, temp("S-01", old.Add(time.Duration(i)*10*time.Second).UnixMilli(), 1))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := r.count(t, "gudang_bucket_fill_ratio"); n != 23 {
			t.Errorf("%v buckets observed after a backlog of 20, want 23", n)
		}
		if n := r.count(t, "gudang_open_buckets"); n != 0 {
			t.Errorf("%v buckets are open", n)
		}
		families, err := r.reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "gudang_bucket_fill_ratio" {
				if sum := f.GetMetric()[0].Histogram.GetSampleSum(); math.Abs(sum-23) > 1e-9 {
					t.Errorf("the fills add up to %v, want 23 full ones", sum)
				}
			}
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if n := r.b.fill.series.len() + r.b.fill.buckets.len() + len(r.b.fill.places); n != 0 {
			t.Errorf("%d series are remembered after three silent hours", n)
		}
		r.finish(t)
	})
}

func TestMetricsAreValid(t *testing.T) {
	reg := prometheus.NewRegistry()
	newMetrics(reg, func() float64 { return 0 })
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func BenchmarkAdd(b *testing.B) {
	span, _ := reading.NewSpan(time.Minute)
	for _, sensors := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("sensors=%d", sensors), func(b *testing.B) {
			in, st := newIntake(), newStore()
			bk := New(Config{Span: span, ReadingInterval: 10 * time.Second, FlushInterval: time.Second, FlushReadings: 10_000}, in, st, NewSensors(1_000_000), prometheus.NewRegistry())
			names := make([]string, sensors)
			for i := range names {
				names[i] = fmt.Sprintf("S-%06d", i)
			}
			b.ReportAllocs()
			n := 0
			for i := 0; b.Loop(); i++ {
				s, k := i/6%sensors, int64(i%6)+int64(i/6/sensors)*6
				bk.batch.Deliveries = append(bk.batch.Deliveries, reading.Delivery{Readings: 1})
				bk.batch.Readings = append(bk.batch.Readings, temp(names[s], 1_780_000_020_000+k*10_000, 20))
				if n++; n%1000 == 0 {
					bk.take()
				}
				if bk.gather.readings >= 10_000 {
					g := bk.gather
					bk.gather = bk.spare
					bk.settle(flushed{g: g})
					bk.spare = g
				}
			}
		})
	}
}

func TestAnySensorIsAKnownOne(t *testing.T) {
	if id := NewSensors(5).Any(); id != "" {
		t.Errorf("none is known, and any is %q", id)
	}
	seen := map[string]int{}
	for range 3000 {
		s := NewSensors(5)
		for _, id := range []string{"a", "b", "a", "c"} {
			s.Know(id)
		}
		seen[s.Any()]++
	}
	for _, id := range []string{"a", "b", "c"} { // 1,000 each, give or take 26
		if seen[id] < 800 || seen[id] > 1200 || len(seen) != 3 {
			t.Errorf("any was %v", seen)
		}
	}
}
