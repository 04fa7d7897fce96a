package source

import (
	"log/slog"
	"sync"
	"time"

	"gudang/internal/decode"
	"gudang/internal/reading"
)

// message is a message as it came in.
type message struct {
	client   string // who sent it, where that is known
	topic    string
	payload  []byte // not kept
	retained bool
	again    bool // the DUP flag
	id       uint16
	qos      byte
	acker    reading.Acker
}

// entrance is what the sessions of a process have in common: whichever of them
// a message comes by, it is one stream from here on.
type entrance struct {
	intake  *Intake
	metrics *metrics

	mu       sync.Mutex
	stamps   *stamps
	rejects  *rejectLog
	sessions int // that may still bring messages
	up       int // of these, how many can
}

func newEntrance(limit int, log *slog.Logger, reg Registerer) *entrance {
	q := newIntake(limit)
	return &entrance{
		intake: q, stamps: newStamps(max(limit, 1<<16)), rejects: newRejectLog(log),
		metrics: newMetrics(reg, func() float64 { return float64(q.Outstanding()) }),
	}
}

// remember implements Remember of both sources.
func (e *entrance) remember(hash uint64, stamp int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stamps.remember(hash, stamp)
}

// join counts a session in; leave counts it out, and after the last of them
// nothing more comes.
func (e *entrance) join() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sessions++
}

func (e *entrance) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sessions--; e.sessions == 0 {
		e.intake.end()
	}
}

// change counts sessions that can bring messages now, or no longer.
func (e *entrance) change(up int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.up += up
	connected := 0.0
	if e.up >= e.sessions {
		connected = 1
	}
	e.metrics.connected.Set(connected)
}

// receiver makes deliveries of messages and puts them into the intake. It is
// used by one goroutine at a time.
type receiver struct {
	*entrance
	decoder *decode.Decoder

	now    time.Time
	result decode.Result // of the message that was decoded last
}

func newReceiver(limit int, decoder *decode.Decoder, log *slog.Logger, reg Registerer) receiver {
	return receiver{entrance: newEntrance(limit, log, reg), decoder: decoder}
}

// decode is the first half of taking a message in. It changes nothing.
func (r *receiver) decode(m *message) {
	r.now = time.Now()
	r.decoder.Decode(decode.Message{Topic: m.topic, Payload: m.payload, Retained: m.retained, Received: r.now.UnixMilli()}, &r.result)
}

// put is the second half. Unless the message is taken, it has left no trace
// and may be put again.
func (r *receiver) put(m *message) verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.intake.room(); v != taken {
		return v // and nobody else puts, so there is room until the end
	}
	res := &r.result
	d := reading.Delivery{Outcome: res.Outcome, Reason: res.Reason}
	if m.qos > 0 {
		d.Acker, d.ID, d.QoS = m.acker, m.id, m.qos
	}
	r.count()
	if res.Outcome == reading.Pending {
		d.Readings = len(res.Values)
		r.metrics.readings.Add(float64(len(res.Values)))
		d.Hash, d.Stamp = r.stamps.stamp(res.Values, r.now.UnixMilli(), m)
	}
	if res.BadClock {
		r.metrics.badClock.Inc()
	}
	if res.Outcome == reading.Rejected || len(res.Dropped) > 0 || res.BadClock {
		r.rejects.note(m, res)
	}
	return r.intake.put(d, res)
}

// lose counts a message that finds no room and that nobody will send again.
func (r *receiver) lose() {
	r.count()
	r.intake.overflow()
}

func (r *receiver) count() {
	r.metrics.messages.Inc()
	r.metrics.last.Set(float64(r.now.UnixMilli()) / 1000)
}
