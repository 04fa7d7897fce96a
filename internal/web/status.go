package web

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
)

// statusFor is how long a status is good for: however many look, the checks
// run once in that time.
const statusFor = time.Second

// status is how the service is, in words.
type status struct {
	Rate      string
	RateNow   bool   // there is a rate to show
	RateLine  string // the last minutes, as the path of an SVG of 100 by 30
	RateWords string
	Fill      string
	FillWords string
	Lag       string
	LagWords  string
	Parts     []part
	Bad       int // parts that aren't well
}

// part is one of the things that a check looks at.
type part struct {
	Name, Text string
	Well       bool
}

// statusCache makes the status at most once in statusFor.
type statusCache struct {
	mu   sync.Mutex
	last status
	at   time.Time
}

func (s *Server) status(ctx context.Context) status {
	c := &s.site.status
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() && time.Since(c.at) < statusFor {
		return c.last
	}
	v := s.site.pulse.vitals()
	c.last = v.words()
	for i, reason := range s.checked(context.WithoutCancel(ctx)) {
		name := s.health[i].check.Name
		p := part{Name: title(name), Text: title(strings.TrimLeft(strings.TrimPrefix(reason, name), ": ")), Well: reason == ""}
		if p.Well {
			p.Text = v.well(name)
		} else {
			c.last.Bad++
		}
		c.last.Parts = append(c.last.Parts, p)
	}
	c.at = time.Now()
	return c.last
}

// well is what is said of a part that has no reason for not being well.
func (v *vitals) well(name string) string {
	switch name {
	case "broker":
		if v.unacked > 0 {
			return "Connected, " + count(int(v.unacked)) + " in hand"
		}
		return "Connected"
	case "journal":
		if v.journal > 0 {
			return humanize.IBytes(uint64(v.journal)) + " wait for the store"
		}
		return "Empty"
	case "store":
		return "Takes writes"
	}
	return "Well"
}

func (v *vitals) words() status {
	s := status{Rate: "–", Fill: "–", Lag: "–", RateWords: "readings a second", FillWords: "no bucket has closed yet", LagWords: "nothing stored in the last minute"}
	if !math.IsNaN(v.rate) {
		s.Rate, s.RateNow = rateText(v.rate), true
		s.RateLine = sparkline(v.rates, true)
		s.RateWords = "a second, over " + strconv.Itoa(int((pulseRate * pulsePeriod).Seconds())) + " s"
	}
	if !math.IsNaN(v.fill) {
		s.Fill = strconv.Itoa(int(math.Round(100*v.fill))) + " %"
		s.FillWords = "of the readings expected, last 5 min"
		if v.wild {
			s.Fill, s.FillWords = "≤ "+s.Fill, "half of the buckets; some are far fuller"
		}
	}
	if !math.IsNaN(v.median) {
		s.Lag = seconds(v.median)
		s.LagWords = "half of them; 95 % within " + seconds(v.most)
	}
	return s
}

func rateText(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return count(int(math.Round(v)))
}

// seconds is a length of time to two digits.
func seconds(v float64) string {
	switch {
	case v < 0.9995:
		return strconv.Itoa(int(math.Round(v*1000))) + " ms"
	case v < 9.95:
		return strconv.FormatFloat(v, 'f', 1, 64) + " s"
	case v < 119.5:
		return strconv.Itoa(int(math.Round(v))) + " s"
	}
	return lasting(time.Duration(v * float64(time.Second)))
}

var timeUnits = []struct {
	name string
	len  time.Duration
}{{"d", day}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}}

// lasting is a length of time in its one largest unit.
func lasting(d time.Duration) string {
	for _, u := range timeUnits[:3] {
		if n := d / u.len; n >= 2 {
			return strconv.FormatInt(int64(n), 10) + " " + u.name
		}
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + " s"
}

// exactly is a length of time in the largest unit that it is whole in.
func exactly(d time.Duration) string {
	for _, u := range timeUnits {
		if d%u.len == 0 {
			return strconv.FormatInt(int64(d/u.len), 10) + " " + u.name
		}
	}
	return d.String()
}

// ago is how long before now a time (ms) was.
func ago(ms int64, now time.Time) string {
	d := now.Sub(time.UnixMilli(ms))
	switch {
	case d < -2*time.Second:
		return "in " + lasting(-d)
	case d < time.Second:
		return "now"
	}
	return lasting(d) + " ago"
}

// count is a number with its thousands set apart.
func count(n int) string { return humanize.Comma(int64(n)) }

// plural is a count with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

func title(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// value is a number as people read it: with so many decimals, or, if it is too
// large or too small for that, by its leading digits.
func value(v float64, decimals int) string {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= 1e7 || a != 0 && a < 0.005:
		return minus(strconv.FormatFloat(v, 'g', 4, 64))
	}
	return minus(strconv.FormatFloat(v+0, 'f', decimals, 64))
}

// minus puts the sign that is as wide as a digit.
func minus(s string) string { return strings.ReplaceAll(s, "-", "−") }

// decimals is how many a column of such values needs, at most two.
func decimals(values ...float64) int {
	most := 0
	for _, v := range values {
		_, fraction, _ := strings.Cut(strconv.FormatFloat(v, 'f', -1, 64), ".")
		if a := math.Abs(v); a < 1e7 && (a == 0 || a >= 0.005) {
			most = max(most, min(2, len(fraction)))
		}
	}
	return most
}

// sparkline is a line through values at even distances, as the path of an SVG
// of 100 by 30. From zero, or from the least of them.
func sparkline(values []float64, zero bool) string {
	if len(values) < 2 {
		return ""
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	if zero {
		low = min(0, low)
	}
	const top, height = 3, 24
	var b strings.Builder
	for i, v := range values {
		y := float64(top + height/2)
		if high > low {
			y = top + height*(high-v)/(high-low)
		} else if zero {
			y = top + height
		}
		cmd := byte('L')
		if i == 0 {
			cmd = 'M'
		}
		fmt.Fprintf(&b, "%c%.1f %.1f", cmd, 100*float64(i)/float64(len(values)-1), y)
	}
	return b.String()
}
