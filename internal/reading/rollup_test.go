package reading

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	aMinute = Span(60_000)
	anHour  = Span(3_600_000)
	aDay    = Span(86_400_000)
)

func TestParseRollups(t *testing.T) {
	for list, want := range map[string][]Span{
		"":              nil,
		" , ":           nil,
		"1h":            {anHour},
		"1h,1d":         {anHour, aDay},
		" 15m , 1h,7d ": {anHour / 4, anHour, 7 * aDay},
		"24h":           {aDay},
		"2m,1h30m":      {2 * aMinute, anHour + anHour/2},
	} {
		have, err := ParseRollups(list, aMinute)
		if err != nil || !slices.Equal(have, want) {
			t.Errorf("%q: %v, %v, want %v", list, have, err, want)
		}
	}
}

func TestParseRollupsRefuses(t *testing.T) {
	for list, why := range map[string]string{
		"hour":    "such as",
		"0":       "such as",
		"-1h":     "such as",
		"d":       "such as",
		"1.5d":    "such as",
		"9999d":   "such as",
		"100us":   "such as",
		"90s":     "multiple of BUCKET_SPAN",
		"1m":      "multiple of BUCKET_SPAN",
		"7m":      "divide a day",
		"36h":     "divide a day",
		"1d,1h":   "longer than 1d",
		"1h,60m":  "longer than 1h",
		"1h,,1d,": "",
	} {
		_, err := ParseRollups(list, aMinute)
		if (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", list, err, why)
		}
	}
}

func FuzzParseRollups(f *testing.F) {
	for _, seed := range []string{"1h,1d", "15m", "7d", "1h30m", "d", "-1d", "9223372036854775807d", "1e3h"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		spans, err := ParseRollups(list, aMinute)
		if err != nil {
			return
		}
		for i, s := range spans {
			if s <= aMinute || s%aMinute != 0 || i > 0 && s <= spans[i-1] {
				t.Fatalf("%q: %v", list, spans)
			}
			if back, err := ParseSpan(s.String()); err != nil || back != s {
				t.Fatalf("%v is read as %v, %v", s, back, err)
			}
		}
	})
}

func TestSourceOf(t *testing.T) {
	spans := []Span{anHour, 90 * aMinute, aDay, 7 * aDay}
	for span, want := range map[Span]Span{anHour: 0, 90 * aMinute: 0, aDay: 90 * aMinute, 7 * aDay: aDay} {
		if have := SourceOf(span, spans); have != want {
			t.Errorf("%v is made of %v, want %v", span, have, want)
		}
	}
}

func TestWindowIDsAreOfTheirTimeAndApart(t *testing.T) {
	start := time.Date(2026, 12, 6, 9, 0, 0, 0, time.UTC).UnixMilli()
	s := Series{"S-01", "temperature"}
	seen := map[[16]byte]string{s.ID(start): "bucket"}
	for name, id := range map[string][16]byte{
		"hour": s.WindowID(start, anHour), "day": s.WindowID(start, aDay), "next": s.WindowID(start+int64(anHour), anHour),
		"other": Series{"S-02", "temperature"}.WindowID(start, anHour),
	} {
		if seen[id] != "" {
			t.Errorf("%s and %s have one id", name, seen[id])
		}
		seen[id] = name
	}
	low, id, high := FirstID(start), s.WindowID(start, anHour), FirstID(start+1)
	if bytes.Compare(low[:], id[:]) >= 0 || bytes.Compare(id[:], high[:]) >= 0 {
		t.Errorf("%x is not between %x and %x", id, low, high)
	}
}

func TestSummariesMerge(t *testing.T) {
	var sum Summary
	for _, s := range []Summary{{}, {Count: 2, Sum: -3, Min: -2, Max: -1}, {Count: 0, Sum: 9, Min: 9, Max: 9}, {Count: 1, Sum: 4, Min: 4, Max: 4}} {
		sum.Merge(s)
	}
	if want := (Summary{Count: 3, Sum: 1, Min: -2, Max: 4}); sum != want {
		t.Errorf("%+v, want %+v", sum, want)
	}
	other := sum
	other.Sum += 1e-15
	if !sum.Same(other) {
		t.Error("a last bit makes another summary")
	}
	other.Sum = 1.001
	if sum.Same(other) {
		t.Error("another sum is the same")
	}
}
