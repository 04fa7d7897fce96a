package main

import (
	"slices"
	"strings"
	"testing"

	"gudang/internal/reading"
)

func TestWhatIsKept(t *testing.T) {
	for settings, why := range map[string]string{
		"RETENTION=2h ROLLUPS=1h,1d":   "", // days are made of hours
		"RETENTION=119m ROLLUPS=1h,1d": "RETENTION=1h59m0s: must be at least 2h0m0s",
		"RETENTION=24h ROLLUPS=1d":     "RETENTION=24h0m0s: must be at least 25h0m0s",
		"RETENTION=30s":                "RETENTION=30s: must be 0, to keep everything, or at least BUCKET_SPAN",
		"RETENTION=-1h":                "RETENTION=-1h0m0s: must be 0",
		"RETENTION=700000h":            "RETENTION=700000h0m0s: must be at most",
		"RAW_RETENTION=1s":             "RAW_RETENTION=1s: must be 0",
		"ROLLUPS=1h,1d RETENTION=720h ROLLUP_RETENTION=43800h": "",
		"ROLLUPS=1h,30d RETENTION=720h ROLLUP_RETENTION=720h":  "ROLLUP_RETENTION=720h0m0s: must be at least 721h0m0s",
		"ROLLUPS=1h ROLLUP_RETENTION=720h":                     "must be 0 or at least RETENTION",
		"ROLLUPS=1h RETENTION=720h ROLLUP_RETENTION=24h":       "must be 0 or at least RETENTION (720h0m0s)",
		"ROLLUPS=90s":    "ROLLUPS=90s: 1m30s: must be a multiple of BUCKET_SPAN (1m)",
		"ROLLUPS=1m":     "multiple of BUCKET_SPAN",
		"ROLLUPS=1d,1h":  "longer than 1d",
		"ROLLUPS=hourly": `"hourly": must be a time`,
		"ROLLUPS=1h BUCKET_SPAN=1h READING_INTERVAL=1m": "multiple of BUCKET_SPAN (1h)",
		"ROLLUPS=15m,1h,7d":                             "",
		"ROLLUP_RETENTION=soon":                         "must be a duration",
	} {
		_, err := loadConfig(strings.Fields(settings))
		switch {
		case (err == nil) != (why == ""):
			t.Errorf("%s: %v", settings, err)
		case err != nil && (!strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: %v, want %q", settings, err, why)
		}
	}
	c, err := loadConfig([]string{"ROLLUPS=1h,1d"})
	if want := []reading.Span{3_600_000, 86_400_000}; err != nil || !slices.Equal(c.rolled, want) {
		t.Errorf("rolled up to %v (%v)", c.rolled, err)
	}
}
