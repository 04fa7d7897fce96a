package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// pagePolicy lets the page have its own style, known by its hash, its icon and
// nothing else.
var pagePolicy = func() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// link is an endpoint on the page.
type link struct {
	Href, Text, What string
}

// page is what the template shows.
type page struct {
	Style   template.CSS
	Version string
	Reasons []string // why it isn't ready
	Links   []link
	Empty   bool // no sensor is stored yet
}

// index answers /: what this is, how it is, and where to go.
func (s *Server) index(w http.ResponseWriter, r *http.Request) error {
	p := page{Style: template.CSS(pageStyle), //nolint:gosec // our own file, compiled in
		Version: s.version, Reasons: s.unready(r.Context())}
	id := "S-01"
	// A store that can't be read does not fail the page: it is the place that
	// says so.
	ctx, cancel := context.WithTimeout(r.Context(), s.checkTimeout)
	defer cancel()
	found, err := s.reader.Sensors(ctx, "", 1)
	if err == nil && len(found) > 0 {
		id = found[0].ID
	}
	if err != nil && len(p.Reasons) == 0 {
		p.Reasons = []string{errStore.text}
	}
	p.Empty = err == nil && len(found) == 0
	p.Links = links(id)
	var body bytes.Buffer
	if err := pageTemplate.Execute(&body, p); err != nil {
		s.log.Error("cannot draw the page", "err", err)
		return errInternal
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Write(body.Bytes())
	return nil
}

// links are the endpoints with an example each, of the sensor given.
func links(id string) []link {
	query := url.Values{"sensor": {id}, "limit": {"100"}}.Encode()
	all := []link{
		{Href: "/api/v1/sensors", What: "every sensor with its latest readings"},
		{Href: sensorsPath + escapeSegment(id), What: "one sensor"},
		{Href: "/api/v1/readings?" + query, What: "its readings in order of time; also metric, from, to, after"},
		{Href: "/api/v1/buckets?" + query, What: "its buckets: count, sum, min and max, without the readings"},
		{Href: "/metrics", What: "for Prometheus"},
		{Href: "/readyz", What: "ready, or the reasons why not"},
		{Href: "/healthz", What: "alive"},
	}
	for i := range all {
		all[i].Text = all[i].Href
	}
	return all
}
