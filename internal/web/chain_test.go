package web

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAStoreThatHangsIsATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := example()
		m.before = func(ctx context.Context) error { <-ctx.Done(); return errors.New("interrupted") }
		began := time.Now()
		w := do(New(config(m)), http.MethodGet, "/api/v1/sensors")
		if got := errorOf(t, w.Body); w.Code != 504 || !strings.Contains(got, "in time") || time.Since(began) != queryTimeout {
			t.Errorf("%d %q after %v", w.Code, got, time.Since(began))
		}
	})
}

func TestAClientThatIsGoneGetsNothing(t *testing.T) {
	m := example()
	c := config(m)
	s := New(c)
	ctx, cancel := context.WithCancel(t.Context())
	m.before = func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() }
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/sensors", nil).WithContext(ctx))
	if w.Body.Len() != 0 {
		t.Errorf("answer %q", w.Body)
	}
	if body := do(s, "GET", "/metrics").Body.String(); !strings.Contains(body, `{code="499",path="/api/v1/sensors"} 1`) {
		t.Error("it is not counted as 499")
	}
}

func TestTheGateBoundsAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const running, waiting, extra = 3, 5, 20
		m := example()
		release := make(chan struct{})
		m.before = func(context.Context) error { <-release; return nil }
		s := New(config(m))
		s.gate = newGate(running, waiting, time.Second)
		codes := make(chan int, running+waiting+extra)
		for range cap(codes) {
			go func() {
				w := do(s, http.MethodGet, "/api/v1/readings?sensor=S-01")
				if w.Code == 503 && w.Header().Get("Retry-After") == "" {
					t.Error("503 without Retry-After")
				}
				codes <- w.Code
			}()
		}
		synctest.Wait()
		if len(codes) != extra {
			t.Errorf("%d answers at once, want those %d for whom there is no room", len(codes), extra)
		}
		if w := do(s, http.MethodGet, "/healthz"); w.Code != 200 {
			t.Errorf("healthz in the flood: %d", w.Code)
		}
		time.Sleep(time.Second) // of the bubble: the patience of those who wait
		synctest.Wait()
		if len(codes) != extra+waiting {
			t.Errorf("%d answers after the wait, want %d", len(codes), extra+waiting)
		}
		for range extra + waiting {
			if code := <-codes; code != 503 {
				t.Errorf("status %d, want 503", code)
			}
		}
		// Those who come now wait, and enter as the others leave.
		for range waiting {
			go func() { codes <- do(s, http.MethodGet, "/api/v1/readings?sensor=S-01").Code }()
		}
		synctest.Wait()
		close(release)
		for range running + waiting {
			if code := <-codes; code != 200 {
				t.Errorf("status %d, want 200", code)
			}
		}
	})
}

func TestOneWhoWaitsAndGoesLeavesTheQueue(t *testing.T) {
	g := newGate(1, 1, time.Hour)
	leave, err := g.enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		if _, err := g.enter(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	}
	leave()
	if _, err := g.enter(t.Context()); err != nil {
		t.Errorf("error %v", err)
	}
}

func TestAPanicIsAnswered(t *testing.T) {
	m := example()
	m.before = func(context.Context) error { panic("secret") }
	var log bytes.Buffer
	c := config(m)
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	s := New(c)
	for range 2 * maxQueries { // no place at the gate may be lost
		w := do(s, http.MethodGet, "/api/v1/sensors")
		if got := errorOf(t, w.Body); w.Code != 500 || strings.Contains(got, "secret") {
			t.Fatalf("%d %q", w.Code, got)
		}
	}
	if !strings.Contains(log.String(), "panic=secret") || !strings.Contains(log.String(), "chain_test.go") {
		t.Errorf("the log does not say where: %s", &log)
	}
	if body := do(s, "GET", "/metrics").Body.String(); !strings.Contains(body, fmt.Sprintf("gudang_http_panics_total %d\n", 2*maxQueries)) {
		t.Error("panics are not counted")
	}
}

func TestAPanicInMidAnswerBreaksTheConnection(t *testing.T) {
	s := New(config(example()))
	s.http.Handler = s.handler([]route{{pattern: "/", handle: func(w http.ResponseWriter, _ *http.Request) error {
		io.WriteString(w, strings.Repeat("half", 10000))
		panic("oh")
	}}})
	base, _ := running(t, s)
	c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	w, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(w.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the broken answer reads as whole: %v", err)
	}
}

func TestTroubleIsLoggedAtALimitedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := example()
		m.before = func(context.Context) error { return errors.New("refused") }
		var log bytes.Buffer
		c := config(m)
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		s := New(c)
		for range 100 {
			do(s, http.MethodGet, "/api/v1/sensors")
		}
		time.Sleep(throttlePeriod) // of the bubble
		do(s, http.MethodGet, "/api/v1/sensors")
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "err=refused") || !strings.Contains(lines[1], "unlogged=99") {
			t.Errorf("log:\n%s", &log)
		}
	})
}
