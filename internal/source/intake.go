package source

import (
	"hash/maphash"
	"sync"
	"time"

	"gudang/internal/decode"
	"gudang/internal/reading"
)

// Intake is the bounded queue between the broker's messages and what becomes
// of them. The MQTT side puts decoded messages in; the next stage takes them
// out in runs.
type Intake struct {
	limit int // messages that have not ended
	ready chan struct{}
	freed chan struct{} // there may be room again

	mu          sync.Mutex
	batch       reading.Batch
	outstanding int
	ended       bool
}

func newIntake(limit int) *Intake {
	return &Intake{limit: limit, ready: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
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
	q.outstanding -= n
	q.mu.Unlock()
	wake(q.freed)
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
	q.ended = true
	q.mu.Unlock()
	wake(q.ready)
	wake(q.freed)
}

// verdict is what became of a message given to an intake.
type verdict uint8

const (
	taken verdict = iota
	full          // no room now
	over          // the intake has ended
)

// put adds a message with what was decoded of it.
func (q *Intake) put(d reading.Delivery, r *decode.Result) verdict {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.ended:
		return over
	case q.outstanding >= q.limit:
		return full
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

// stamps gives readings without a time of their own a time that can serve as
// their identity. It is used by one goroutine.
type stamps struct {
	// Two readings of a series within one millisecond are two readings, so the
	// later gets the next millisecond. Two generations of a second each bound
	// the memory by the rate of messages.
	recent, before map[reading.Series]int64
	turned         int64

	// A message that the broker sends again after a lost connection must get
	// the time that it got first, or it would count twice. It comes with the
	// DUP flag and its old packet identifier; the hash tells it from another
	// message that got the identifier since.
	seed maphash.Seed
	seen [1 << 16]stamped
}

type stamped struct {
	hash uint64
	time int64
}

func newStamps() *stamps {
	return &stamps{recent: map[reading.Series]int64{}, before: map[reading.Series]int64{}, seed: maphash.MakeSeed()}
}

// generation must be longer than two readings of a series that could get one
// time lie apart.
const generation = int64(time.Second / time.Millisecond)

// stamp sets the time of the values that have none of their own. again is the
// message's DUP flag.
func (s *stamps) stamp(values []decode.Value, now int64, topic string, payload []byte, id uint16, qos byte, again bool) {
	own := true
	for i := range values {
		own = own && values[i].FromPayload
	}
	if own {
		return
	}
	var hash uint64
	if qos > 0 {
		hash = maphash.String(s.seed, topic) ^ maphash.Bytes(s.seed, payload)
		if was := s.seen[id]; again && was.time != 0 && was.hash == hash {
			set(values, was.time)
			return
		}
	}
	if now-s.turned > generation || now < s.turned {
		s.before, s.recent = s.recent, s.before
		clear(s.recent)
		s.turned = now
	}
	at := now
	for i := range values {
		if v := &values[i]; !v.FromPayload {
			if last, ok := s.recent[v.Series]; ok {
				at = max(at, last+1)
			} else if last, ok := s.before[v.Series]; ok {
				at = max(at, last+1)
			}
		}
	}
	set(values, at)
	for i := range values {
		if v := &values[i]; !v.FromPayload {
			s.recent[v.Series] = at
		}
	}
	if qos > 0 {
		s.seen[id] = stamped{hash, at}
	}
}

func set(values []decode.Value, at int64) {
	for i := range values {
		if !values[i].FromPayload {
			values[i].Time = at
		}
	}
}
