package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func holds(context.Context) error { return nil }

func TestReadiness(t *testing.T) {
	broker := Check{"mqtt", func(context.Context) error { return errors.New("no connection to the broker\nat \"tcp://<b>\"") }}
	store := Check{"store", func(context.Context) error { return errors.New("the store can't be reached") }}
	for name, c := range map[string]struct {
		checks     []Check
		status     int
		text, json string
	}{
		"no checks":       {nil, 200, "ready\n", `{"ready":true,"reasons":[]}`},
		"all hold":        {[]Check{{"a", holds}, {"b", holds}}, 200, "ready\n", `{"ready":true,"reasons":[]}`},
		"one does not":    {[]Check{{"a", holds}, store}, 503, "the store can't be reached\n", `{"ready":false,"reasons":["the store can't be reached"]}`},
		"several do not":  {[]Check{store, {"a", holds}, broker}, 503, "the store can't be reached\nno connection to the broker at \"tcp://<b>\"\n", `{"ready":false,"reasons":["the store can't be reached","no connection to the broker at \"tcp://\u003cb\u003e\""]}`},
		"one panics":      {[]Check{{"a", func(context.Context) error { panic("oh") }}}, 503, "a: the check panicked: oh\n", `{"ready":false,"reasons":["a: the check panicked: oh"]}`},
		"one has no word": {[]Check{{"a", func(context.Context) error { return errors.New(" ") }}}, 503, "a: not ready\n", `{"ready":false,"reasons":["a: not ready"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(config(example(), c.checks...))
			for range 2 { // an answer must not spoil the next
				w := do(s, http.MethodGet, "/readyz")
				if got := w.Body.String(); w.Code != c.status || got != c.text || w.Header().Get("Content-Type") != typeText {
					t.Errorf("%d %q %v, want %d %q", w.Code, got, w.Header(), c.status, c.text)
				}
				w = do(s, http.MethodGet, "/readyz", "Accept", "application/json")
				if got := w.Body.String(); w.Code != c.status || got != c.json+"\n" || w.Header().Get("Content-Type") != typeJSON {
					t.Errorf("%d %s %v, want %d %s", w.Code, got, w.Header(), c.status, c.json)
				}
			}
			if w := do(s, http.MethodGet, "/healthz"); w.Code != 200 || w.Body.String() != "ok\n" {
				t.Errorf("healthz: %d %q", w.Code, w.Body)
			}
		})
	}
}

func TestChecksRunAtTheSameTime(t *testing.T) {
	var both sync.WaitGroup // each check ends only when the other has begun
	both.Add(2)
	meet := func(context.Context) error { both.Done(); both.Wait(); return nil }
	if got := New(config(example(), Check{"a", meet}, Check{"b", meet})).unready(t.Context()); len(got) != 0 {
		t.Errorf("reasons %q", got)
	}
}

func TestACheckThatHangsIsAReasonAndCostsOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		release := make(chan struct{})
		s := New(config(example(), Check{"a", holds}, Check{"store", func(context.Context) error {
			calls.Add(1)
			<-release // whatever its deadline
			return nil
		}}))
		began := time.Now()
		var asked sync.WaitGroup
		for range 10 {
			asked.Go(func() {
				if w := do(s, http.MethodGet, "/readyz"); w.Code != 503 || w.Body.String() != "store: no answer in time\n" {
					t.Errorf("%d %q", w.Code, w.Body)
				}
			})
		}
		asked.Wait()
		if took := time.Since(began); took != checkTimeout {
			t.Errorf("the answer took %v", took)
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls for ten who asked", n)
		}
		close(release)
		synctest.Wait()
		if w := do(s, http.MethodGet, "/readyz"); w.Code != 200 || calls.Load() != 2 {
			t.Errorf("after it answers again: %d %q, %d calls", w.Code, w.Body, calls.Load())
		}
	})
}

func TestACheckOutlivesWhoAskedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := New(config(example(), Check{"store", func(ctx context.Context) error {
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return fmt.Errorf("gave up: %w", ctx.Err())
			}
		}}))
		first, leave := context.WithCancel(t.Context())
		go s.unready(first)
		synctest.Wait()
		var reasons []string
		var second sync.WaitGroup
		second.Go(func() { reasons = s.unready(t.Context()) })
		synctest.Wait()
		leave()
		synctest.Wait()
		close(release)
		second.Wait()
		if len(reasons) != 0 {
			t.Errorf("reasons %q for the second", reasons)
		}
	})
}

func TestMetricsShowWhatIsRegisteredAndNoIDs(t *testing.T) {
	c := config(example())
	c.Registerer.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "gudang_test_total"}, func() float64 { return 42 }))
	s := New(c)
	for i := range 300 {
		do(s, http.MethodGet, fmt.Sprintf("/api/v1/sensors/secret-%d", i))
		do(s, http.MethodGet, fmt.Sprintf("/secret-%d", i))
	}
	do(s, http.MethodGet, "/api/v1/sensors/S-01")
	do(s, http.MethodGet, "/")
	do(s, "SECRET", "/healthz")
	w := do(s, http.MethodGet, "/metrics")
	body := w.Body.String()
	for _, want := range []string{
		"gudang_test_total 42\n",
		`gudang_http_requests_total{code="404",path="/api/v1/sensors/{id}"} 300` + "\n",
		`gudang_http_requests_total{code="200",path="/api/v1/sensors/{id}"} 1` + "\n",
		`gudang_http_requests_total{code="404",path="other"} 300` + "\n",
		`gudang_http_requests_total{code="405",path="/healthz"} 1` + "\n",
		`gudang_http_requests_total{code="200",path="/"} 1` + "\n",
		`gudang_http_request_duration_seconds_count{path="/api/v1/sensors/{id}"} 301` + "\n",
		"gudang_http_panics_total 0\n",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %q", want)
		}
	}
	if w.Code != 200 || strings.Contains(strings.ToLower(body), "secret") || len(body) > 10<<10 {
		t.Errorf("/metrics: %d, %d bytes, with what clients sent: %v", w.Code, len(body), strings.Contains(body, "secret"))
	}
}

func TestABrokenCollectorDoesNotHideTheOthers(t *testing.T) {
	c := config(example())
	desc := prometheus.NewDesc("gudang_broken", "Broken.", nil, nil)
	c.Registerer.MustRegister(collector{desc, prometheus.NewInvalidMetric(desc, errors.New("broken"))})
	if w := do(New(c), http.MethodGet, "/metrics"); w.Code != 200 || !strings.Contains(w.Body.String(), "gudang_http_panics_total 0") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

type collector struct {
	desc   *prometheus.Desc
	metric prometheus.Metric
}

func (c collector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }
func (c collector) Collect(ch chan<- prometheus.Metric) { ch <- c.metric }
