package source

import (
	"sync"

	"gudang/internal/decode"
	"gudang/internal/reading"
)

// Intake is the bounded queue between the broker's messages and what becomes
// of them. The MQTT side puts decoded messages in; the next stage takes them
// out in runs.
type Intake struct {
	limit int // messages that have not ended
	ready chan struct{}

	mu          sync.Mutex
	batch       reading.Batch
	outstanding int
	ended       bool
	news        chan struct{} // what changed gave out; nil: nobody asked
}

func newIntake(limit int) *Intake {
	return &Intake{limit: limit, ready: make(chan struct{}, 1)}
}

// Ready has a value when there may be something to take.
func (q *Intake) Ready() <-chan struct{} { return q.ready }

// Take moves what has arrived into into, and says whether there is more to
// come.
func (q *Intake) Take(into *reading.Batch) (more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	*into, q.batch = q.batch, *into
	q.batch.Reset()
	return !q.ended
}

// Done gives back the room of n deliveries that have ended.
func (q *Intake) Done(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.outstanding -= n
	q.tellLocked()
}

// Outstanding is how many messages have not ended.
func (q *Intake) Outstanding() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.outstanding
}

// end says that nothing more will come.
func (q *Intake) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	wake(q.ready)
	q.tellLocked()
}

// changed is closed when there is room again, or the intake has ended. Ask for
// it before looking, or the change is missed.
func (q *Intake) changed() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.news == nil {
		q.news = make(chan struct{})
	}
	return q.news
}

func (q *Intake) tellLocked() {
	if q.news != nil {
		close(q.news)
		q.news = nil
	}
}

// verdict is what became of a message given to an intake.
type verdict uint8

const (
	taken    verdict = iota
	full             // no room now
	over             // the intake has ended
	unwanted         // no filter wants it
)

// put adds a message with what was decoded of it.
func (q *Intake) put(d reading.Delivery, r *decode.Result) verdict {
	q.mu.Lock()
	defer q.mu.Unlock()
	if v := q.roomLocked(); v != taken {
		return v
	}
	q.outstanding++
	b := &q.batch
	b.Deliveries = append(b.Deliveries, d)
	for i := range r.Values {
		b.Readings = append(b.Readings, r.Values[i].Reading)
	}
	if r.Outcome == reading.Pending { // a message that is rejected as a whole counts once
		for _, dropped := range r.Dropped {
			b.Dropped = append(b.Dropped, dropped.Reason)
		}
	}
	wake(q.ready)
	return taken
}

// room is what put would say.
func (q *Intake) room() verdict {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.roomLocked()
}

func (q *Intake) roomLocked() verdict {
	switch {
	case q.ended:
		return over
	case q.outstanding >= q.limit:
		return full
	}
	return taken
}

// overflow counts a message that is lost.
func (q *Intake) overflow() {
	q.mu.Lock()
	q.batch.Overflow++
	q.mu.Unlock()
	wake(q.ready)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
