package source

import (
	"log/slog"
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

// receiver makes deliveries of messages and puts them into the intake. It is
// used by one goroutine at a time.
type receiver struct {
	intake  *Intake
	metrics *metrics
	decoder *decode.Decoder
	stamps  *stamps
	rejects *rejectLog

	now    time.Time
	result decode.Result // of the message that was decoded last
}

func newReceiver(limit int, decoder *decode.Decoder, log *slog.Logger, reg Registerer) receiver {
	q := newIntake(limit)
	return receiver{
		intake: q, decoder: decoder, stamps: newStamps(max(limit, 1<<16)), rejects: newRejectLog(log),
		metrics: newMetrics(reg, func() float64 { return float64(q.Outstanding()) }),
	}
}

// decode is the first half of taking a message in. It changes nothing.
func (r *receiver) decode(m *message) {
	r.now = time.Now()
	r.decoder.Decode(decode.Message{Topic: m.topic, Payload: m.payload, Retained: m.retained, Received: r.now.UnixMilli()}, &r.result)
}

// put is the second half. Unless the message is taken, it has left no trace
// and may be put again.
func (r *receiver) put(m *message) verdict {
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
