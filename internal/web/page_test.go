package web

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"gudang/internal/reading"
)

// wellFormed checks that every element is closed where it should be.
func wellFormed(t *testing.T, body string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(body))
	d.Strict, d.Entity = true, xml.HTMLEntity
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("the page is not well formed: %v\n%s", err, body)
		}
	}
}

var attributes = regexp.MustCompile(` (href|src)="([^"]*)"`)

// hrefs are the addresses on a page that are the server's own.
func hrefs(body string) (all []string) {
	for _, m := range attributes.FindAllStringSubmatch(body, -1) {
		all = append(all, html.UnescapeString(m[2]))
	}
	return all
}

// page answers target, which must be a page with the status, and checks what
// holds for each.
func page(t *testing.T, s *Server, target string, status int) string {
	t.Helper()
	w := do(s, http.MethodGet, target)
	body := w.Body.String()
	if w.Code != status || w.Header().Get("Content-Type") != typeHTML {
		t.Fatalf("GET %s: %d %s\n%s", target, w.Code, w.Header().Get("Content-Type"), body)
	}
	wellFormed(t, body)
	policy := w.Header().Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "data:") {
		t.Errorf("GET %s: policy %q", target, policy)
	}
	for _, bad := range []string{"<style", " style=", " onclick=", `="javascript:`} {
		if strings.Contains(body, bad) {
			t.Errorf("GET %s: the page has %q, which its policy forbids", target, bad)
		}
	}
	if n := strings.Count(body, "<script"); n != 1 || !strings.Contains(body, `<script src="/assets/page-`) {
		t.Errorf("GET %s: %d scripts", target, n)
	}
	return body
}

// escaped is a text as a template puts it on the page.
func escaped(text string) string {
	return strings.ReplaceAll(html.EscapeString(text), "+", "&#43;")
}

func has(t *testing.T, body string, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(body, text) {
			t.Errorf("the page lacks %q", text)
		}
	}
}

func lacks(t *testing.T, body string, unwanted ...string) {
	t.Helper()
	for _, text := range unwanted {
		if strings.Contains(body, text) {
			t.Errorf("the page has %q", text)
		}
	}
}

// hostileIDs are names that would be something else if they were not escaped.
var hostileIDs = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='x`, `..`, `.`, `../../etc/passwd`, `a/../b`, `a//b/`,
	`{{.Version}}`, `javascript:alert(1)`, "\u202egnp.exe", "مستودع ١", "🌡️ dapur", `100%`, `a?b=c&d#e`, ` padded `, `a+b;c`, "x\u2028y", strings.Repeat("ä", 128),
}

// Whatever a sensor is called, the list shows its name as text, and links to a
// page that shows it, too.
func TestHostileIDsAreTextAndHaveAPage(t *testing.T) {
	for _, id := range hostileIDs {
		t.Run(id, func(t *testing.T) {
			m := &memory{}
			now := time.Now().UnixMilli()
			for i := range int64(3) {
				m.readings = append(m.readings, reading.Reading{Series: reading.Series{Sensor: id, Metric: "temperature"}, Time: now - i*1000, Value: 20 + float64(i)})
			}
			s := New(config(m))
			body := page(t, s, "/", http.StatusOK)
			has(t, body, "<bdi>"+escaped(id)+"</bdi>")
			links := regexp.MustCompile(`href="(/sensors/[^"]*)"`).FindStringSubmatch(body)
			if links == nil {
				t.Fatalf("no link to the sensor in %s", body)
			}
			link := html.UnescapeString(links[1])
			// What a browser makes of it: dots are resolved, escaped or not.
			u, err := url.Parse(link)
			if err != nil || strings.Contains(u.EscapedPath(), "/../") || strings.HasSuffix(strings.ReplaceAll(u.EscapedPath(), "%2E", "."), "/..") {
				t.Fatalf("link %q (%v) leads elsewhere", link, err)
			}
			sensor := page(t, s, link, http.StatusOK)
			has(t, sensor, "<bdi>"+escaped(id)+"</bdi>")
			for _, href := range hrefs(sensor) {
				if href, _, _ = strings.Cut(href, "#"); href == "" {
					continue
				}
				if w := do(s, http.MethodGet, href); w.Code != http.StatusOK || strings.HasPrefix(href, sensorPages) && !strings.Contains(w.Body.String(), escaped(id)) {
					t.Errorf("the link %q on the sensor's page answers %d", href, w.Code)
				}
			}
			changes := regexp.MustCompile(`data-live="([^"]*)"`).FindStringSubmatch(sensor)
			if w := do(s, http.MethodHead, html.UnescapeString(changes[1])); w.Code != http.StatusOK {
				t.Errorf("the address for news %q answers %d", changes[1], w.Code)
			}
		})
	}
}

func TestErrorsOfPagesAreToldOnPages(t *testing.T) {
	down := example()
	down.before = func(context.Context) error { return errors.New("secret") }
	for name, c := range map[string]struct {
		reader Reader
		target string
		status int
		has    []string
	}{
		"a sensor that isn't there":       {example(), "/sensors/S-99", 404, []string{"No such sensor."}},
		"a sensor without a name":         {example(), "/sensors/", 404, []string{"No such sensor."}},
		"a name that is too long":         {example(), "/sensors/" + strings.Repeat("x", 257), 404, []string{"No such sensor."}},
		"an unknown range":                {example(), "/sensors/S-01?range=2y", 400, []string{"Range &#34;2y&#34;: must be 1h"}},
		"a time that is none":             {example(), "/sensors/S-01?from=%3Cb%3E", 400, []string{"From &#34;&lt;b&gt;&#34;"}},
		"times that are turned round":     {example(), "/sensors/S-01?from=2026-12-06T09:00:00Z&to=2026-12-06T08:00:00Z", 400, []string{"From must be before to."}},
		"a time that is too long":         {example(), "/sensors/S-01?from=1970-01-01T00:00:00Z&to=2026-12-06T08:00:00Z", 400, []string{"ten years"}},
		"a metric that can't be":          {example(), "/sensors/S-01?metric=%3Cb%3E", 400, []string{"Metric &#34;&lt;b&gt;&#34;"}},
		"an unknown list":                 {example(), "/sensors/S-01?view=x", 400, []string{"must be buckets or readings"}},
		"an after of something else":      {example(), "/sensors/S-01?after=c1MtMDE", 400, []string{"After is not"}},
		"an unknown order":                {example(), "/?sort=colour", 400, []string{"Sort &#34;colour&#34;"}},
		"an unknown state":                {example(), "/?state=x", 400, []string{"must be silent or outlier"}},
		"a search that is too long":       {example(), "/?q=" + strings.Repeat("x", 257), 400, []string{"256 bytes"}},
		"after and before":                {example(), "/?after=ZgAAAAAAAAAAUw&before=ZgAAAAAAAAAAUw", 400, []string{"not both"}},
		"a place that is none":            {example(), "/?after=xyz", 400, []string{"After is not"}},
		"a sensor while the store's away": {down, "/sensors/S-01", 503, []string{"The store can&#39;t be read right now.", "No reading is lost"}},
	} {
		t.Run(name, func(t *testing.T) {
			body := page(t, New(config(c.reader)), c.target, c.status)
			has(t, body, append(c.has, `<a href="/">`)...)
			lacks(t, body, "secret", "All is well")
		})
	}
}

func TestAnUnknownPathIsAPageForBrowsersOnly(t *testing.T) {
	s := New(config(example()))
	if w := do(s, http.MethodGet, "/nothing", "Accept", "text/html,*/*"); w.Code != 404 || w.Header().Get("Content-Type") != typeHTML {
		t.Errorf("a browser gets %d %s", w.Code, w.Header().Get("Content-Type"))
	}
	errorOf(t, do(s, http.MethodGet, "/nothing").Body)
	errorOf(t, do(s, http.MethodGet, "/api/v1/sensors/S-99", "Accept", "text/html").Body)
}

func TestAssetsAreKeptForEver(t *testing.T) {
	s := New(config(example()))
	body := page(t, s, "/", http.StatusOK)
	found := regexp.MustCompile(`"(/assets/[^"]+)"`).FindAllStringSubmatch(body, -1)
	if len(found) != 3 {
		t.Fatalf("%d assets on the page, want style, script and icon", len(found))
	}
	for _, m := range found {
		w := do(s, http.MethodGet, m[1])
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Body.Len() == 0 {
			t.Errorf("%s: %d %v", m[1], w.Code, w.Header())
		}
		if w := do(s, http.MethodHead, m[1]); w.Code != http.StatusOK {
			t.Errorf("HEAD %s: %d", m[1], w.Code)
		}
	}
	if w := do(s, http.MethodGet, "/assets/page.css"); w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("by its plain name: %d, %s", w.Code, w.Header().Get("Cache-Control"))
	}
	for _, target := range []string{"/assets/", "/assets/page-000000000000.css", "/assets/..%2fpage.go", "/assets/page.html"} {
		if w := do(s, http.MethodGet, target); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
}

func TestLargePagesAreCompressed(t *testing.T) {
	m := &memory{}
	now := time.Now().UnixMilli()
	for i := range int64(300) {
		m.readings = append(m.readings, reading.Reading{Series: reading.Series{Sensor: "S", Metric: "m"}, Time: now - i*1000, Value: float64(i)})
	}
	s := New(config(m))
	plain := do(s, http.MethodGet, "/sensors/S")
	packed := do(s, http.MethodGet, "/sensors/S", "Accept-Encoding", "gzip")
	if packed.Header().Get("Content-Encoding") != "gzip" || packed.Body.Len()*3 > plain.Body.Len() {
		t.Errorf("%d bytes became %d, Content-Encoding %q", plain.Body.Len(), packed.Body.Len(), packed.Header().Get("Content-Encoding"))
	}
	if !bytes.HasSuffix(plain.Body.Bytes(), []byte("</html>\n")) {
		t.Error("the page is cut short")
	}
}
