package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"gudang/internal/reading"
)

// httpError is an error that is the client's to know.
type httpError struct {
	status int
	text   string
}

func (e *httpError) Error() string { return e.text }

// statusGone stands in the metrics for a client that didn't wait for its
// answer. Nothing is sent: nobody is there.
const statusGone = 499

var (
	errInternal   = &httpError{http.StatusInternalServerError, "internal error: see the service's log"}
	errMethod     = &httpError{http.StatusMethodNotAllowed, "only GET and HEAD are answered here"}
	errMethodPost = &httpError{http.StatusMethodNotAllowed, "only GET, HEAD and POST are answered here"}
	errBusy       = &httpError{http.StatusServiceUnavailable, "too many requests at once: try again in a moment"}
	errStore      = &httpError{http.StatusServiceUnavailable, "the store can't be read right now"}
	errTimeout    = &httpError{http.StatusGatewayTimeout, "the store did not answer in time"}
	errPath       = &httpError{http.StatusNotFound, "there is nothing here: / links to what there is"}
	errSensor     = &httpError{http.StatusNotFound, "no such sensor"}
	errWho        = &httpError{http.StatusUnauthorized, "this needs the right token, or user name and password"}
	errGuesses    = &httpError{http.StatusTooManyRequests, "too many wrong credentials from this address: try again in a moment"}
)

// badRequest is a 400 that says what to mend.
func badRequest(format string, args ...any) error {
	return &httpError{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// clip shortens what a client sent for an error text.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

func notFound(http.ResponseWriter, *http.Request) error { return errPath }

// fail is the one way out for an error. A store's own words may hold host and
// user names, so they go to the log and never to the client.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var answer *httpError
	switch {
	case errors.As(err, &answer):
	case errors.Is(r.Context().Err(), context.Canceled):
		if rec, ok := w.(*recorder); ok && rec.code == 0 {
			rec.code = statusGone
		}
		return
	case errors.Is(err, reading.ErrNotFound):
		answer = errSensor
	case r.Context().Err() != nil || errors.Is(err, context.DeadlineExceeded):
		answer = errTimeout
	default:
		answer = errStore
	}
	if answer == errTimeout || answer == errStore {
		if ok, missed := s.trouble.allow(time.Now()); ok {
			s.log.Error("cannot answer from the store", "route", r.Pattern, "err", err, "unlogged", missed)
		}
	}
	if answer == errBusy || answer == errGuesses {
		w.Header().Set("Retry-After", "1")
	}
	if forPeople(r) {
		s.failPage(w, r, answer)
		return
	}
	h := w.Header()
	h.Set("Content-Type", typeJSON)
	body := append(appendString([]byte(`{"error":`), answer.text), '}', '\n')
	if strings.HasPrefix(r.URL.Path, prometheusPath) {
		body = prometheusError(answer)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(answer.status)
	w.Write(body)
}

// throttle lets through one log line in a while: a store that is down would
// otherwise fill the log at the rate of the dashboards that ask.
type throttle struct {
	mu     sync.Mutex
	last   time.Time
	missed int
}

const throttlePeriod = 10 * time.Second

// allow says whether to log now, and how many were held back since the last.
func (t *throttle) allow(now time.Time) (ok bool, missed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.last.IsZero() && now.Sub(t.last) < throttlePeriod {
		t.missed++
		return false, 0
	}
	missed, t.missed, t.last = t.missed, 0, now
	return true, missed
}
