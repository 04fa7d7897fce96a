package prom

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// params reads the parameters of a request, whose form is parsed. Its error is
// that of the first that is wrong.
type params struct {
	r   *http.Request
	err error
}

func (p *params) fail(name string, err error) {
	if p.err == nil {
		p.err = badData("invalid parameter %q: %w", name, err)
	}
}

// limit is how many results are wanted; 0 for all.
func (p *params) limit() int {
	text := p.r.Form.Get("limit")
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err == nil && n < 0 {
		err = errors.New("limit must be non-negative")
	}
	if err != nil {
		p.fail("limit", err)
		return 0
	}
	return int(n)
}

func (p *params) time(name string, otherwise time.Time) time.Time {
	if p.r.Form.Get(name) == "" {
		return otherwise
	}
	return p.mustTime(name)
}

func (p *params) mustTime(name string) time.Time {
	t, err := parseTime(p.r.Form.Get(name))
	if err != nil {
		p.fail(name, err)
	}
	return t
}

// parseTime reads Unix seconds, of which it keeps ms, or RFC 3339.
func parseTime(s string) (time.Time, error) {
	var t time.Time
	seconds, err := strconv.ParseFloat(s, 64)
	if err == nil && math.Abs(seconds) <= maxTime/1000 {
		whole, part := math.Modf(seconds)
		t = time.Unix(int64(whole), int64(math.Round(part*1000))*int64(time.Millisecond)).UTC()
	} else if t, err = time.Parse(time.RFC3339Nano, s); err != nil {
		return t, fmt.Errorf("cannot parse %q to a valid timestamp", s)
	}
	return t, nil
}

// duration reads seconds or a duration such as 5m. Where there is none, or one
// that is not positive, another is taken: so does Prometheus.
func (p *params) duration(name string, otherwise time.Duration) time.Duration {
	text := p.r.Form.Get(name)
	if text == "" && otherwise > 0 {
		return otherwise
	}
	d, err := parseDuration(text)
	if err != nil {
		p.fail(name, err)
	}
	if d <= 0 {
		return otherwise
	}
	return d
}

func parseDuration(s string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil {
		ns := seconds * float64(time.Second)
		if !(math.Abs(ns) < math.MaxInt64) { // in this form also for NaN
			return 0, fmt.Errorf("cannot parse %q to a valid duration. It overflows int64", s)
		}
		return time.Duration(ns), nil
	}
	d, err := model.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("cannot parse %q to a valid duration", s)
	}
	return time.Duration(d), nil
}

// matchers reads the selectors in match[]. Without any there is one set, which
// matches everything.
func (p *params) matchers(parse parser.Parser) [][]*labels.Matcher {
	given := p.r.Form["match[]"]
	if len(given) == 0 {
		return [][]*labels.Matcher{nil}
	}
	sets, err := parse.ParseMetricSelectors(given)
	if err != nil {
		p.fail("match[]", err)
	}
	for _, set := range sets {
		if !slices.ContainsFunc(set, func(m *labels.Matcher) bool { return !m.Matches("") }) {
			p.fail("match[]", errors.New("match[] must contain at least one non-empty matcher"))
		}
	}
	return sets
}

func sortedKeys(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
