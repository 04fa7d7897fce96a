package prom_test

import (
	"net/http/httptest"
	"net/url"
	"testing"

	"gudang/internal/prom"
	"gudang/internal/reading"
)

// BenchmarkMonth is a panel of 1,000 points over 30 days of one sensor, against
// what it costs to fetch the documents that it needs from the same store.
func BenchmarkMonth(b *testing.B) {
	store := month(b)
	const points = 1000
	const step = 30 * dayMS / points
	run := func(a *prom.API, expression string) func(b *testing.B) {
		form := url.Values{"query": {expression}, "start": {seconds(step)}, "end": {seconds(30 * dayMS)}, "step": {"2592"}}
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				if err := a.Serve(w, httptest.NewRequest("GET", "/query_range?"+form.Encode(), nil)); err != nil || w.Code != 200 {
					b.Fatalf("%d %v: %s", w.Code, err, w.Body)
				}
			}
		}
	}
	series := reading.Series{Sensor: "S-01", Metric: "temperature"}
	b.Run("selector", run(api(store), `temperature{sensor="S-01"}`))
	b.Run("selector/documents", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for i := int64(1); i <= points; i++ {
				if s, err := store.NewestAt(b.Context(), series, base+i*step-300_000, base+i*step); err != nil || len(s.Points) == 0 {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("maximum", run(api(store), `temperature:max{sensor="S-01"}`))
	b.Run("maximum/documents", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for i := int64(1); i <= points; i++ {
				at := base + i*step
				q := reading.Query{Sensor: "S-01", Metric: "temperature", From: at - 120_000, To: at - 59_999, Limit: 10}
				if s, err := store.Summaries(b.Context(), q); err != nil || len(s) == 0 {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("window", run(api(store), `avg_over_time(temperature{sensor="S-01"}[43m12s])`))
	b.Run("window/documents", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for from := base; from < base+30*dayMS; {
				s, err := store.Stretch(b.Context(), series, from, base+30*dayMS, 4096)
				if err != nil {
					b.Fatal(err)
				}
				from = s.Until
			}
		}
	})
}
