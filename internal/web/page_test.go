package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"gudang/internal/reading"
)

func TestPage(t *testing.T) {
	hostile := `<script>alert("1")</script>/'&` + "\n../x"
	down := example()
	down.before = func(context.Context) error { return errors.New("secret") }
	for name, c := range map[string]struct {
		reader Reader
		checks []Check
		has    []string
	}{
		"ready":          {example(), nil, []string{"<h2>Ready</h2>", "Readings are taken", "Gudang v1.2.3", `href="/api/v1/sensors/S-01"`, "sensor=S-01"}},
		"nothing stored": {&memory{}, nil, []string{"<h2>Ready</h2>", "No sensor has sent anything yet"}},
		"not ready": {
			example(),
			[]Check{{"a", func(context.Context) error { return errors.New("no <broker>") }}},
			[]string{"<h2>Not ready</h2>", "<li>no &lt;broker&gt;</li>"},
		},
		"store down": {down, nil, []string{"<h2>Not ready</h2>", "<li>the store can&#39;t be read right now</li>", `href="/api/v1/sensors"`}},
		"an id that is a script": {
			&memory{readings: []reading.Reading{{Series: reading.Series{Sensor: hostile, Metric: "m"}, Time: 1}}}, nil,
			[]string{`href="/api/v1/sensors/%3Cscript%3E`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(config(c.reader, c.checks...))
			w := do(s, http.MethodGet, "/")
			body := w.Body.String()
			if w.Code != 200 || w.Header().Get("Content-Type") != "text/html; charset=utf-8" || strings.Contains(body, "secret") {
				t.Fatalf("%d %v %s", w.Code, w.Header(), body)
			}
			for _, want := range c.has {
				if !strings.Contains(body, want) {
					t.Errorf("the page lacks %q", want)
				}
			}
			if strings.Contains(body, "<script") {
				t.Error("a script is on the page")
			}
			wellFormed(t, body)
			for _, m := range regexp.MustCompile(`<a href="([^"]*)"`).FindAllStringSubmatch(body, -1) {
				href := strings.ReplaceAll(m[1], "&amp;", "&")
				if _, err := url.Parse(href); err != nil {
					t.Errorf("link %q: %v", href, err)
				}
				answer := do(s, http.MethodGet, href)
				if name == "ready" && answer.Code != 200 || answer.Code == 400 || name == "an id that is a script" && answer.Code != 200 {
					t.Errorf("link %q answers %d %s", href, answer.Code, answer.Body)
				}
			}
		})
	}
}

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

func TestThePagePolicyAllowsItsOwnStyle(t *testing.T) {
	w := do(New(config(example())), http.MethodGet, "/")
	_, rest, _ := strings.Cut(w.Body.String(), "<style>")
	style, _, found := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(style))
	want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	if got := w.Header().Get("Content-Security-Policy"); !found || !strings.Contains(got, want) || strings.Contains(got, "unsafe") {
		t.Errorf("policy %q lacks %q: the page would be bare", got, want)
	}
}
