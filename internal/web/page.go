package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"gudang/internal/reading"
)

// PageConfig is what the pages are made from, beside what is stored. Each field
// has a default.
type PageConfig struct {
	Unit       func(metric string) string // the unit that a metric is stored in; empty: none is known
	Zone       *time.Location             // of the times shown
	Span       reading.Span               // what a bucket covers
	StaleAfter time.Duration              // who has said nothing for longer is marked as silent
	Hints      []Hint                     // what to do where nothing is stored yet
}

// Hint is a command to copy, and what it does.
type Hint struct{ What, Command string }

func (c *PageConfig) complete() {
	if c.Unit == nil {
		c.Unit = func(string) string { return "" }
	}
	if c.Zone == nil {
		c.Zone = time.UTC
	}
	if c.Span == 0 {
		c.Span = reading.Span(time.Minute / time.Millisecond)
	}
	if c.StaleAfter == 0 {
		c.StaleAfter = time.Minute
	}
}

//go:embed pages/*.html
var pageFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// pagePolicy lets a page have the server's own style, script and pictures, ask
// the server, and send its forms there. Nothing in the page itself can run.
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// site is what the pages have of their own.
type site struct {
	PageConfig
	fleet    fleet
	pulse    pulse
	status   statusCache
	streams  chan struct{} // a token is a page that listens
	stopping chan struct{} // closed when the server stops
}

func newSite(c Config) *site {
	c.Page.complete()
	return &site{
		PageConfig: c.Page,
		fleet:      fleet{reader: c.Reader, most: maxFleet},
		pulse:      pulse{gatherer: c.Gatherer},
		streams:    make(chan struct{}, maxStreams),
		stopping:   make(chan struct{}),
	}
}

// pageRoutes are the rows of the table that people look at, and what they need.
func (s *Server) pageRoutes() []route {
	return []route{
		{pattern: "/{$}", handle: s.fleetPage, store: true},
		{pattern: sensorPages + "{$}", handle: s.sensorPage, store: true},
		{pattern: sensorPages + "{id}", handle: s.sensorPage, store: true},
		{pattern: "/api/v1/readings.csv", handle: s.readingsCSV},
		{pattern: livePath, handle: s.live},
		{pattern: assetsPath + "{name}", handle: s.asset},
	}
}

// forPeople says whether an error is to be told on a page.
func forPeople(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	switch r.Pattern {
	case "/{$}", sensorPages + "{$}", sensorPages + "{id}":
		return true
	case "/":
		return strings.Contains(r.Header.Get("Accept"), "text/html")
	}
	return false
}

// frame is what every page has around it.
type frame struct {
	Title   string
	Version string
	Style   string
	Script  string
	Icon    string
	Now     int64  // ms
	Live    string // address that says when there is something new; empty: never
	Every   int    // seconds that a whole page is good for
	Bad     int    // parts of the service that aren't well
}

func (s *Server) frame(title string) frame {
	return frame{
		Title: title, Version: s.version, Now: time.Now().UnixMilli(),
		Style: assets["page.css"].href, Script: assets["page.js"].href, Icon: assets["icon.svg"].href,
	}
}

func pageTemplate(name string) *template.Template {
	return template.Must(template.ParseFS(pageFiles, "pages/frame.html", "pages/"+name))
}

var (
	fleetTemplate  = pageTemplate("fleet.html")
	sensorTemplate = pageTemplate("sensor.html")
	errorTemplate  = pageTemplate("error.html")
)

const typeHTML = "text/html; charset=utf-8"

// show draws a page. Nothing of it is sent before all of it is drawn.
func (s *Server) show(w http.ResponseWriter, r *http.Request, code int, t *template.Template, view any) error {
	var body bytes.Buffer
	if err := t.ExecuteTemplate(&body, "frame.html", view); err != nil {
		s.log.Error("cannot draw the page", "template", t.Name(), "err", err)
		return errInternal
	}
	w.Header().Set("Content-Security-Policy", pagePolicy)
	if code != http.StatusOK {
		w.Header().Set("Content-Type", typeHTML)
		w.WriteHeader(code)
		w.Write(body.Bytes())
		return nil
	}
	return s.answerAs(w, r, typeHTML, func(e *encoder) {
		for body.Len() > 0 {
			e.buf = append(e.buf, body.Next(pieceSize)...)
			e.piece()
		}
	})
}

// failPage tells an error on a page.
func (s *Server) failPage(w http.ResponseWriter, r *http.Request, e *httpError) {
	view := struct {
		frame
		Status int
		Text   string
	}{s.frame(http.StatusText(e.status)), e.status, title(e.text)}
	if s.show(w, r, e.status, errorTemplate, view) != nil {
		http.Error(w, e.text, e.status)
	}
}

const assetsPath = "/assets/"

// asset is a file of ours. Its name on the wire has a hash of its content in
// it, so that a browser may keep it for ever.
type asset struct {
	href        string
	contentType string
	body        []byte
}

var assets = func() map[string]*asset {
	all := map[string]*asset{}
	for name, contentType := range map[string]string{
		"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		body, err := assetFiles.ReadFile("assets/" + name)
		if err != nil {
			panic("BUG: an asset is not embedded: " + err.Error())
		}
		sum := sha256.Sum256(body)
		ext := path.Ext(name)
		hashed := strings.TrimSuffix(name, ext) + "-" + fmt.Sprintf("%x", sum[:6]) + ext
		a := &asset{assetsPath + hashed, contentType, body}
		all[name], all[hashed] = a, a
	}
	return all
}()

// asset answers what a page needs.
func (s *Server) asset(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	a := assets[name]
	if a == nil {
		return errPath
	}
	if a.href == assetsPath+name { // else it is asked for by its plain name, which stays the same
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	return s.answerAs(w, r, a.contentType, func(e *encoder) { e.buf = append(e.buf, a.body...) })
}

// sensorHref is the address of a sensor's page. Browsers take a segment of dots
// for a way up the tree, escaped or not.
func sensorHref(id string, query url.Values) string {
	href := sensorPages
	if id == "." || id == ".." {
		if query == nil {
			query = url.Values{}
		}
		query.Set("id", id)
	} else {
		href += escapeSegment(id)
	}
	if len(query) > 0 {
		href += "?" + query.Encode()
	}
	return href
}
