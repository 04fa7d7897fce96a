package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"gudang/internal/reading"
)

// feed is the intake that a journal takes from.
type feed struct {
	ready chan struct{}

	mu    sync.Mutex
	batch reading.Batch
	ended bool
	room  int   // given back
	acked []int // messages, in the order of their acknowledgement
}

func newFeed() *feed { return &feed{ready: make(chan struct{}, 1)} }

func (f *feed) Ready() <-chan struct{} { return f.ready }

func (f *feed) Take(into *reading.Batch) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	*into, f.batch = f.batch, *into
	f.batch.Reset()
	return !f.ended
}

func (f *feed) Done(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.room += n
}

func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	wake(f.ready)
}

func (f *feed) ackedSoFar() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.acked)
}

// ackOf acknowledges message n.
type ackOf struct {
	f *feed
	n int
}

func (a ackOf) Ack(uint16, byte) {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	a.f.acked = append(a.f.acked, a.n)
}

// put gives message n to the journal; its readings can be told from those of
// any other. One without readings was refused.
func (f *feed) put(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rs := readingsOf(n)
	d := reading.Delivery{Readings: len(rs), Acker: ackOf{f, n}, ID: uint16(n), QoS: 1}
	if len(rs) == 0 {
		d.Outcome, d.Reason = reading.Rejected, reading.InvalidJSON
	} else if n%3 == 0 {
		d.Hash, d.Stamp = uint64(n)+1, rs[0].Time
	}
	f.batch.Deliveries = append(f.batch.Deliveries, d)
	f.batch.Readings = append(f.batch.Readings, rs...)
	wake(f.ready)
}

const perMessage = 16 // ms, and the most readings of a message

// readingsOf are the readings of message n: none if it is one that is refused.
func readingsOf(n int) (rs []reading.Reading) {
	if n%7 == 5 {
		return nil
	}
	for i := range 1 + n%3 {
		rs = append(rs, reading.Reading{
			Series: reading.Series{Sensor: fmt.Sprintf("sensor-%d", n%50), Metric: []string{"temperature", "humidity", "co2"}[i]},
			Time:   1_760_000_000_000 + int64(n)*perMessage + int64(i), Value: float64(n) + float64(i)/8,
		})
	}
	return rs
}

// messageOf says which message readings are of.
func messageOf(t *testing.T, rs []reading.Reading) int {
	t.Helper()
	n := int(rs[0].Time-1_760_000_000_000) / perMessage
	if want := readingsOf(n); !slices.Equal(rs, want) {
		t.Fatalf("message %d came as %v, want %v", n, rs, want)
	}
	return n
}

// taken are the messages of a batch.
func taken(t *testing.T, b *reading.Batch) (ns []int, refused int) {
	t.Helper()
	next := 0
	for _, d := range b.Deliveries {
		if d.Acker != nil {
			t.Fatal("a delivery was handed on with somebody waiting for it")
		}
		if d.Outcome != reading.Pending {
			if d.Outcome != reading.Rejected || d.Reason != reading.InvalidJSON || d.Readings != 0 {
				t.Fatalf("a refused message came as %+v", d)
			}
			refused++
			continue
		}
		ns = append(ns, messageOf(t, b.Readings[next:next+d.Readings]))
		next += d.Readings
	}
	if next != len(b.Readings) {
		t.Fatalf("%d readings belong to no message", len(b.Readings)-next)
	}
	return ns, refused
}

// small are limits at which everything happens with few messages.
var small = limits{segment: 600, group: 150, commit: 400, deliveries: 12, readings: 24, refused: 10, ids: 20}

// world is what a test has around a journal.
type world struct {
	t    *testing.T
	cfg  Config
	lim  limits
	dir  directory
	feed *feed
	reg  *prometheus.Registry
	log  *bytes.Buffer
	j    *Journal
	stop context.CancelFunc
	ran  chan error
}

func newWorld(t *testing.T, dir directory) *world {
	w := &world{t: t, cfg: Config{MaxBytes: 1 << 20}, lim: small, dir: dir}
	return w
}

func (w *world) open() *world {
	w.t.Helper()
	w.feed, w.reg, w.log = newFeed(), prometheus.NewRegistry(), &bytes.Buffer{}
	w.cfg.Log = slog.New(slog.NewTextHandler(&locked{w: w.log}, nil))
	j, err := open(w.cfg, w.lim, w.dir, w.feed, w.reg)
	if err != nil {
		w.t.Fatalf("open: %v", err)
	}
	w.j = j
	return w
}

type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func (w *world) run() *world {
	ctx, cancel := context.WithCancel(context.Background())
	w.stop, w.ran = cancel, make(chan error, 1)
	go func() { w.ran <- w.j.Run(ctx) }()
	return w
}

// crash ends the journal without any of what it does at a stop.
func (w *world) crash() {
	w.stop()
	<-w.ran
}

// drain takes all there is until nothing is ready, and commits it.
func (w *world) drain() (ns []int, refused int) {
	w.t.Helper()
	var b reading.Batch
	for {
		synctest.Wait()
		select {
		case <-w.j.Ready():
		default:
			return ns, refused
		}
		w.j.Take(&b)
		got, k := taken(w.t, &b)
		ns, refused = append(ns, got...), refused+k
		w.j.Done(len(b.Deliveries))
	}
}

func (w *world) damaged() float64 { return testutil.ToFloat64(w.j.metrics.damaged) }

func upTo(n int) (ns []int) {
	for i := range n {
		if len(readingsOf(i)) > 0 {
			ns = append(ns, i)
		}
	}
	return ns
}

func TestWhatIsAckedIsSyncedAndHandedOnInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := newMemDir()
		w := newWorld(t, dir).open().run()
		before := dir.syncs
		for n := range 10 {
			w.feed.put(n)
		}
		synctest.Wait()
		if got := w.feed.ackedSoFar(); !slices.Equal(got, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
			t.Errorf("acknowledged %v", got)
		}
		if w.feed.room != 10 {
			t.Errorf("gave back the room of %d, want 10", w.feed.room)
		}
		if dir.syncs-before > 2 {
			t.Errorf("%d syncs for one batch, want 1, or 2 if it filled a segment", dir.syncs-before)
		}
		var b reading.Batch
		<-w.j.Ready()
		if !w.j.Take(&b) {
			t.Error("the journal says it has ended")
		}
		if got, refused := taken(t, &b); !slices.Equal(got, upTo(10)) || refused != 1 {
			t.Errorf("handed on %v and %d refused", got, refused)
		}
		w.j.Done(len(b.Deliveries))
		w.feed.end()
		synctest.Wait()
		<-w.j.Ready()
		if w.j.Take(&b) || len(b.Deliveries) > 0 {
			t.Error("the journal does not say that it has ended")
		}
		if err := <-w.ran; err != nil {
			t.Errorf("Run: %v", err)
		}
		if got := w.j.bytes(); got != 0 {
			t.Errorf("%v bytes are uncommitted, want 0", got)
		}
		again := newWorld(t, dir.afterKill()).open()
		if again.j.handed != again.j.appended {
			t.Errorf("%d messages to replay after a clean stop", again.j.appended-again.j.handed)
		}
	})
}

func TestAKillReplaysWhatIsNotCommittedAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := newMemDir()
		w := newWorld(t, dir).open().run()
		var order []int
		var b reading.Batch
		for n := range 200 {
			w.feed.put(n)
			if n%10 == 0 {
				synctest.Wait()
				w.j.Take(&b)
				ns, _ := taken(t, &b)
				order = append(order, ns...)
				for i := range b.Deliveries {
					if b.Deliveries[i].Outcome != reading.Pending {
						order = append(order, -1)
					}
				}
			}
		}
		synctest.Wait()
		w.j.Done(len(order) / 2)
		committed := map[int]bool{}
		for _, n := range order[:len(order)/2] {
			committed[n] = true
		}
		w.crash()
		again := newWorld(t, dir.afterKill()).open().run()
		replayed, _ := again.drain()
		var want []int
		for _, n := range upTo(200) {
			if !committed[n] {
				want = append(want, n)
			}
		}
		if !slices.Equal(replayed, want) {
			t.Errorf("replayed %v, want %v", replayed, want)
		}
		readings := 0
		for _, n := range want {
			readings += len(readingsOf(n))
		}
		if got := testutil.ToFloat64(again.j.metrics.replayed); int(got) != readings {
			t.Errorf("counted %v replayed readings, want %d", got, readings)
		}
		again.crash()
	})
}

// Whatever is acknowledged is with the store or comes back, in order, whole,
// whenever the power fails and whatever it leaves of what was not synced.
func TestNothingAckedIsLostInAPowerCut(t *testing.T) {
	seeds := 400
	if testing.Short() {
		seeds = 60
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { powerCuts(t, rand.New(rand.NewPCG(uint64(seed), 7))) })
		})
	}
}

func powerCuts(t *testing.T, rng *rand.Rand) {
	var (
		dir       = newMemDir()
		next      = 0
		acked     = map[int]bool{}
		committed = map[int]bool{}
	)
	for range 5 {
		dir.left = rng.IntN(120)
		w := newWorld(t, dir)
		if rng.IntN(3) == 0 {
			w.cfg.MaxBytes = 2000
		}
		w.open().run()
		var (
			b     reading.Batch
			order []int // what the next stage has, -1 for what was refused
			last  = -1
		)
		for range 10 + rng.IntN(40) {
			switch rng.IntN(3) {
			case 0:
				for range rng.IntN(30) {
					w.feed.put(next)
					next++
				}
			case 1:
				select {
				case <-w.j.Ready():
					if dir.dead {
						break // what is read of a dead disk proves nothing
					}
					w.j.Take(&b)
					ns, refused := taken(t, &b)
					for _, n := range ns {
						if n <= last {
							t.Fatalf("message %d came after %d", n, last)
						}
						last = n
					}
					order = append(order, ns...)
					order = append(order, slices.Repeat([]int{-1}, refused)...)
				default:
				}
			case 2:
				n := rng.IntN(len(order) + 1)
				for _, m := range order[:n] {
					committed[m] = true
				}
				order = order[n:]
				w.j.Done(n)
			}
			synctest.Wait()
		}
		w.crash()
		for _, n := range w.feed.ackedSoFar() {
			acked[n] = true
		}
		if rng.IntN(4) == 0 {
			dir = dir.afterKill()
		} else {
			dir = dir.afterPowerCut(rng)
		}
		if got := w.damaged(); got != 0 {
			t.Errorf("a crash counts as %v damages: %s", got, w.log)
		}
	}
	w := newWorld(t, dir).open().run()
	defer w.crash()
	replayed, _ := w.drain()
	seen := map[int]bool{}
	for i, n := range replayed {
		if n >= next || i > 0 && n <= replayed[i-1] {
			t.Fatalf("replayed %v: message %d is out of place", replayed, n)
		}
		seen[n] = true
	}
	for n := range acked {
		if !committed[n] && !seen[n] && len(readingsOf(n)) > 0 {
			t.Errorf("message %d was acknowledged and is lost\n%s", n, w.log)
		}
	}
	if got := w.damaged(); got != 0 {
		t.Errorf("a crash counts as %v damages: %s", got, w.log)
	}
}

func TestABacklogLiesOnDiskAndNotInMemory(t *testing.T) {
	for _, lim := range []limits{{deliveries: 12, readings: 1000}, {deliveries: 1000, readings: 24}} {
		t.Run(fmt.Sprintf("%d messages, %d readings", lim.deliveries, lim.readings), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { backlog(t, lim.deliveries, lim.readings) })
		})
	}
}

func backlog(t *testing.T, deliveries, readings int) {
	w := newWorld(t, newMemDir())
	w.lim.deliveries, w.lim.readings = deliveries, readings
	w.open().run()
	const n = 3000
	for i := range n {
		w.feed.put(i)
		if i%20 == 0 {
			synctest.Wait()
			if d, r := len(w.j.memory.Deliveries), len(w.j.memory.Readings); d > deliveries || r > readings {
				t.Fatalf("%d deliveries and %d readings lie in memory", d, r)
			}
		}
	}
	synctest.Wait()
	if got := len(w.feed.ackedSoFar()); got != n {
		t.Fatalf("%d of %d are acknowledged", got, n)
	}
	ns, refused := w.drain()
	if !slices.Equal(ns, upTo(n)) || refused != n-len(upTo(n)) {
		t.Errorf("handed on %d messages and %d refused ones", len(ns), refused)
	}
	// Once caught up, what arrives goes through memory again.
	w.feed.put(n)
	synctest.Wait()
	if got := len(w.j.memory.Deliveries); got != 1 {
		t.Errorf("%d deliveries in memory, want 1", got)
	}
	w.crash()
}

// Take and Run work at the same time, on a backlog that comes and goes.
func TestWritingAndReadingAtTheSameTime(t *testing.T) {
	const n = 20_000
	w := newWorld(t, newMemDir()).open().run()
	go func() {
		for i := range n {
			w.feed.put(i)
			if i%64 == 0 {
				runtime.Gosched()
			}
		}
		w.feed.end()
	}()
	var b reading.Batch
	var all []int
	for more := true; more; {
		<-w.j.Ready()
		more = w.j.Take(&b)
		ns, _ := taken(t, &b)
		all = append(all, ns...)
		w.j.Done(len(b.Deliveries))
	}
	if err := <-w.ran; err != nil {
		t.Errorf("Run: %v", err)
	}
	if !slices.Equal(all, upTo(n)) {
		t.Errorf("handed on %d messages, want %d in order", len(all), len(upTo(n)))
	}
	if got := w.damaged(); got != 0 {
		t.Errorf("counted %v damages: %s", got, w.log)
	}
}

func TestAFullJournalStopsTakingAndGoesOn(t *testing.T) {
	for _, maxBytes := range []int64{500, 3000} {
		t.Run(fmt.Sprint(maxBytes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, newMemDir())
				w.cfg.MaxBytes = maxBytes
				w.open().run()
				const n = 600
				for i := range n {
					w.feed.put(i)
					synctest.Wait()
				}
				if w.j.total > maxBytes {
					t.Errorf("journal has %d bytes, the limit is %d", w.j.total, maxBytes)
				}
				if err := w.j.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "full") {
					t.Errorf("Check: %v, want that it is full", err)
				}
				if got := len(w.feed.ackedSoFar()); got == 0 || got == n {
					t.Errorf("%d of %d are acknowledged", got, n)
				}
				if ns, _ := w.drain(); !slices.Equal(ns, upTo(n)) {
					t.Errorf("handed on %d messages, want %d", len(ns), len(upTo(n)))
				}
				if err := w.j.Check(t.Context()); err != nil {
					t.Errorf("Check: %v", err)
				}
				if got := strings.Count(w.log.String(), "journal is full"); got < 1 || maxBytes > 1000 && got > 15 {
					t.Errorf("the log says %d times that the journal is full", got)
				}
				w.crash()
			})
		})
	}
}

func TestADiskThatFailsAcksNothingAndRecovers(t *testing.T) {
	for _, c := range []struct {
		op  string
		err error
	}{{"write", syscall.ENOSPC}, {"write", errShort}, {"sync", syscall.EIO}, {"create", syscall.ENOSPC}, {"syncdir", syscall.EIO}} {
		t.Run(c.op+": "+c.err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := newMemDir()
				w := newWorld(t, dir).open().run()
				n := 0
				if c.op == "write" || c.op == "sync" { // else there would be no need to create
					w.feed.put(n)
					n++
				}
				synctest.Wait()
				dir.mu.Lock()
				failed := map[string]bool{}
				dir.fail = func(op, name string) error {
					if op == "write" && failed[name] {
						t.Errorf("%s is written to again", name)
					}
					if op == c.op && name != checkpointName {
						failed[name] = c.op == "sync" && len(dir.files[name].durable) > 0
						return c.err
					}
					return nil
				}
				dir.mu.Unlock()
				first := n
				for ; n < first+5; n++ {
					w.feed.put(n)
				}
				time.Sleep(time.Minute)
				if got := len(w.feed.ackedSoFar()); got != first {
					t.Errorf("%d are acknowledged, want %d", got, first)
				}
				if err := w.j.Check(t.Context()); !errors.Is(err, c.err) {
					t.Errorf("Check: %v, want %v", err, c.err)
				}
				if got := strings.Count(w.log.String(), "journal can't be written"); got != 1 && got != 2 {
					t.Errorf("the log says %d times that the journal can't be written", got)
				}
				dir.mu.Lock()
				dir.fail = nil
				dir.mu.Unlock()
				time.Sleep(time.Minute)
				if got := len(w.feed.ackedSoFar()); got != n {
					t.Errorf("%d are acknowledged, want %d", got, n)
				}
				if err := w.j.Check(t.Context()); err != nil {
					t.Errorf("Check: %v", err)
				}
				w.crash()
				for seed := range uint64(20) {
					after := newWorld(t, dir.afterPowerCut(rand.New(rand.NewPCG(seed, 1)))).open().run()
					if got, _ := after.drain(); !slices.Equal(got, upTo(n)) {
						t.Errorf("replayed %v, want %v", got, upTo(n))
					}
					if got := after.damaged(); got != 0 {
						t.Errorf("counted %v damages: %s", got, after.log)
					}
					after.crash()
				}
			})
		})
	}
}

func TestStampsSurviveUntilTheBrokerCanNotRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := newMemDir()
		w := newWorld(t, dir).open().run()
		const n = 500
		for i := range n {
			w.feed.put(i)
			synctest.Wait()
			w.drain()
		}
		w.feed.end()
		w.drain()
		if err := <-w.ran; err != nil {
			t.Fatal(err)
		}
		again := newWorld(t, dir.afterKill()).open()
		got := slices.Collect(again.j.Stamps())
		if len(got) > small.ids {
			t.Errorf("%d stamps, want at most %d", len(got), small.ids)
		}
		var want []Stamp
		for i := n - small.ids; i < n; i++ {
			if rs := readingsOf(i); i%3 == 0 && len(rs) > 0 {
				want = append(want, Stamp{uint16(i), uint64(i) + 1, rs[0].Time})
			}
		}
		if !slices.Equal(got[len(got)-len(want):], want) {
			t.Errorf("stamps %v do not end with %v", got, want)
		}
		if again.j.handed != again.j.appended {
			t.Errorf("%d messages to replay", again.j.appended-again.j.handed)
		}
		if files, _ := dir.List(); len(files) > 6 {
			t.Errorf("%d files are left", len(files))
		}
	})
}

func TestAFloodOfRefusedMessagesTakesNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := newMemDir()
		w := newWorld(t, dir).open().run()
		before := dir.syncs
		for range 1000 {
			w.feed.put(5)
		}
		w.feed.mu.Lock()
		w.feed.batch.Overflow = 3
		w.feed.batch.Dropped = append(w.feed.batch.Dropped, reading.OutOfRange)
		w.feed.mu.Unlock()
		synctest.Wait()
		if got := len(w.feed.ackedSoFar()); got != 1000 {
			t.Errorf("%d are acknowledged, want 1000", got)
		}
		if dir.syncs != before {
			t.Error("refused messages were synced")
		}
		var b reading.Batch
		<-w.j.Ready()
		w.j.Take(&b)
		if len(b.Deliveries) != small.refused || b.Overflow != 3 || !slices.Equal(b.Dropped, []reading.Reason{reading.OutOfRange}) {
			t.Errorf("got %d deliveries, overflow %d, dropped %v", len(b.Deliveries), b.Overflow, b.Dropped)
		}
		select {
		case <-w.j.Ready():
			t.Error("more is offered before the first are done")
		default:
		}
		w.j.Done(small.refused)
		if _, refused := w.drain(); refused != 1000-small.refused {
			t.Errorf("%d more refused messages, want %d", refused, 1000-small.refused)
		}
		w.crash()
	})
}

// Between the reader's look at a segment and its next step the writer may
// write there, seal it and begin another: the reader must not skip that.
func TestTheReaderSkipsNothingWrittenMeanwhile(t *testing.T) {
	s, next := &segment{first: 1, size: 100, end: 20}, &segment{first: 20, size: 50}
	j := &Journal{segments: []*segment{s, next}, active: next, at: s, offset: 60}
	if !j.advance(s, 60, 10) || j.at != s || j.offset != 60 {
		t.Errorf("went on to segment %d, offset %d", j.at.first, j.offset)
	}
	if !j.advance(s, 100, 20) || j.at != next || j.offset != 0 {
		t.Errorf("stays in segment %d, offset %d", j.at.first, j.offset)
	}
	if j.advance(next, 50, 30) {
		t.Error("goes on behind the last segment")
	}
}
