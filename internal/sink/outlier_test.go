package sink

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"gudang/internal/reading"
)

// outlierWorld is a fake server, a clock, and what should be stored of one
// series in the end.
type outlierWorld struct {
	*fakeServer
	t       *testing.T
	clock   time.Time
	settler settler
	want    map[int32]float64
}

func newOutlierWorld(t *testing.T, most int) *outlierWorld {
	w := &outlierWorld{fakeServer: newFake(), t: t, clock: time.Unix(0, 0), want: map[int32]float64{}}
	w.most = most
	w.settler = settler{now: func() time.Time { return w.clock }}
	return w
}

// write writes until the store has taken it, as Sink.Write does, or gives up
// after the first failure.
func (w *outlierWorld) write(giveUp bool, offsets ...int32) {
	b := one("fast", offsets...)
	for _, off := range offsets {
		if _, there := w.want[off]; !there {
			w.want[off] = float64(off)
		}
	}
	for range 20 {
		res := writeBatch(w.t.Context(), w, []*reading.Bucket{b})
		if len(res.Again) == 0 || giveUp {
			return
		}
	}
	w.t.Fatal("it is never taken")
}

// migrate is the part of Sweep that finds a large bucket.
func (w *outlierWorld) migrate(giveUp bool) {
	for range 20 {
		if _, err := migrate(w.t.Context(), w, Outlier{Key: one("fast").Key(), Until: 60_000}); err == nil || giveUp {
			return
		}
	}
	w.t.Fatal("it never ends")
}

// calm lets time pass until nobody has anything left to do.
func (w *outlierWorld) calm() {
	for range 10 {
		w.clock = w.clock.Add(settleAfter + time.Second)
		if _, err := w.settler.settleAll(w.t.Context(), w); err != nil {
			w.t.Fatal(err)
		}
	}
	w.clock = w.clock.Add(forgetAfter)
	for range 2 {
		if _, err := w.settler.settleAll(w.t.Context(), w); err != nil {
			w.t.Fatal(err)
		}
	}
}

// check says how what is stored differs from what should be: nothing missing,
// nothing but copies of it, and counters that agree.
func (w *outlierWorld) check(complete bool) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	have := map[int32]float64{}
	var total totals
	for _, r := range w.overflow {
		have[int32(r.Time)] = r.Value
		total.add(r.Value)
	}
	if complete && !maps.Equal(have, w.want) {
		say("overflow has %v, want %v", have, w.want)
	}
	state := w.state()
	if state.arrays || !state.outlier {
		say("the migration has not ended: %+v", state)
	}
	if state.count != total.count || math.Abs(state.sum-total.sum) > 1e-9 || total.count > 0 && (state.min != total.min || state.max != total.max) {
		say("counters are %+v, want %+v", state.totals, total)
	}
	if len(w.marked) > 0 {
		say("marks are left: %v", w.marked)
	}
	return problems
}

func (w *outlierWorld) state() outlierState {
	doc, err := readOne(w.t.Context(), w, one("fast").ID(0))
	if err != nil || doc == nil {
		return outlierState{}
	}
	return stateOf(doc)
}

// The whole life of an outlier is stopped at each of its commands, before the
// command and after it. Then either the same writer tries again, or it is dead
// and nobody does, or it is dead and its messages come again.
func TestAnOutlierIsExactWhereverItIsStopped(t *testing.T) {
	t.Parallel()
	lives := map[string]func(w *outlierWorld, giveUp bool){
		"growing": func(w *outlierWorld, giveUp bool) {
			w.write(giveUp, 1, 2, 3)
			w.write(giveUp, 4, 5)
			w.migrate(giveUp)
			w.write(giveUp, 5, 6, 7)
			w.write(giveUp, 8)
		},
		"too large at once": func(w *outlierWorld, giveUp bool) {
			w.write(giveUp, 1, 2, 3)
			w.write(giveUp, 3, 4, 5, 6, 7, 8)
			w.write(giveUp, 8, 9)
		},
	}
	for name, life := range lives {
		for _, when := range []string{"before", "after"} {
			for _, then := range []string{"tries again", "is dead", "is dead and its messages come again"} {
				t.Run(name+", "+when+", "+then, func(t *testing.T) {
					t.Parallel()
					for stop, reached := 1, true; reached; stop++ {
						w := newOutlierWorld(t, 4)
						reached = w.live(life, stop, when, then)
						if stop > 1000 {
							t.Fatal("it does not end")
						}
						for _, p := range w.check(then != "is dead") {
							t.Errorf("stopped at command %d: %s", stop, p)
						}
					}
				})
			}
		}
	}
}

func (w *outlierWorld) live(life func(*outlierWorld, bool), stop int, when, then string) (reached bool) {
	dead := false
	fail := func(n int) error {
		if n == stop {
			reached, dead = true, then != "tries again"
		}
		if dead || n == stop {
			return errNetwork
		}
		return nil
	}
	if when == "before" {
		w.before = fail
	} else {
		w.after = func(n int) error { return fail(n) }
		w.before = func(int) error { // a dead process sends nothing more
			if dead {
				return errNetwork
			}
			return nil
		}
	}
	life(w, then != "tries again")
	w.before, w.after = nil, nil
	if then == "is dead and its messages come again" {
		life(w, false)
	}
	if doc := w.state(); doc.found && !doc.outlier {
		w.migrate(false) // the next sweep, of whoever is there
	}
	w.calm()
	if !w.state().found { // it died before it had done anything
		w.migrate(false)
		w.calm()
	}
	return reached
}

// Writers with parts of the same readings, a sweeper and a settler that is in a
// hurry all work on one bucket, and lose replies.
func TestConcurrentWritersOfAnOutlierEndExact(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		w := newOutlierWorld(t, 20)
		var faults sync.Mutex
		rnd := rand.New(rand.NewPCG(seed, 1))
		lose := func(int) error {
			faults.Lock()
			defer faults.Unlock()
			if rnd.IntN(12) == 0 {
				return errNetwork
			}
			return nil
		}
		w.before, w.after = lose, lose
		ctx, stop := context.WithCancel(t.Context())
		var writers, others sync.WaitGroup
		for n := range uint64(3) {
			writers.Go(func() { w.writeParts(rand.New(rand.NewPCG(seed, n+2))) })
		}
		others.Go(func() {
			hasty := settler{}
			clock := time.Unix(0, 0)
			hasty.now = func() time.Time { clock = clock.Add(settleAfter); return clock }
			for ctx.Err() == nil {
				if s := w.state(); s.count > 20 && !s.outlier {
					_, _ = migrate(ctx, w, Outlier{Key: one("fast").Key(), Until: 60_000}) // fails at times
				}
				_, _ = hasty.settleAll(ctx, w)
			}
		})
		writers.Wait()
		stop()
		others.Wait()
		w.before, w.after = nil, nil
		w.migrate(false) // a last sweep
		for off := range int32(200) {
			w.want[off] = float64(off)
		}
		w.calm()
		for _, p := range w.check(true) {
			t.Errorf("seed %d: %s", seed, p)
		}
	}
}

// writeParts writes all of 200 readings, some of them several times.
func (w *outlierWorld) writeParts(rnd *rand.Rand) {
	for from := int32(0); from < 200; from += 10 {
		offsets := []int32{}
		for i := range int32(10) {
			offsets = append(offsets, from+i)
		}
		for range rnd.IntN(8) {
			if off := rnd.Int32N(from + 10); off < from {
				offsets = append(offsets, off)
			}
		}
		b := one("fast", offsets...)
		for range 200 {
			if res := writeBatch(context.Background(), w, []*reading.Bucket{b}); len(res.Again) == 0 {
				break
			}
		}
	}
}

func TestADamagedBucketIsNotMigrated(t *testing.T) {
	w := newOutlierWorld(t, 4)
	w.write(false, 1, 2, 3)
	set(w.docs[one("fast").ID(0)], "offsets", "none")
	res := writeBatch(t.Context(), w, []*reading.Bucket{one("fast", 4, 5, 6, 7, 8), one("good", 1)})
	if have, want := told(res), "refused fast+4, refused fast+5, refused fast+6, refused fast+7, refused fast+8, ok 1 exists 0 rejected 1 failed 0"; have != want {
		t.Errorf("%s, want %s", have, want)
	}
	if s := w.state(); s.outlier || !s.arrays {
		t.Errorf("the damaged bucket was touched: %+v", s)
	}
}
