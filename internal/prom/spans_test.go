package prom_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"gudang/internal/prom"
	"gudang/internal/reading"
)

const hourMS = 3_600_000

// hours has a summary for each of 30 days' hours, and counts how many are read.
type hours struct{ documents int64 }

func (h *hours) read(_ context.Context, q reading.Query) (found []reading.Summary, _ error) {
	for i := range int64(30 * 24) {
		if start := base + i*hourMS; start >= q.From && start < q.Until() && len(found) < q.Limit {
			h.documents++
			k := reading.Key{Series: reading.Series{Sensor: q.Sensor, Metric: q.Metric}, Start: start}
			found = append(found, reading.Summary{Key: k, Count: 10, Sum: float64(10 * i), Min: float64(i - 1), Max: float64(i + 1)})
		}
	}
	return found, nil
}

// TestSpansBesideTheBuckets takes roll-ups for what they are: summaries of
// another span.
func TestSpansBesideTheBuckets(t *testing.T) {
	t.Parallel()
	store, rollups := small().sqlite(t), &hours{}
	a := prom.New(prom.Config{
		Reader: store, Unit: func(string) string { return "" }, Log: slog.New(slog.DiscardHandler),
		Summaries: []prom.Summaries{{Span: minute, Read: store.Summaries}, {Span: hourMS, Read: rollups.read}},
	})
	if w, err := do(a, http.MethodGet, "/label/span/values", ""); err != nil || w.Body.String() != `{"status":"success","data":["1h","1m"]}` {
		t.Errorf("%v %s", err, w.Body)
	}
	url := serve(t, a)
	for _, tt := range []struct {
		expression string
		at         int64
		want       float64 // -1: no answer
	}{
		{`temperature:avg{sensor="S-01",span="1h"}`, 2 * hourMS, 1},          // at the end of the hour
		{`temperature:avg{sensor="S-01",span="1h"}`, 2*hourMS - 1, -1},       // not before it has ended
		{`temperature:max{sensor="S-01",span="1h"}`, 2*hourMS + 299_999, 2},  // within the look-back
		{`temperature:max{sensor="S-01",span="1h"}`, 2*hourMS + 300_000, -1}, // beyond it
		{`last_over_time(temperature:min{sensor="S-01",span="1h"}[1h])`, 100 * hourMS, 98},
		{`sum_over_time(temperature:sum{sensor="S-01",span="1h"}[2h]) / sum_over_time(temperature:count{sensor="S-01",span="1h"}[2h])`, 100 * hourMS, 98.5},
		{`count(temperature:avg{sensor="S-01"})`, hourMS, 1}, // the minutes are silent by then
	} {
		got := -1.0
		for _, s := range ask(t, url, tt.expression, times{start: tt.at}).series {
			for _, v := range s {
				got = v
			}
		}
		if got != tt.want {
			t.Errorf("%s at %v: %v, want %v", tt.expression, time.Duration(tt.at)*time.Millisecond, got, tt.want)
		}
	}
	// A band over a month, as a dashboard draws it: two documents a point.
	for _, statistic := range []string{"min", "max", "avg"} {
		rollups.documents = 0
		expression := strings.ReplaceAll(`last_over_time(temperature:STAT{sensor="S-01",span="1h"}[1h])`, "STAT", statistic)
		points := 0
		for _, s := range ask(t, url, expression, times{hourMS, 720 * hourMS, hourMS}).series {
			points += len(s)
		}
		if points != 720 || rollups.documents > 2*720 {
			t.Errorf("%s: %d documents for %d points", expression, rollups.documents, points)
		}
	}
}
