package web

import (
	"net/url"
	"strings"
	"time"
)

// window is the time that a sensor's page shows.
type window struct {
	from, to int64  // ms; to is not included
	name     string // of one that ends now: a key of ranges; empty: a fixed one
}

// ranges are the windows that end now, shortest first.
var ranges = []struct {
	name, text string
	length     time.Duration
}{
	{"1h", "1 hour", time.Hour},
	{"6h", "6 hours", 6 * time.Hour},
	{"24h", "24 hours", day},
	{"7d", "7 days", 7 * day},
	{"30d", "30 days", 30 * day},
}

const (
	defaultRange = time.Hour
	maxWindow    = 3660 * day
	formTime     = "2006-01-02T15:04" // what an input of type datetime-local has
)

// parseWindow reads range, or from and to.
func parseWindow(p params, now time.Time, zone *time.Location) (window, error) {
	if p["from"] == "" && p["to"] == "" {
		return parseRange(p["range"], now)
	}
	w := window{to: now.UnixMilli()}
	var err error
	if p["to"] != "" {
		if w.to, err = parseFormTime(p["to"], zone); err != nil {
			return w, badRequest("to %q: %v", clip(p["to"]), err)
		}
	}
	w.from = w.to - defaultRange.Milliseconds()
	if p["from"] != "" {
		if w.from, err = parseFormTime(p["from"], zone); err != nil {
			return w, badRequest("from %q: %v", clip(p["from"]), err)
		}
	}
	switch {
	case w.from >= w.to:
		return w, badRequest("from must be before to")
	case w.to-w.from > maxWindow.Milliseconds():
		return w, badRequest("from and to are more than ten years apart")
	}
	w.from = max(w.from, 0) // nothing is stored from before 1970
	w.to = max(w.to, w.from+1)
	return w, nil
}

func parseRange(name string, now time.Time) (window, error) {
	to := now.UnixMilli()
	if name == "" {
		return window{to - defaultRange.Milliseconds(), to, ranges[0].name}, nil
	}
	for _, r := range ranges {
		if r.name == name {
			return window{to - r.length.Milliseconds(), to, r.name}, nil
		}
	}
	return window{}, badRequest("range %q: must be 1h, 6h, 24h, 7d or 30d", clip(name))
}

// parseFormTime reads a time as the API does, or as a form sends it: that is of
// the page's zone.
func parseFormTime(text string, zone *time.Location) (int64, error) {
	for _, layout := range []string{formTime, formTime + ":05"} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil && t.Year() > 0 {
			return t.UnixMilli(), nil
		}
	}
	return parseTime(text)
}

func (w window) length() int64 { return w.to - w.from }

// values are the parameters that ask for the window.
func (w window) values() url.Values {
	if w.name != "" {
		return url.Values{"range": {w.name}}
	}
	return url.Values{"from": {utc(w.from)}, "to": {utc(w.to)}}
}

// moved is the window by its own length earlier or later.
func (w window) moved(by int64) window {
	d := by * w.length()
	return window{from: max(0, w.from+d), to: max(1, w.to+d)}
}

// utc is a time in RFC 3339, with ms only where there are some.
func utc(ms int64) string {
	return strings.Replace(time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z"), ".000", "", 1)
}

// every is how many seconds a picture of the window stays good for: until there
// might be something new to see in it.
func (w window) every() int {
	if w.name == "" {
		return 0
	}
	return int(min(60, max(2, w.length()/1000/(5*chartSlots))))
}
