package web

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"gudang/internal/reading"
)

func labels(ticks []tick) string {
	var all []string
	for _, t := range ticks {
		all = append(all, t.Label)
	}
	return strings.Join(all, " ")
}

func TestTicksOfTimeAreRoundInTheZone(t *testing.T) {
	at := func(text string) int64 {
		v, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return v.UnixMilli()
	}
	for name, c := range map[string]struct{ zone, from, to, want string }{
		"an hour":           {"UTC", "2026-12-06T09:05:10Z", "2026-12-06T10:05:10Z", "09:10 09:20 09:30 09:40 09:50 10:00"},
		"ten seconds":       {"UTC", "2026-12-06T09:05:10Z", "2026-12-06T09:05:20Z", "09:05:10 09:05:12 09:05:14 09:05:16 09:05:18 09:05:20"},
		"a day elsewhere":   {"Asia/Jakarta", "2026-12-06T09:00:00Z", "2026-12-07T09:00:00Z", "16:00 20:00 7 Dec 04:00 08:00 12:00 16:00"},
		"an odd zone":       {"Asia/Kathmandu", "2026-12-06T09:00:00Z", "2026-12-06T10:00:00Z", "14:50 15:00 15:10 15:20 15:30 15:40"},
		"a week":            {"UTC", "2026-12-06T09:00:00Z", "2026-12-13T09:00:00Z", "7 Dec 8 Dec 9 Dec 10 Dec 11 Dec 12 Dec 13 Dec"},
		"the clock goes on": {"Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-29T21:00:00Z", "29 Mar 03:00 06:00 09:00 12:00 15:00 18:00 21:00"},
		"the clock returns": {"Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-25T22:00:00Z", "25 Oct 04:00 08:00 12:00 16:00 20:00"},
		"ten years":         {"UTC", "2016-12-06T00:00:00Z", "2026-12-06T00:00:00Z", "20 Dec 2017 20 Dec 2019 19 Dec 2021 19 Dec 2023 18 Dec 2025"},
	} {
		t.Run(name, func(t *testing.T) {
			zone, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			if got := labels(timeTicks(at(c.from), at(c.to), zone)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestTicksOfValuesAreRound(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{26.4, 27.4, "26.4 26.6 26.8 27.0 27.2 27.4"},
		{0, 49.9, "0 10 20 30 40 50"},
		{-18.8, -17.7, "−18.8 −18.6 −18.4 −18.2 −18.0 −17.8"},
		{5, 5, "4.6 4.8 5.0 5.2 5.4"},
		{0, 0, "−0.4 −0.2 0.0 0.2 0.4"},
		{1013.2, 1013.3, "1013.20 1013.22 1013.24 1013.26 1013.28 1013.30"},
		{-1e290, 1e290, "−1e+290 −5e+289 0 5e+289 1e+290"},
		{1e-9, 3e-9, "1e−09 1.5e−09 2e−09 2.5e−09 3e−09"},
	} {
		bottom, top, ticks := valueTicks(c.low, c.high)
		if got := labels(ticks); bottom > c.low || top < c.high || got != c.want {
			t.Errorf("%v to %v: a scale from %v to %v with %s, want %s", c.low, c.high, bottom, top, got, c.want)
		}
	}
}

func TestGapsAreGaps(t *testing.T) {
	var found []reading.Reading
	add := func(second int64, v float64) {
		found = append(found, reading.Reading{Series: reading.Series{Sensor: "S", Metric: "m"}, Time: second * 1000, Value: v})
	}
	for s := int64(0); s < 100; s += 10 {
		add(s, float64(s))
	}
	add(200, 5) // alone
	for s := int64(300); s < 350; s += 10 {
		add(s, 7)
	}
	c := drawReadings("m", 0, 400000, found, time.UTC)
	if n := strings.Count(c.Line, "M"); n != 2 {
		t.Errorf("%d lines, want 2: %s", n, c.Line)
	}
	if n := strings.Count(c.Dots, "M"); n != 1 || c.Band != "" || c.Bars != "" {
		t.Errorf("%d dots, want 1: %q, band %q", n, c.Dots, c.Band)
	}
	if strings.Count(c.Line, "L") != 9+4 {
		t.Errorf("a point is missing: %s", c.Line)
	}
}

func TestTwoBurstsAreNoLine(t *testing.T) {
	at := func(times ...int64) (found []reading.Reading) {
		for _, ms := range times {
			found = append(found, reading.Reading{Series: reading.Series{Sensor: "S", Metric: "m"}, Time: ms, Value: 1})
		}
		return found
	}
	for name, c := range map[string]struct {
		found       []reading.Reading
		lines, dots int
	}{
		"two readings far apart":     {at(0, 2_000_000), 0, 2},
		"two as a sensor sends them": {at(0, 10_000), 1, 0},
		"bursts of two":              {at(0, 1000, 900_000, 901_000, 1_800_000, 1_801_000), 3, 0},
		"a sensor that seldom sends": {at(0, 300_000, 600_000, 900_000, 1_200_000, 1_500_000), 1, 0},
	} {
		chart := drawReadings("m", 0, 3_600_000, c.found, time.UTC)
		if lines, dots := strings.Count(chart.Line, "M"), strings.Count(chart.Dots, "M"); lines != c.lines || dots != c.dots {
			t.Errorf("%s: %d lines and %d dots, want %d and %d", name, lines, dots, c.lines, c.dots)
		}
	}
}

// The band holds what the buckets say, and the mean is weighted by readings.
func TestBucketsBecomeSlots(t *testing.T) {
	const minute = 60000
	p := newPlotter(0, 480*minute, minute)
	if p.width != 2*minute {
		t.Fatalf("slots of %d ms", p.width)
	}
	k := func(i int64) reading.Key {
		return reading.Key{Series: reading.Series{Sensor: "S", Metric: "m"}, Start: i * minute}
	}
	p.bucket(reading.Summary{Key: k(0), Count: 1, Sum: 10, Min: 10, Max: 10})
	p.bucket(reading.Summary{Key: k(1), Count: 3, Sum: 6, Min: 1, Max: 4})
	p.bucket(reading.Summary{Key: k(2), Count: 2, Sum: 8, Min: 3, Max: 5})
	p.bucket(reading.Summary{Key: k(3)}) // an outlier whose first readings are on their way
	c := p.chart("m", time.UTC)
	if len(c.Slots) != 2 || c.Slots[0] != (slot{minute, 4, 16, 1, 10}) || c.Slots[1] != (slot{3 * minute, 2, 8, 3, 5}) || c.Slots[0].Mean() != 4 {
		t.Errorf("slots %+v", c.Slots)
	}
	if c.Line == "" || !strings.HasSuffix(c.Band, "Z") {
		t.Errorf("line %q, band %q", c.Line, c.Band)
	}
	for minutes, want := range map[int64]int64{1: 1, 60: 1, 241: 2, 1440: 6, 7 * 1440: 45, 30 * 1440: 180, 3000 * 1440: 13 * 1440} {
		if got := slotWidth(0, minutes*minute, minute) / minute; got != want {
			t.Errorf("slots of %d minutes have %d, want %d", minutes, got, want)
		}
	}
	for years := int64(1); years < 12; years++ {
		if p := newPlotter(0, years*365*24*60*minute, minute); years*365*24*60*minute/p.width > chartSlots {
			t.Errorf("%d years have more than %d slots", years, chartSlots)
		}
	}
}

func FuzzChart(f *testing.F) {
	f.Add(int64(0), int64(3600000), 26.4, 27.4, int64(60000))
	f.Add(int64(1796547900000), int64(1), -1e290, 1e290, int64(1000))
	f.Add(int64(253402300799000), int64(316224000000), 0.0, 5e-324, int64(86400000))
	f.Fuzz(func(t *testing.T, from, length int64, low, high float64, span int64) {
		if from < 0 || from > lastSecond*1000 || length < 1 || length > maxWindow.Milliseconds() || span < 1000 || span > 86400000 ||
			math.IsNaN(low+high) || math.Abs(low) > reading.MaxValue || math.Abs(high) > reading.MaxValue || low > high {
			t.Skip()
		}
		p := newPlotter(from, from+length, span)
		for i := range int64(3) {
			p.bucket(reading.Summary{Key: reading.Key{Start: from + i*length/3}, Count: 2, Sum: low + high, Min: low, Max: high})
		}
		c := p.chart("m", time.UTC)
		if len(c.YTicks) > 10 || len(c.XTicks) > 9 {
			t.Errorf("%d and %d ticks", len(c.XTicks), len(c.YTicks))
		}
		for _, text := range []string{c.Line, c.Band, c.Dots, c.Bars, fmt.Sprint(c.YTicks, c.XTicks)} {
			if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
				t.Errorf("%q is no path", text)
			}
		}
	})
}
