package journal

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"

	"gudang/internal/reading"
)

// Intake is where deliveries come from. The journal offers the same to the
// next stage.
type Intake interface {
	// Ready has a value when there may be something to take.
	Ready() <-chan struct{}
	// Take moves what has arrived into into, whose memory is reused, and says
	// whether there is more to come.
	Take(into *reading.Batch) (more bool)
	// Done gives back the room of n deliveries that have ended.
	Done(n int)
}

// Config says where the journal is and how much it may hold.
type Config struct {
	Dir      string
	MaxBytes int64 // of all segments; the broker holds what is more
	Log      *slog.Logger
}

// limits bound what lies in memory and how the files are cut.
type limits struct {
	segment    int // bytes of a file
	group      int // bytes of a group: what is lost by one damaged bit
	commit     int // bytes that are written and synced together
	deliveries int // synced messages that wait in memory for the next stage
	readings   int // the same, in readings
	refused    int // messages without readings that the next stage holds
	ids        int // messages back that a broker may still send again
}

func limitsFor(maxBytes int64) limits {
	segment := int(min(max(maxBytes/4, 4<<10), 16<<20))
	return limits{
		segment: segment, group: min(256<<10, segment), commit: min(4<<20, segment),
		deliveries: 20_000, readings: 1 << 16, refused: 20_000, ids: 1 << 16,
	}
}

// Journal is a stage between an intake and the next stage, for which it is an
// intake. Every message with readings has a number; numbers rise by one.
//
//	         done            handed               appended
//	─────────┼────────────────┼────────────────────┼──────▶ numbers
//	committed  with the next    in memory, or only    to be written
//	to store   stage            on disk
//
// Run writes; Take and Done are called by one goroutine, that of the next stage.
type Journal struct {
	cfg      Config
	lim      limits
	dir      directory
	upstream Intake
	log      *slog.Logger
	metrics  *metrics
	ready    chan struct{}
	freed    chan struct{} // something was done: there may be room
	stamps   []Stamp       // in the order of receipt
	opened   uint64        // what has a smaller number is from before the start
	settled  uint64        // what has a smaller number was committed before the start

	// Run's own.
	batch reading.Batch
	enc   *encoder

	// The next stage's own.
	dec   decoder
	buf   []byte
	doubt doubt

	trimming sync.Mutex // held while files are removed; taken before mu
	mark     file       // the checkpoint; nil: has to be created
	marked   uint64     // what it says
	markBuf  [checkpointSize]byte

	mu       sync.Mutex
	segments []*segment // by first
	active   *segment   // the last of them, while it is written to
	total    int64      // bytes of all
	appended uint64
	handed   uint64
	memory   reading.Batch // what comes next, of what is not handed on
	at       *segment      // what is only on disk comes from here on
	offset   int64
	runs     []run // what the next stage has, in order
	held     int   // messages without readings in runs
	aside    aside
	ended    bool  // nothing more will be written
	full     bool  // waiting for room
	saidFull bool  // and it is in the log
	problem  error // why the journal can't be written
}

// run is a run of deliveries that were handed on together: n with readings,
// from number first, then others.
type run struct {
	first  uint64
	n      int
	others int
}

// aside counts what goes to the next stage but needs no disk: a count takes
// the same room whatever the rate and however long the store is away.
type aside struct {
	deliveries map[ending]int
	dropped    map[reading.Reason]int
	overflow   int
}

type ending struct {
	outcome reading.Outcome
	reason  reading.Reason
}

// Ready has a value when there may be something to take.
func (j *Journal) Ready() <-chan struct{} { return j.ready }

// Take moves what is safe into into, and says whether there is more to come.
// Nobody waits for an acknowledgement of what it gives.
func (j *Journal) Take(into *reading.Batch) (more bool) {
	into.Reset()
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.memory.Deliveries) > 0 {
		*into, j.memory = j.memory, *into
		j.handed += uint64(len(into.Deliveries))
	} else if j.handed < j.appended {
		j.mu.Unlock()
		end := j.read(into, j.handed)
		j.mu.Lock()
		j.handed = end
	}
	n := len(into.Deliveries)
	j.aside.move(into, j.lim.refused-j.held)
	j.holdLocked(run{j.handed - uint64(n), n, len(into.Deliveries) - n})

	left := len(j.memory.Deliveries) > 0 || j.handed < j.appended
	if left || (len(j.aside.deliveries) > 0 && j.held < j.lim.refused) || len(j.aside.dropped) > 0 {
		wake(j.ready)
	}
	if left || !j.ended || !j.aside.empty() {
		return true
	}
	wake(j.freed) // Run may be waiting for just that
	return false
}

// holdLocked notes what the next stage has.
func (j *Journal) holdLocked(r run) {
	j.held += r.others
	if r.n == 0 && r.others == 0 {
		return
	}
	if len(j.runs) > 0 {
		last := &j.runs[len(j.runs)-1]
		if last.others == 0 && last.first+uint64(last.n) == r.first {
			last.n, last.others = last.n+r.n, r.others
			return
		}
	}
	j.runs = append(j.runs, r)
}

// Done says that the store has committed the next n deliveries, or will never
// take them. They are not needed any more.
func (j *Journal) Done(n int) {
	j.mu.Lock()
	used := 0
	for n > 0 && used < len(j.runs) {
		r := &j.runs[used]
		k := min(n, r.n)
		r.first, r.n, n = r.first+uint64(k), r.n-k, n-k
		k = min(n, r.others)
		r.others, j.held, n = r.others-k, j.held-k, n-k
		if r.n+r.others == 0 {
			used++
		}
	}
	j.runs = append(j.runs[:0], j.runs[used:]...)
	if len(j.aside.deliveries) > 0 && j.held < j.lim.refused {
		wake(j.ready)
	}
	j.mu.Unlock()
	j.trim()
	wake(j.freed)
}

// doneLocked is the number of the first message that is not committed.
func (j *Journal) doneLocked() uint64 {
	if len(j.runs) > 0 {
		return j.runs[0].first
	}
	return j.handed
}

// bytes is about how many bytes are not committed: of the segment that is
// committed in part, the part is taken by its messages.
func (j *Journal) bytes() float64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	done, sum := j.doneLocked(), 0.0
	for i, s := range j.segments {
		end := s.end
		if end == 0 {
			end = j.appended
			if i+1 < len(j.segments) {
				end = j.segments[i+1].first
			}
		}
		if from := max(done, s.first); from < end {
			sum += float64(s.size) * float64(end-from) / float64(end-s.first)
		}
	}
	return sum
}

// Check says whether the journal takes messages, and if not, why.
func (j *Journal) Check(context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.problem != nil:
		return fmt.Errorf("journal: %w", j.problem)
	case j.full:
		return fmt.Errorf("journal is full: %d of %d bytes: is the store away?", j.total, j.cfg.MaxBytes)
	}
	return nil
}

// Stamps are the times that were given to the latest messages without a time
// of their own, before the start, oldest first. They are there until Run is
// called.
func (j *Journal) Stamps() iter.Seq[Stamp] { return slices.Values(j.stamps) }

// empty says whether nothing waits to be handed on.
func (a *aside) empty() bool { return len(a.deliveries)+len(a.dropped)+a.overflow == 0 }

// add counts what is in b besides readings.
func (a *aside) add(b *reading.Batch) {
	for _, r := range b.Dropped {
		a.dropped[r]++
	}
	a.overflow += b.Overflow
}

// maxDropped bounds how many reasons a batch is given.
const maxDropped = 20_000

// move puts up to room deliveries, and the rest, into b.
func (a *aside) move(b *reading.Batch, room int) {
	for e, n := range a.deliveries {
		k := min(n, room)
		room -= k
		for range k {
			b.Deliveries = append(b.Deliveries, reading.Delivery{Outcome: e.outcome, Reason: e.reason})
		}
		if a.deliveries[e] -= k; k == n {
			delete(a.deliveries, e)
		}
	}
	for r, n := range a.dropped {
		k := min(n, maxDropped-len(b.Dropped))
		for range k {
			b.Dropped = append(b.Dropped, r)
		}
		if a.dropped[r] -= k; k == n {
			delete(a.dropped, r)
		}
	}
	b.Overflow, a.overflow = b.Overflow+a.overflow, 0
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
