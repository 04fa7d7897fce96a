package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Check is one thing that must hold before the service does its work.
type Check struct {
	Name string
	// Ready returns nil, or why not, in words for whoever runs the service.
	// Whoever may read the API reads them, so no secret may be among them. It is called from
	// any goroutine, one call at a time.
	Ready func(ctx context.Context) error
}

// probe runs a check, once for all who ask at the same time: a check that
// hangs costs one goroutine, however often it is asked for.
type probe struct {
	check Check
	mu    sync.Mutex
	call  *call // under way
}

type call struct {
	done   chan struct{}
	reason string
}

// reason is why the check doesn't hold, empty if it does.
func (p *probe) reason(ctx context.Context) string {
	p.mu.Lock()
	c := p.call
	if c == nil {
		c = &call{done: make(chan struct{})}
		p.call = c
		// Not ctx itself: whoever asked first may leave first.
		deadline, _ := ctx.Deadline()
		checkCtx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
		go func() {
			defer cancel()
			p.run(checkCtx, c)
		}()
	}
	p.mu.Unlock()
	select {
	case <-c.done:
		return c.reason
	case <-ctx.Done():
		return p.check.Name + ": no answer in time"
	}
}

func (p *probe) run(ctx context.Context, c *call) {
	defer func() {
		if v := recover(); v != nil {
			c.reason = fmt.Sprintf("%s: the check panicked: %v", p.check.Name, v)
		}
		p.mu.Lock()
		p.call = nil
		p.mu.Unlock()
		close(c.done)
	}()
	if err := p.check.Ready(ctx); err != nil {
		c.reason = strings.Join(strings.Fields(err.Error()), " ") // one line
		if c.reason == "" {
			c.reason = p.check.Name + ": not ready"
		}
	}
}

// checked is what each check says, in their order: a reason why not, or nothing.
func (s *Server) checked(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, s.checkTimeout)
	defer cancel()
	all := make([]string, len(s.health))
	var wg sync.WaitGroup
	for i, p := range s.health {
		wg.Go(func() { all[i] = p.reason(ctx) })
	}
	wg.Wait()
	return all
}

// unready is every reason why the service isn't ready, in the order of the
// checks.
func (s *Server) unready(ctx context.Context) []string {
	return slices.DeleteFunc(s.checked(ctx), func(reason string) bool { return reason == "" })
}

const typeText = "text/plain; charset=utf-8"

// alive answers /healthz. That it answers is all there is to say: a store or
// broker that is away must not get the process killed, which holds readings.
func (s *Server) alive(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", typeText)
	w.Write([]byte("ok\n"))
	return nil
}

// ready answers /readyz, in words or, where JSON is asked for, in JSON. The
// reasons name hosts: where credentials are asked for, who shows none is told
// only whether.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) error {
	reasons := s.unready(r.Context())
	if len(reasons) > 0 && s.guard != nil && r.Header.Get("Authorization") == "" {
		reasons = []string{"not ready"}
	}
	var body []byte
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", typeJSON)
		body = appendReady(nil, reasons)
	} else {
		w.Header().Set("Content-Type", typeText)
		body = append(body, "ready"...)
		if len(reasons) > 0 {
			body = append(body[:0], strings.Join(reasons, "\n")...)
		}
	}
	w.Header().Set("Vary", "Accept, Authorization")
	if len(reasons) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	w.Write(append(body, '\n'))
	return nil
}

func appendReady(b []byte, reasons []string) []byte {
	b = append(b, `{"ready":true,"reasons":[`...)
	if len(reasons) > 0 {
		b = append(b[:0], `{"ready":false,"reasons":[`...)
	}
	for i, reason := range reasons {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, reason)
	}
	return append(b, "]}"...)
}
