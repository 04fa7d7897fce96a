package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// running serves on a free port until the test ends or stop is called, which
// returns what Run returned.
func running(t *testing.T, s *Server) (base string, stop func() error) {
	t.Helper()
	if err := s.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(20 * time.Second):
			return errors.New("Run did not end")
		}
	})
	t.Cleanup(func() { stop() })
	return "http://" + s.Addr(), stop
}

func TestAPortInUseIsOneErrorThatNamesTheSetting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = New(config(example())).Listen(l.Addr().String())
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), `HTTP_ADDR "`+l.Addr().String()+`"`) {
		t.Errorf("error %v", err)
	}
	if err := New(config(example())).Listen("nonsense"); err == nil || !strings.Contains(err.Error(), `HTTP_ADDR "nonsense"`) {
		t.Errorf("error %v", err)
	}
}

func TestRunNeedsListen(t *testing.T) {
	if err := New(config(example())).Run(t.Context()); err == nil {
		t.Error("no error")
	}
}

func TestRunReportsAListenerThatBreaks(t *testing.T) {
	s := New(config(example()))
	if err := s.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s.listener.Close()
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot serve HTTP") {
		t.Errorf("error %v", err)
	}
}

func TestMethodsAndHeadersOverARealSocket(t *testing.T) {
	base, _ := running(t, New(config(example())))
	paths := []string{"/", "/api/v1/sensors", "/api/v1/sensors/S-01", "/api/v1/readings?sensor=S-01", "/api/v1/buckets?sensor=S-01", "/healthz", "/readyz", "/metrics"}
	for _, path := range paths {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"} {
			r, _ := http.NewRequest(method, base+path, nil)
			w, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(w.Body)
			w.Body.Close()
			switch method {
			case "GET", "HEAD":
				if w.StatusCode != 200 || (len(body) > 0) != (method == "GET") {
					t.Errorf("%s %s: %d with %d bytes", method, path, w.StatusCode, len(body))
				}
			default:
				if w.StatusCode != 405 || w.Header.Get("Allow") != "GET, HEAD" {
					t.Errorf("%s %s: %d, Allow %q", method, path, w.StatusCode, w.Header.Get("Allow"))
				}
				errorOf(t, bytes.NewReader(body))
			}
			if w.Header.Get("Cache-Control") != "no-store" || w.Header.Get("X-Content-Type-Options") != "nosniff" ||
				!strings.HasPrefix(w.Header.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Errorf("%s %s: headers %v", method, path, w.Header)
			}
		}
	}
}

func TestAnIDWithSlashesOverARealSocket(t *testing.T) {
	m := many(1)
	base, _ := running(t, New(config(m)))
	for _, path := range []string{"warehouse%2F3%2FS-01", "warehouse/3/S-01", "warehouse/3%2fS%2D01"} {
		w, err := http.Get(base + sensorsPath + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(w.Body)
		w.Body.Close()
		if !strings.HasPrefix(string(body), `{"sensorId":"warehouse/3/S-01",`) || w.Request.URL.EscapedPath() != sensorsPath+path {
			t.Errorf("%s: %d %s at %s", path, w.StatusCode, body, w.Request.URL)
		}
	}
}

// raw sends bytes as they are and reads all that comes back.
func raw(t *testing.T, addr, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(c, request)
	answer, err := io.ReadAll(c)
	if errors.Is(err, context.DeadlineExceeded) || err != nil && strings.Contains(err.Error(), "timeout") {
		t.Fatalf("the connection stays open: %q", answer)
	}
	return string(answer)
}

func TestHostileRequests(t *testing.T) {
	s := New(config(example()))
	s.http.ReadHeaderTimeout = 200 * time.Millisecond
	s.http.ReadTimeout = 200 * time.Millisecond
	s.http.IdleTimeout = 200 * time.Millisecond
	_, _ = running(t, s)
	for name, c := range map[string]struct{ request, want string }{
		"a head that never ends":         {"GET / HTTP/1.1\r\nHost: x\r\nX-A: ", ""},
		"no request at all":              {"", ""},
		"an answered client that stays":  {"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK"},
		"a head of 100 kB":               {"GET / HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 100<<10) + "\r\n\r\n", "HTTP/1.1 431 "},
		"an address of 10 kB":            {"GET /" + strings.Repeat("a", 10<<10) + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 414 "},
		"a body announced as a gigabyte": {"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n", "HTTP/1.1 413 "},
		"a body that never comes":        {"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n", "HTTP/1.1 200 OK"},
		"a chunked body without an end":  {"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n", "HTTP/1.1 200 OK"},
		"a broken escape":                {"GET /api/v1/sensors/%zz HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400 "},
		"dots that climb":                {"GET /api/v1/sensors/../../../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 404 "},
		"the connection for a tunnel":    {"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n", "HTTP/1.1 405 "},
		"no HTTP":                        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "HTTP/1.1 400 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := raw(t, s.Addr(), c.request); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" && !strings.HasPrefix(got, "HTTP/1.1 408") {
				t.Errorf("answer %.200q, want %q", got, c.want)
			}
		})
	}
}

func TestASlowReaderIsCutOff(t *testing.T) {
	m := many(10000)
	for i := range m.readings { // each value as long as can be, to fill the socket's buffers
		m.readings[i].Value = 0.1234567890123456 + float64(i)
		m.readings[i].Sensor = strings.Repeat("x", 250)
	}
	s := New(config(m))
	s.http.WriteTimeout = 300 * time.Millisecond
	s.http.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateNew {
			c.(*net.TCPConn).SetWriteBuffer(4096)
		}
	}
	base, stop := running(t, s)
	c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.(*net.TCPConn).SetReadBuffer(4096)
	fmt.Fprintf(c, "GET /api/v1/readings?limit=10000&sensor=%s HTTP/1.1\r\nHost: x\r\n\r\n", m.readings[0].Sensor)
	one := make([]byte, 1)
	if _, err := io.ReadFull(c, one); err != nil {
		t.Fatal(err)
	}
	// The client reads no more; the place it holds at the gate must be free soon.
	within(t, "the gate is left", func() bool { return len(s.gate.running) == 0 })
	if rest, _ := io.ReadAll(c); bytes.HasSuffix(rest, []byte("}\n\r\n0\r\n\r\n")) {
		t.Error("the whole answer came: the test is too gentle")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// within polls until ok, for at most ten seconds.
func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func TestTheStopLetsAnAnswerFinish(t *testing.T) {
	m := example()
	asked, release := make(chan struct{}), make(chan struct{})
	m.before = func(context.Context) error { close(asked); <-release; return nil }
	s := New(config(m))
	base, stop := running(t, s)
	answer := make(chan string, 1)
	go func() {
		w, err := http.Get(base + "/api/v1/sensors/S-01")
		if err != nil {
			answer <- err.Error()
			return
		}
		body, _ := io.ReadAll(w.Body)
		answer <- string(body)
	}()
	<-asked
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	within(t, "new connections are refused", func() bool {
		c, err := net.Dial("tcp", s.Addr())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	select {
	case err := <-stopped:
		t.Fatalf("Run ended before its answer: %v", err)
	default:
	}
	close(release)
	if got := <-answer; !strings.HasPrefix(got, `{"sensorId":"S-01"`) {
		t.Errorf("the answer under way became %q", got)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestTheStopCutsOffWhatTakesTooLong(t *testing.T) {
	m := example()
	asked := make(chan struct{})
	m.before = func(ctx context.Context) error { close(asked); <-ctx.Done(); return ctx.Err() }
	s := New(config(m))
	s.stopTimeout = 50 * time.Millisecond
	base, stop := running(t, s)
	got := make(chan error, 1)
	go func() {
		w, err := http.Get(base + "/api/v1/sensors/S-01")
		if err == nil {
			w.Body.Close()
		}
		got <- err
	}()
	<-asked
	if err := stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if err := <-got; err == nil {
		t.Error("an answer came")
	}
}
