package embedded

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// quietFor is how long a message is not repeated.
const quietFor = 10 * time.Second

// quiet makes the MQTT library's log fit for a service's: its Info is our
// Debug, packets (payloads, passwords) are left out, and a message that comes
// again and again, as one client can make it, is logged once in a while with
// the number that was swallowed.
type quiet struct {
	next slog.Handler
	seen *seen
}

type seen struct {
	mu       sync.Mutex
	messages map[string]*said
}

type said struct {
	last      time.Time
	swallowed int
}

func newQuiet(next slog.Handler) quiet {
	return quiet{next, &seen{messages: make(map[string]*said)}}
}

func lowered(l slog.Level) slog.Level {
	if l == slog.LevelInfo {
		return slog.LevelDebug
	}
	return l
}

func (q quiet) Enabled(ctx context.Context, l slog.Level) bool {
	return q.next.Enabled(ctx, lowered(l))
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, lowered(r.Level), r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "pk" && a.Key != "packet" {
			out.AddAttrs(a)
		}
		return true
	})
	if out.Level >= slog.LevelWarn {
		swallowed, speak := q.seen.ask(out.Message, r.Time)
		if !speak {
			return nil
		}
		if swallowed > 0 {
			out.AddAttrs(slog.Int("swallowed", swallowed))
		}
	}
	return q.next.Handle(ctx, out)
}

// ask says whether a message may be logged now, and how many were not. The
// library's and our messages are fixed texts, so there are few.
func (s *seen) ask(message string, now time.Time) (swallowed int, speak bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.messages[message]
	if m == nil {
		m = &said{}
		s.messages[message] = m
	}
	if !m.last.IsZero() && now.Sub(m.last) < quietFor {
		m.swallowed++
		return 0, false
	}
	swallowed, m.swallowed, m.last = m.swallowed, 0, now
	return swallowed, true
}

func (q quiet) WithAttrs(as []slog.Attr) slog.Handler {
	return quiet{q.next.WithAttrs(as), q.seen}
}
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.next.WithGroup(name), q.seen} }
