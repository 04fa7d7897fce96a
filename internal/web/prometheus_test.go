package web

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// promServer answers below /prometheus/api/v1 by the function.
func promServer(answer func(w http.ResponseWriter, r *http.Request) error) *Server {
	c := config(example())
	c.Prometheus = answer
	return New(c)
}

func TestPrometheusIsReachedByItsPath(t *testing.T) {
	s := promServer(func(w http.ResponseWriter, r *http.Request) error {
		if err := r.ParseForm(); err != nil {
			return err
		}
		_, err := io.WriteString(w, r.Method+" "+r.URL.Path+" "+r.Form.Get("query"))
		return err
	})
	for _, tt := range []struct{ method, target, body, want string }{
		{"GET", "/prometheus/api/v1/query?query=a%2Bb", "", "GET /query a+b"},
		{"POST", "/prometheus/api/v1/query_range", "query=up", "POST /query_range up"},
		{"GET", "/prometheus/api/v1/label/sensor/values", "", "GET /label/sensor/values "},
		{"GET", "/prometheus/api/v1/", "", "GET / "},
	} {
		r := httptest.NewRequest(tt.method, tt.target, strings.NewReader(tt.body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		s.http.Handler.ServeHTTP(w, r)
		if w.Code != 200 || w.Body.String() != tt.want || w.Header().Get("X-Content-Type-Options") == "" {
			t.Errorf("%s %s: %d %q, want %q", tt.method, tt.target, w.Code, w.Body, tt.want)
		}
	}
	if w := do(s, "GET", "/metrics"); !strings.Contains(w.Body.String(), `{code="200",path="/prometheus/api/v1/"}`) {
		t.Error("the requests are not counted under one path")
	}
	if w := do(New(config(example())), "GET", "/prometheus/api/v1/query"); w.Code != 404 {
		t.Errorf("without a Prometheus it answers %d", w.Code)
	}
}

func TestOnlyPrometheusTakesAPost(t *testing.T) {
	s := promServer(func(http.ResponseWriter, *http.Request) error { return nil })
	for _, tt := range []struct{ method, target, allow string }{
		{"PUT", "/prometheus/api/v1/query", "GET, HEAD, POST"},
		{"DELETE", "/prometheus/api/v1/query", "GET, HEAD, POST"},
		{"POST", "/api/v1/sensors", "GET, HEAD"},
		{"POST", "/prometheus/", "GET, HEAD"},
	} {
		if w := do(s, tt.method, tt.target); w.Code != 405 || w.Header().Get("Allow") != tt.allow {
			t.Errorf("%s %s: %d, allowed %q", tt.method, tt.target, w.Code, w.Header().Get("Allow"))
		}
	}
	r := httptest.NewRequest("POST", "/prometheus/api/v1/query", strings.NewReader(strings.Repeat("x", maxBody+1)))
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, r)
	if w.Code != 413 || !strings.HasPrefix(w.Body.String(), `{"status":"error","errorType":"bad_data",`) {
		t.Errorf("a large body: %d %s", w.Code, w.Body)
	}
}

func TestErrorsAreInTheFormOfPrometheus(t *testing.T) {
	s := promServer(func(http.ResponseWriter, *http.Request) error { return errors.New("mongodb://root:secret@db is away") })
	w := do(s, "GET", "/prometheus/api/v1/query?query=up")
	if want := `{"status":"error","errorType":"unavailable","error":"the store can't be read right now"}` + "\n"; w.Code != 503 || w.Body.String() != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	synctest.Test(t, func(t *testing.T) {
		s := promServer(func(_ http.ResponseWriter, r *http.Request) error { <-r.Context().Done(); return r.Context().Err() })
		began := time.Now()
		w := do(s, "GET", "/prometheus/api/v1/query?query=up")
		if want := `{"status":"error","errorType":"timeout","error":"the store did not answer in time"}` + "\n"; w.Code != 504 || w.Body.String() != want || time.Since(began) != promqlTimeout {
			t.Errorf("%d %s after %v", w.Code, w.Body, time.Since(began))
		}
		s.gate = newGate(0, 0, time.Second)
		w = do(s, "GET", "/prometheus/api/v1/query?query=up")
		if want := `{"status":"error","errorType":"unavailable","error":"too many requests at once: try again in a moment"}` + "\n"; w.Code != 503 || w.Body.String() != want {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
	if patience+promqlTimeout >= writeTimeout {
		t.Error("an answer may be cut off before it is given up")
	}
}

func TestLongAnswersOfPrometheusAreCompressed(t *testing.T) {
	long := strings.Repeat("0123456789", 10_000)
	s := promServer(func(w http.ResponseWriter, r *http.Request) error {
		switch r.URL.Path {
		case "/short":
			w.Header().Set("Content-Length", "5")
			io.WriteString(w, "short")
		case "/wrong":
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, "wrong")
		default:
			io.WriteString(w, long[:50_000])
			io.WriteString(w, long[50_000:])
		}
		return nil
	})
	for path, want := range map[string]string{"short": "short", "wrong": "wrong"} {
		if w := do(s, "GET", prometheusPath+path, "Accept-Encoding", "gzip"); w.Body.String() != want || w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s: %q, %v", path, w.Body, w.Header())
		}
	}
	w := do(s, "GET", prometheusPath+"long", "Accept-Encoding", "br, gzip")
	if w.Header().Get("Content-Encoding") != "gzip" || w.Header().Get("Vary") != "Accept-Encoding" || w.Body.Len() > len(long)/10 {
		t.Fatalf("%d bytes, %v", w.Body.Len(), w.Header())
	}
	unzip, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if have, err := io.ReadAll(unzip); err != nil || string(have) != long {
		t.Errorf("%d bytes, error %v", len(have), err)
	}
	if w := do(s, "GET", prometheusPath+"long"); w.Body.String() != long || w.Header().Get("Content-Encoding") != "" {
		t.Errorf("a client that did not ask for it gets %v", w.Header())
	}
}

func TestAClientOfPrometheusThatIsGoneGetsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := promServer(func(_ http.ResponseWriter, r *http.Request) error { cancel(); return r.Context().Err() })
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, httptest.NewRequest("GET", "/prometheus/api/v1/query", nil).WithContext(ctx))
	if w.Body.Len() != 0 {
		t.Errorf("answer %q", w.Body)
	}
}
