package query

import (
	"testing"

	"gudang/internal/reading"
)

func TestRowsToLookAt(t *testing.T) {
	if r, sampled := rows(0, 0); len(r) != 1 || sampled != "" {
		t.Errorf("of nothing: %v, %q", r, sampled)
	}
	if r, sampled := rows(101, 900); len(r) != 1 || r[0] != [2]int64{100, 900} || sampled != "" {
		t.Errorf("of few: %v, %q", r, sampled)
	}
	first, last := int64(1001), int64(50_000_000)
	r, sampled := rows(first, last)
	total := int64(0)
	for i, span := range r {
		total += span[1] - span[0]
		if span[0] < first-1 || span[1] > last || span[0] >= span[1] || i > 1 && span[0] < r[i-1][1] {
			t.Errorf("range %d is %v", i, span)
		}
	}
	if total != examineRows/2+blocks*blockRows || r[0][1] != last || sampled == "" {
		t.Errorf("%d rows in %d ranges, %q", total, len(r), sampled)
	}
}

func TestEvery(t *testing.T) {
	points := func(times ...int64) (list []reading.Point) {
		for _, t := range times {
			list = append(list, reading.Point{Time: t})
		}
		return list
	}
	for name, c := range map[string]struct {
		metrics map[string][]reading.Point
		want    int64
		newest  string
	}{
		"steady, with a gap":       {map[string][]reading.Point{"t": points(100, 90, 80, 20, 10)}, 10, "t"},
		"the metric with most":     {map[string][]reading.Point{"t": points(100, 90, 80), "door": points(500)}, 10, "door"},
		"one reading says nothing": {map[string][]reading.Point{"t": points(100)}, 0, "t"},
		"no reading":               {map[string][]reading.Point{"t": nil}, 0, ""},
		"no metric":                {nil, 0, ""},
		"readings of before 1970":  {map[string][]reading.Point{"t": points(-100, -200)}, 100, "t"},
	} {
		s := reading.Sensor{Metrics: c.metrics}
		if have := every(s); have != c.want {
			t.Errorf("%s: every %d, want %d", name, have, c.want)
		}
		if have := newestMetric(s); have != c.newest {
			t.Errorf("%s: newest %q, want %q", name, have, c.newest)
		}
	}
}
