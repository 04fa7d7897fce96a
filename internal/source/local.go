package source

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"gudang/internal/decode"
	"gudang/internal/reading"
)

// Local takes messages from a broker in the same process, which hands each one
// over before it acknowledges it to its publisher.
type Local struct {
	log *slog.Logger

	mu      sync.Mutex
	in      receiver
	problem error // why messages aren't taken; nil when they are
}

var errStopping = errors.New("the service is stopping")

// NewLocal makes a source of which at most limit messages are unacknowledged;
// Run runs it.
func NewLocal(limit int, decoder *decode.Decoder, log *slog.Logger, reg Registerer) *Local {
	return &Local{log: log, in: newReceiver(limit, decoder, log, reg), problem: errors.New("embedded broker does not listen yet")}
}

// Intake is where the next stage takes messages from.
func (l *Local) Intake() *Intake { return l.in.intake }

// Remember tells it, before Run, of a message without a time of its own that
// was received before the start, and which time it was given: Hash and Stamp
// of its delivery. Should it be sent again, it gets that time again.
func (l *Local) Remember(hash uint64, stamp int64) { l.in.remember(hash, stamp) }

// Receive takes a message in that client has published. While there is no room
// it waits, which holds that publisher back; other calls go on. It says
// whether MQTT_TOPICS wants the message: then acker is called once it is safe.
// After an error the message is not taken and must not be acknowledged: ctx
// has ended or the service stops.
//
// One lock for all publishers is enough: decoders of their own gained 8 % with
// four publishers on two cores, at 470,000 messages a second.
func (l *Local) Receive(ctx context.Context, client, topic string, payload []byte, id uint16, qos byte, again bool, acker reading.Acker) (wanted bool, err error) {
	m := message{client: client, topic: topic, payload: payload, id: id, qos: qos, again: again, acker: acker}
	q := l.in.intake
	v := l.take(&m)
	for v == full {
		changed := q.changed()
		if q.room() != full {
			v = l.take(&m)
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if qos == 0 {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.in.lose()
			}
			return true, context.Cause(ctx)
		}
	}
	if v == over {
		return true, errStopping
	}
	return v == taken, nil
}

func (l *Local) take(m *message) verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.in.decode(m); l.in.result.Reason == reading.NotSelected {
		l.in.rejects.note(m, &l.in.result) // the commonest mistake would go unnoticed
		return unwanted
	}
	return l.in.put(m)
}

// Run takes messages until stop ends. Then it takes nothing more and waits
// until what it took is acknowledged, or ctx ends: the publishers have what is
// not acknowledged.
func (l *Local) Run(ctx, stop context.Context) error {
	l.say(nil)
	select {
	case <-stop.Done():
	case <-ctx.Done():
	}
	l.say(errStopping)
	q := l.in.intake
	q.end()
	for {
		changed := q.changed()
		n := q.Outstanding()
		if n == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			l.log.Warn("stopping with messages unacknowledged, their publishers keep them", "messages", n)
			return nil
		}
	}
}

// say sets what Ready says.
func (l *Local) say(problem error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.problem = problem
	up := 0.0
	if problem == nil {
		up = 1
	}
	l.in.metrics.connected.Set(up)
}

// Ready says whether messages are taken, and if not, why.
func (l *Local) Ready(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.problem
}
