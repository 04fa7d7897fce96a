package web

import (
	"compress/gzip"
	"net/http"
	"strings"
	"time"
)

// prometheusPath is where Prometheus' API is answered.
const prometheusPath = "/prometheus/api/v1/"

// promqlTimeout is for the store to answer a query, which may have to read a
// month of a whole fleet.
const promqlTimeout = 20 * time.Second

// promql answers the requests below prometheusPath.
func (s *Server) promql(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Vary", "Accept-Encoding")
	out := &compressor{ResponseWriter: w, takes: takesGzip(r.Header.Get("Accept-Encoding"))}
	defer out.close()
	inner := r.Clone(r.Context())
	inner.URL.Path = "/" + strings.TrimPrefix(r.URL.Path, prometheusPath)
	return s.prometheus(out, inner)
}

// compressor compresses what is written without a Content-Length, if the client
// can: an answer whose length is known is a short one.
type compressor struct {
	http.ResponseWriter
	takes   bool
	started bool
	gz      *gzip.Writer
}

// WriteHeader implements http.ResponseWriter.
func (c *compressor) WriteHeader(code int) {
	c.started = true
	if c.takes && code == http.StatusOK && c.Header().Get("Content-Length") == "" {
		c.Header().Set("Content-Encoding", "gzip")
		c.gz, _ = gzip.NewWriterLevel(c.ResponseWriter, gzip.BestSpeed) // errs on unknown levels only
	}
	c.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (c *compressor) Write(p []byte) (int, error) {
	if !c.started {
		c.WriteHeader(http.StatusOK)
	}
	if c.gz != nil {
		return c.gz.Write(p)
	}
	return c.ResponseWriter.Write(p)
}

func (c *compressor) close() {
	if c.gz != nil {
		c.gz.Close() // an error means that the client is gone
	}
}

// prometheusError is an error in the form that clients of Prometheus' API read.
func prometheusError(e *httpError) []byte {
	kind := "internal"
	switch e.status {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong:
		kind = "bad_data"
	case http.StatusNotFound:
		kind = "not_found"
	case http.StatusServiceUnavailable:
		kind = "unavailable"
	case http.StatusGatewayTimeout:
		kind = "timeout"
	}
	b := appendString([]byte(`{"status":"error","errorType":`), kind)
	return append(appendString(append(b, `,"error":`...), e.text), '}', '\n')
}
