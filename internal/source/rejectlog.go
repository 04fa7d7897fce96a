package source

import (
	"log/slog"
	"strings"
	"time"

	"gudang/internal/decode"
	"gudang/internal/reading"
)

// rejectLog says what bad messages look like, a few of each kind in a while:
// whoever sends them must not be able to fill the log. It is used by one
// goroutine at a time.
type rejectLog struct {
	log  *slog.Logger
	last map[reading.Reason]*quota
}

type quota struct {
	since   time.Time
	written int
	swallow int
}

const (
	quotaTime  = time.Minute
	quotaLines = 3
	sampleSize = 120
	badClock   = reading.Reason("bad_clock")
)

func newRejectLog(log *slog.Logger) *rejectLog {
	return &rejectLog{log: log, last: map[reading.Reason]*quota{}}
}

// note logs what was wrong with a message, if its kind's quota allows.
func (l *rejectLog) note(m *message, r *decode.Result) {
	reason, text := r.Reason, "message rejected"
	switch {
	case r.Reason == reading.NotSelected:
		text = "message matches no entry of MQTT_TOPICS and is not stored"
	case r.Outcome == reading.Rejected:
	case len(r.Dropped) > 0:
		reason, text = r.Dropped[0].Reason, "metric left out of a message"
	default:
		reason, text = badClock, "time of a message is not believed, receive time used"
	}
	q := l.last[reason]
	now := time.Now()
	if q == nil {
		q = &quota{since: now}
		l.last[reason] = q
	}
	if now.Sub(q.since) > quotaTime {
		q.since, q.written = now, 0
	}
	if q.written == quotaLines {
		q.swallow++
		return
	}
	q.written++
	attrs := []any{"reason", string(reason), "topic", clip(m.topic), "payload", clip(string(m.payload[:min(len(m.payload), sampleSize+1)]))}
	if len(r.Values) > 0 {
		attrs = append(attrs, "sensor", clip(r.Values[0].Sensor))
	}
	if r.Detail != "" {
		attrs = append(attrs, "detail", r.Detail)
	}
	if len(r.Dropped) > 0 && r.Outcome != reading.Rejected {
		attrs = append(attrs, "metric", clip(r.Dropped[0].Metric))
	}
	if q.swallow > 0 {
		attrs = append(attrs, "not_logged", q.swallow)
		q.swallow = 0
	}
	l.log.Warn(text, attrs...) //nolint:sloglint // one of three fixed messages, chosen above
}

// clip cuts a text that somebody else wrote. What could upset a terminal in it
// the log's own handler escapes.
func clip(s string) string {
	if len(s) > sampleSize {
		s = strings.ToValidUTF8(s[:sampleSize], "") + "…"
	}
	return s
}
