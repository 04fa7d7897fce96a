package web

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
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

// series has one reading each step before now, newest last, and their buckets.
func series(id, metric string, n int, step time.Duration, now time.Time) *memory {
	m := &memory{}
	s := reading.Series{Sensor: id, Metric: metric}
	buckets := map[int64]*reading.Bucket{}
	span := reading.Span(60000)
	for i := range n {
		at := now.Add(-time.Duration(n-i) * step).UnixMilli()
		v := float64(200+i%50) / 10
		m.readings = append(m.readings, reading.Reading{Series: s, Time: at, Value: v})
		k := reading.Key{Series: s, Start: span.Start(at)}
		if buckets[k.Start] == nil {
			buckets[k.Start] = &reading.Bucket{Series: s, Start: k.Start}
		}
		buckets[k.Start].Add(at, v)
	}
	for start, b := range buckets {
		m.summaries = append(m.summaries, reading.Summary{
			Key: reading.Key{Series: s, Start: start}, Count: int64(len(b.Values)), Sum: b.Sum, Min: b.Min, Max: b.Max,
		})
	}
	return m
}

func TestTheSensorPageShowsItsTime(t *testing.T) {
	now := time.Now()
	m := series("S-01", "temperature", 1000, 10*time.Second, now)
	c := config(m)
	c.Page.Unit = func(metric string) string { return map[string]string{"temperature": "°C"}[metric] }
	c.Page.Zone = time.FixedZone("WIB", 7*3600)
	s := New(c)
	hour := page(t, s, "/sensors/S-01", http.StatusOK)
	has(t, hour, "<h1><bdi>S-01</bdi></h1>", `<span class="unit">°C</span>`, `aria-current="true">1 hour`, "WIB (UTC&#43;07:00)", `role="img"`, "<desc",
		"each reading", `<path class="line" d="M`, "temperature over time", "Download CSV")
	lacks(t, hour, "silent", "outlier", `class="band"`)
	if n := strings.Count(between(t, hour, "<figure", "</figure>"), "<tr>"); n < 355 || n > 361 {
		t.Errorf("%d rows beside the chart of an hour, want one for each reading and the head", n)
	}
	long := page(t, s, "/sensors/S-01?range=6h", http.StatusOK)
	has(t, long, "1,000 readings, from 20.0 °C to 24.9 °C", "average, least and greatest of each 2 min", `class="band"`, `aria-current="true">6 hours`)
	empty := page(t, s, "/sensors/S-01?from=2020-01-01T00:00&to=2020-01-02T00:00", http.StatusOK)
	has(t, empty, "There is nothing in this time.", "1 Jan 2020, 00:00:00 to 2 Jan 2020, 00:00:00", "No readings in this time.", `rel="next"`)
	back := regexp.MustCompile(`nothing in this time. <a href="([^"]*)"`).FindStringSubmatch(empty)
	has(t, page(t, s, html.UnescapeString(back[1]), http.StatusOK), `<path class="line" d="M`)
	head := page(t, s, "/sensors/S-01?part=head", http.StatusOK)
	has(t, head, "<h1><bdi>S-01</bdi></h1>", `<span class="unit">°C</span>`)
	lacks(t, head, "<figure", `id="list"`)
}

func between(t *testing.T, text, from, to string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, from)
	inside, _, found2 := strings.Cut(rest, to)
	if !found || !found2 {
		t.Fatalf("nothing between %q and %q", from, to)
	}
	return inside
}

func TestAFloodOfReadingsIsDrawnFromItsBuckets(t *testing.T) {
	now := time.Now()
	s := New(config(series("S-WILD", "vibration", 5*maxRawPoints, 100*time.Millisecond, now)))
	body := page(t, s, "/sensors/S-WILD", http.StatusOK)
	has(t, body, "7,500 readings", "average, least and greatest of each 1 min", `class="band"`)
	if n := strings.Count(body, "<tr>"); n > 200 {
		t.Errorf("%d rows on the page", n)
	}
}

func TestMoreBucketsThanAPageReadsAreSaidToBeMissing(t *testing.T) {
	now := time.Now()
	m := series("S", "m", 3000, time.Minute, now)
	s := New(config(m))
	s.spans = s.spans[:1] // no roll-ups
	budget := 100
	win := window{from: now.Add(-30 * day).UnixMilli(), to: now.UnixMilli()}
	c, until, err := s.chart(t.Context(), reading.Series{Sensor: "S", Metric: "m"}, win, &budget)
	total := int64(0)
	for _, slot := range c.Slots {
		total += slot.Count
	}
	if err != nil || budget != 0 || until >= win.to || total != 100 {
		t.Errorf("%d readings until %d of %d, budget %d, %v", total, until, win.to, budget, err)
	}
}

func TestTheListsGoThroughEverything(t *testing.T) {
	now := time.Now()
	m := series("S-01", "temperature", 300, 10*time.Second, now)
	s := New(config(m))
	for view, want := range map[string]int{"buckets": len(m.summaries), "readings": 300} {
		seen := map[string]bool{}
		target := "/sensors/S-01?view=" + view + "&range=6h"
		for target != "" {
			body := page(t, s, target, http.StatusOK)
			list := between(t, body, `id="list"`, "</section>")
			for _, r := range regexp.MustCompile(`<time datetime="([^"]*)"`).FindAllStringSubmatch(list, -1) {
				if seen[r[1]] {
					t.Fatalf("%s: %s is there twice", view, r[1])
				}
				seen[r[1]] = true
			}
			target = ""
			if m := regexp.MustCompile(`href="([^"#]*)#list" rel="next"`).FindStringSubmatch(list); m != nil {
				target = html.UnescapeString(m[1])
			}
		}
		if len(seen) != want {
			t.Errorf("%s: %d listed, want %d", view, len(seen), want)
		}
	}
}

func TestASensorOfManyMetrics(t *testing.T) {
	now := time.Now().UnixMilli()
	m := &memory{}
	for i := range 40 {
		m.readings = append(m.readings, reading.Reading{Series: reading.Series{Sensor: "S", Metric: fmt.Sprintf("m%02d", i)}, Time: now, Value: float64(i)})
	}
	s := New(config(m))
	body := page(t, s, "/sensors/S", http.StatusOK)
	if n := strings.Count(body, "<figure"); n != maxCharts {
		t.Errorf("%d charts", n)
	}
	has(t, body, `href="/sensors/S?metric=m39&amp;range=1h">m39</a>`)
	one := page(t, s, "/sensors/S?metric=m39&range=1h", http.StatusOK)
	if n := strings.Count(one, "<figure"); n != 1 {
		t.Errorf("%d charts of one metric", n)
	}
	has(t, one, "all metrics")
}

func TestCSV(t *testing.T) {
	now := time.UnixMilli(start)
	m := series("=cmd()", "temperature", 12345, time.Second, now)
	m.readings[7].Value = -1.5e-9
	s := New(config(m))
	target := "/api/v1/readings.csv?sensor=" + url.QueryEscape("=cmd()")
	w := do(s, http.MethodGet, target)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/csv; charset=utf-8; header=present" ||
		w.Header().Get("Content-Disposition") != `attachment; filename="readings--cmd--.csv"` {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	if !strings.HasPrefix(w.Body.String(), "sensor,metric,time,value\r\n'=cmd(),temperature,2026-12-06T05:39:15Z,20\r\n") {
		t.Errorf("it begins %.120q", w.Body)
	}
	rows, err := csv.NewReader(w.Body).ReadAll()
	if err != nil || len(rows) != 12346 || rows[8][3] != "-1.5e-09" {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	for query, want := range map[string]int{
		"&limit=3": 3, "&limit=5001": 5001, "&from=2026-12-06T09:04:00Z": 60, "&to=2026-12-06T05:39:17.5Z": 3, "&metric=humidity": 0, "&from=5&to=5": 0,
	} {
		if n := strings.Count(do(s, http.MethodGet, target+query).Body.String(), "\r\n"); n != want+1 {
			t.Errorf("%s: %d lines, want %d and the head", query, n, want)
		}
	}
	if w := do(s, http.MethodHead, target); w.Code != http.StatusOK {
		t.Errorf("HEAD: %d", w.Code)
	}
	for _, bad := range []string{"/api/v1/readings.csv", target + "&limit=0", target + "&colour=red", target + "&from=x"} {
		if w := do(s, http.MethodGet, bad); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, w.Code)
		}
	}
}

func TestHarmless(t *testing.T) {
	for id, want := range map[string]string{"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "S-01": "S-01", "'=x": "'=x", "a=b": "a=b", "ä": "ä"} {
		if got := harmless(id); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
}

// A store that fails in the middle must not leave a file that looks whole.
func TestACSVThatBreaksIsNoWholeAnswer(t *testing.T) {
	m := series("S", "m", 2*csvPage, time.Second, time.UnixMilli(start))
	asked := 0
	m.before = func(context.Context) error {
		if asked++; asked == 2 {
			return errors.New("gone")
		}
		return nil
	}
	s := New(config(m))
	base, _ := running(t, s)
	w, err := http.Get(base + "/api/v1/readings.csv?sensor=S")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	if _, err := io.ReadAll(w.Body); err == nil {
		t.Error("it reads as whole")
	}
	if len(s.gate.running) != 0 {
		t.Error("a place at the gate is lost")
	}
	m.before = func(context.Context) error { return errors.New("gone") }
	if w := do(s, http.MethodGet, "/api/v1/readings.csv?sensor=S"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Content-Disposition") != "" {
		t.Errorf("a store that is away: %d %v", w.Code, w.Header())
	}
}

// A month is drawn of hours where there are roll-ups, and with the same values.
func TestChartsReadTheLongestRollUpsThatFit(t *testing.T) {
	s := &Server{reader: &memory{}, site: &site{PageConfig: PageConfig{Span: 60_000}}, spans: []reading.Span{60_000, 3_600_000, 86_400_000}}
	for width, want := range map[int64]reading.Span{60_000: 60_000, 1_800_000: 60_000, 3_600_000: 3_600_000, 7_200_000: 3_600_000, 86_400_000: 86_400_000, 172_800_000: 86_400_000} {
		if have, _ := s.summariesFor(width); have != want {
			t.Errorf("slots of %d ms are made of spans of %d, want %d", width, have, want)
		}
	}
}
