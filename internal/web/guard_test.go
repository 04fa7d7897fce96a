package web

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func basicAuth(username, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))
}

// guarded asks for both kinds of credentials, and isn't ready.
func guarded(log *bytes.Buffer, a Auth) *Server {
	c := config(example(), Check{"broker", func(context.Context) error { return errors.New("no broker at secret-host") }})
	c.Auth = a
	c.Log = slog.New(slog.NewTextHandler(log, nil))
	return New(c)
}

// everyPath is each route, and what could be taken for one of the open ones.
var everyPath = []string{
	"/", "/api/v1/sensors", "/api/v1/sensors/S-01", "/api/v1/sensors/healthz", "/api/v1/readings?sensor=S-01", "/api/v1/buckets?sensor=S-01", "/metrics",
	"/nothing", "/healthz/", "//healthz", "/healthz/../metrics", "/HEALTHZ", "/readyz/", "/%68ealthz/x", "/?x=/healthz",
}

func TestEveryPathAsksForCredentials(t *testing.T) {
	both := Auth{Token: "t0ken", Username: "fleet", Password: "pass:word"}
	for name, c := range map[string]struct {
		auth   Auth
		header string
		admits bool
	}{
		"none":                          {both, "", false},
		"the token":                     {both, "Bearer t0ken", true},
		"the scheme in another case":    {both, "bEARER  t0ken ", true},
		"name and password":             {both, basicAuth("fleet", "pass:word"), true},
		"another token":                 {both, "Bearer t0keN", false},
		"the beginning of the token":    {both, "Bearer t0ke", false},
		"more than the token":           {both, "Bearer t0kenn", false},
		"an empty token":                {both, "Bearer ", false},
		"the token alone":               {both, "t0ken", false},
		"the token as a password":       {both, basicAuth("fleet", "t0ken"), false},
		"another name":                  {both, basicAuth("flee", "pass:word"), false},
		"another password":              {both, basicAuth("fleet", "pass"), false},
		"no name and no password":       {both, basicAuth("", ""), false},
		"no base64":                     {both, "Basic !!!", false},
		"the password, with token only": {Auth{Token: "t0ken"}, basicAuth("fleet", "pass:word"), false},
		"nothing, with token only":      {Auth{Token: "t0ken"}, basicAuth("", ""), false},
		"an empty token, without one":   {Auth{Username: "fleet", Password: "x"}, "Bearer ", false},
		"the password as a token":       {Auth{Username: "fleet", Password: "x"}, "Bearer x", false},
		"nobody is asked":               {Auth{}, "", true},
		"nobody is asked, wrong":        {Auth{}, "Bearer x", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := guarded(new(bytes.Buffer), c.auth)
				for _, path := range everyPath {
					var header []string
					if c.header != "" {
						header = []string{"Authorization", c.header}
					}
					w := do(s, http.MethodGet, path, header...)
					if (w.Code != http.StatusUnauthorized) != c.admits {
						t.Errorf("%s: %d", path, w.Code)
					}
					if w.Code == http.StatusUnauthorized {
						checkRefusal(t, w, c.auth)
					}
				}
			})
		})
	}
}

// checkRefusal checks that a 401 says how to come in, and nothing else.
func checkRefusal(t *testing.T, w *httptest.ResponseRecorder, a Auth) {
	t.Helper()
	var want []string
	if a.Token != "" {
		want = append(want, `Bearer realm="gudang"`)
	}
	if a.Username != "" {
		want = append(want, `Basic realm="gudang", charset="UTF-8"`)
	}
	if got := w.Header().Values("WWW-Authenticate"); !slices.Equal(got, want) {
		t.Errorf("WWW-Authenticate %q, want %q", got, want)
	}
	if w.Header().Get("Content-Security-Policy") == "" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("a refusal without the headers of every answer: %v", w.Header())
	}
	if got := errorOf(t, w.Body); got != errWho.text {
		t.Errorf("said %q", got)
	}
}

func TestProbesNeedNoCredentialsAndLearnNoReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := guarded(new(bytes.Buffer), Auth{Token: "t0ken"})
		for _, c := range []struct {
			path, header, accept string
			status               int
			body                 string
		}{
			{"/healthz", "", "", 200, "ok\n"},
			{"/healthz", "Bearer wrong", "", 200, "ok\n"},
			{"/readyz", "", "", 503, "not ready\n"},
			{"/readyz", "", "application/json", 503, `{"ready":false,"reasons":["not ready"]}` + "\n"},
			{"/readyz", "Bearer t0ken", "", 503, "no broker at secret-host\n"},
			{"/readyz", "Bearer wrong", "", 401, `{"error":"` + errWho.text + `"}` + "\n"},
		} {
			header := []string{"Accept", c.accept}
			if c.header != "" {
				header = append(header, "Authorization", c.header)
			}
			if w := do(s, http.MethodGet, c.path, header...); w.Code != c.status || w.Body.String() != c.body {
				t.Errorf("%s with %q: %d %q, want %d %q", c.path, c.header, w.Code, w.Body, c.status, c.body)
			}
		}
	})
}

// from sends a request from an address.
func from(s *Server, addr, authorization string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.RemoteAddr = addr
	r.Header.Set("Authorization", authorization)
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, r)
	return w
}

func TestGuessingIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := guarded(&log, Auth{Token: "t0ken"})
		const guesses = 100
		codes := make(chan int, guesses)
		var all sync.WaitGroup
		began := time.Now()
		for range guesses {
			all.Go(func() {
				w := from(s, "192.0.2.7:1000", "Bearer guess")
				if w.Code == 429 && w.Header().Get("Retry-After") == "" {
					t.Error("429 without Retry-After")
				}
				codes <- w.Code
			})
		}
		synctest.Wait()
		if len(codes) != guesses-maxWrong {
			t.Errorf("%d answers at once, want those of all but %d", len(codes), maxWrong)
		}
		// The right one from the same address is not even looked at now; from
		// another address it is.
		if w := from(s, "192.0.2.7:2000", "Bearer t0ken"); w.Code != 429 {
			t.Errorf("a try too many: %d", w.Code)
		}
		if w := from(s, elsewhere(s, "192.0.2.7:1000"), "Bearer t0ken"); w.Code != 200 {
			t.Errorf("from another address: %d", w.Code)
		}
		all.Wait()
		if took := time.Since(began); took != wrongDelay {
			t.Errorf("the answers took %v, want %v", took, wrongDelay)
		}
		if w := from(s, "192.0.2.7:2000", "Bearer t0ken"); w.Code != 200 {
			t.Errorf("after the guesses: %d", w.Code)
		}
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "remote=192.0.2.7:1000") || strings.Contains(got, "guess") {
			t.Errorf("log: %q, want one line without the guess", got)
		}
	})
}

// elsewhere is an address that does not share the place of another.
func elsewhere(s *Server, addr string) string {
	for _, other := range []string{"192.0.2.8:1", "192.0.2.9:1", "192.0.2.10:1", "192.0.2.11:1", "192.0.2.12:1"} {
		if s.guard.place(other) != s.guard.place(addr) {
			return other
		}
	}
	return addr
}

func TestAnIPv6ClientIsItsNetwork(t *testing.T) {
	g := newGuard(Auth{Token: "x"})
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"[2001:db8:1:2::1]:1", "[2001:db8:1:2:ffff::9]:2", true},
		{"192.0.2.1:1", "[::ffff:192.0.2.1]:1", true},
		{"no address", "nor this", true},
	} {
		if (g.place(c.a) == g.place(c.b)) != c.same {
			t.Errorf("%s and %s: share a place %v", c.a, c.b, !c.same)
		}
	}
	// Two networks may share a place by chance, thirty do not.
	used := map[any]bool{}
	for i := range 30 {
		used[g.place("[2001:db8:1:"+string("0123456789abcdef"[i%16])+string("01"[i/16])+"::1]:1")] = true
	}
	if len(used) < 10 {
		t.Errorf("30 networks have %d places", len(used))
	}
}

func TestAGuesserWhoLeavesFreesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := guarded(new(bytes.Buffer), Auth{Token: "t0ken"})
		ctx, leave := context.WithCancel(t.Context())
		leave()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil)
		r.Header.Set("Authorization", "Bearer wrong")
		began := time.Now()
		s.http.Handler.ServeHTTP(httptest.NewRecorder(), r)
		if n := s.guard.place(r.RemoteAddr).Load(); n != 0 || time.Since(began) != 0 {
			t.Errorf("%d still waiting, after %v", n, time.Since(began))
		}
	})
}
