package web

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// handler joins the routes and what every request passes on its way to them,
// innermost first.
func (s *Server) handler(routes []route) http.Handler {
	mux := http.NewServeMux()
	for _, rt := range routes {
		mux.Handle(rt.pattern, s.serve(rt))
	}
	var h http.Handler = mux
	for _, wrap := range []func(http.Handler) http.Handler{s.bound, s.admit, secure, s.observe, oneSegment} {
		h = wrap(h)
	}
	return h
}

// What follows these is a sensor's id.
const (
	sensorsPath = "/api/v1/sensors/"
	sensorPages = "/sensors/"
)

// oneSegment makes one path segment of whatever follows these. A sensor id may
// hold slashes and dots, and ServeMux would take the dots for a way up
// the tree and redirect to another address. Escaped or not, all of it is the id.
func oneSegment(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, path := range []string{sensorsPath, sensorPages} {
			if rest, ok := strings.CutPrefix(r.URL.Path, path); ok && rest != "" {
				clean := new(http.Request)
				*clean = *r
				clean.URL = new(url.URL)
				*clean.URL = *r.URL
				clean.URL.RawPath = path + escapeSegment(rest)
				r = clean
			}
		}
		next.ServeHTTP(w, r)
	})
}

// escapeSegment is url.PathEscape for a text that may be "." or "..".
func escapeSegment(s string) string {
	return strings.ReplaceAll(url.PathEscape(s), ".", "%2E")
}

// observe counts and times each request, and keeps a panic in one of them from
// ending the process, which has readings to store.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		rec := &recorder{ResponseWriter: w}
		defer func() {
			p := recover()
			if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // a panic value, which is compared as net/http does
				s.metrics.panics.Inc()
				s.log.Error("http handler panicked", "panic", p, "path", r.URL.Path, "stack", string(debug.Stack()))
				if rec.code == 0 {
					s.fail(rec, r, errInternal)
					p = nil
				}
			}
			s.metrics.observe(r.Pattern, rec.code, time.Since(start))
			if p != nil {
				// Part of the answer is out. Only a broken connection tells the
				// client that it isn't the whole.
				panic(http.ErrAbortHandler)
			}
		}()
		next.ServeHTTP(rec, r)
	})
}

// recorder remembers the status that was answered.
type recorder struct {
	http.ResponseWriter
	code int
}

func (r *recorder) WriteHeader(code int) {
	if r.code == 0 {
		r.code = code
	}
	r.ResponseWriter.WriteHeader(code)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.code == 0 {
		r.code = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// secure sets the headers that every answer has. What a sensor calls itself is
// in the answers, so no browser may take one of them for anything but data.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		next.ServeHTTP(w, r)
	})
}

const allowed = "GET, HEAD"

// bound refuses what no honest client sends.
func (s *Server) bound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodConnect: // has no path, so no route would refuse it
			w.Header().Set("Allow", allowed)
			s.fail(w, r, errMethod)
			return
		case len(r.RequestURI) > maxURI:
			s.fail(w, r, &httpError{status: http.StatusRequestURITooLong, text: "the address is longer than " + strconv.Itoa(maxURI) + " bytes"})
			return
		case r.ContentLength > maxBody:
			w.Header().Set("Connection", "close") // or net/http would read what is refused
			s.fail(w, r, &httpError{status: http.StatusRequestEntityTooLarge, text: "the body is larger than " + strconv.Itoa(maxBody) + " bytes"})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// serve is the last step before a route's own handler, and where its error
// goes.
func (s *Server) serve(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && !(rt.post && r.Method == http.MethodPost) {
			refused := errMethod
			w.Header().Set("Allow", allowed)
			if rt.post {
				refused = errMethodPost
				w.Header().Set("Allow", allowed+", POST")
			}
			s.fail(w, r, refused)
			return
		}
		if rt.store {
			leave, err := s.gate.enter(r.Context())
			if err != nil {
				s.fail(w, r, err)
				return
			}
			defer leave()
			ctx, cancel := context.WithTimeout(r.Context(), cmp.Or(rt.within, s.queryTimeout))
			defer cancel()
			r = r.WithContext(ctx)
		}
		if err := rt.handle(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}
