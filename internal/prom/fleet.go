package prom

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"gudang/internal/reading"
)

// The labels that a series can have, besides its name.
const (
	sensorLabel = "sensor"
	spanLabel   = "span"
)

// pageSize is how many sensors are listed at a time.
const pageSize = 1000

var (
	errEnough        = errors.New("enough")
	errTooManySeries = fmt.Errorf("the selectors match more than %d series in all: narrow them down, by sensor for instance", maxSeries)
)

// kind is what a series of summaries is made of. A series of readings has none.
type kind struct {
	suffix string
	span   string
	of     *Summaries
	value  func(*reading.Summary) float64
}

// key names a series.
type key struct {
	sensor string
	metric string
	kind   *kind
}

// Labels implements storage.Series.
func (k key) Labels() labels.Labels {
	if k.kind == nil {
		return labels.FromStrings(model.MetricNameLabel, k.metric, sensorLabel, k.sensor)
	}
	return labels.FromStrings(model.MetricNameLabel, k.metric+k.kind.suffix, sensorLabel, k.sensor, spanLabel, k.kind.span)
}

// labelNames are the labels that there are.
var labelNames = []string{model.MetricNameLabel, sensorLabel, spanLabel}

// label is the value of a label; empty where the series has none of that name.
func (k key) label(name string) string {
	switch {
	case name == model.MetricNameLabel && k.kind == nil:
		return k.metric
	case name == model.MetricNameLabel:
		return k.metric + k.kind.suffix
	case name == sensorLabel:
		return k.sensor
	case name == spanLabel && k.kind != nil:
		return k.kind.span
	}
	return ""
}

// compare orders series as their labels do.
func (k key) compare(o key) int {
	for _, name := range labelNames {
		if c := strings.Compare(k.label(name), o.label(name)); c != 0 {
			return c
		}
	}
	return 0
}

// kinds are what there is of each metric, the readings first.
func (a *API) kinds() []*kind {
	all := []*kind{nil}
	for _, st := range statistics {
		for i := range a.summaries {
			of := &a.summaries[i]
			all = append(all, &kind{":" + st.name, spanText(of.Span), of, st.value})
		}
	}
	return all
}

// spanText is a span as Prometheus writes a duration: 1m, 1h, 1d.
func spanText(s reading.Span) string { return model.Duration(s.Duration()).String() }

// member is what is needed to know of a sensor to list its series.
type member struct {
	id          string
	metrics     []string
	first, last int64
}

// each yields the series that match, in order of sensor, then metric. For a
// sensor and a name that are given it asks nobody, as its document may lag behind
// its readings, unless only what is there is of interest.
func (q *querier) each(ctx context.Context, matchers []*labels.Matcher, present bool, yield func(key) error) error {
	m := newMatching(q.api.kinds(), matchers)
	if !m.possible {
		return nil
	}
	visit := func(s member) error {
		if present && (s.first > q.maxt || s.last < q.mint) {
			return nil
		}
		return m.series(s, yield)
	}
	err := q.members(ctx, m, present, visit)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// members yields the sensors that may have series that match.
func (q *querier) members(ctx context.Context, m *matching, present bool, visit func(member) error) error {
	ids, fixed := m.ids()
	if !fixed {
		return q.wholeFleet(ctx, func(s member) error {
			if !m.sensor(s.id) {
				return nil
			}
			return visit(s)
		})
	}
	for _, id := range ids {
		if len(id) > reading.MaxSensorID || !utf8.ValidString(id) || !m.sensor(id) {
			continue // nothing of that name can be stored
		}
		if m.metric != "" && !present && utf8.ValidString(m.metric) {
			if err := visit(member{id: id, metrics: []string{m.metric}}); err != nil {
				return err
			}
			continue
		}
		s, err := q.api.reader.Sensor(ctx, id)
		if errors.Is(err, reading.ErrNotFound) {
			continue
		}
		if err != nil {
			return storeError{err}
		}
		if err := visit(newMember(s)); err != nil {
			return err
		}
	}
	return nil
}

// wholeFleet yields every sensor, the same ones throughout a query.
func (q *querier) wholeFleet(ctx context.Context, visit func(member) error) error {
	if q.fleet == nil {
		var err error
		if q.fleet, err = q.api.fleet.list(ctx, q.api.reader, q.api.now()); err != nil {
			return err
		}
	}
	for _, s := range *q.fleet {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := visit(s); err != nil {
			return err
		}
	}
	return nil
}

// fleetFresh is how long a list of the sensors is good for. A dashboard asks
// for all its panels at once, and the documents are some seconds old anyway.
const fleetFresh = 5 * time.Second

// fleet is the list of all sensors that was read last.
type fleet struct {
	lock    chan struct{} // holds a token while nobody reads
	at      time.Time
	members *[]member // nil: none was; never changed
}

func newFleet() *fleet {
	f := &fleet{lock: make(chan struct{}, 1)}
	f.lock <- struct{}{}
	return f
}

// list is the list, read again if it isn't fresh. One reads, the others wait.
func (f *fleet) list(ctx context.Context, store Reader, now time.Time) (*[]member, error) {
	select {
	case <-f.lock:
		defer func() { f.lock <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if f.members != nil && now.Sub(f.at) < fleetFresh {
		return f.members, nil
	}
	all := []member{}
	for after, more := "", true; more; {
		page, err := store.Sensors(ctx, after, pageSize)
		if err != nil {
			return nil, storeError{err}
		}
		for _, s := range page {
			all = append(all, newMember(s))
			after = s.ID
		}
		more = len(page) == pageSize
	}
	f.at, f.members = now, &all
	return f.members, nil
}

func newMember(s reading.Sensor) member {
	return member{id: s.ID, metrics: slices.Sorted(maps.Keys(s.Metrics)), first: s.FirstSeen, last: s.LastSeen}
}

// matching are the matchers of a selector, by what they are about.
type matching struct {
	possible bool   // no matcher wants a label that no series has
	metric   string // of the series, where the name is given
	names    []*labels.Matcher
	sensors  []*labels.Matcher
	spans    []*labels.Matcher
	kinds    []*kind
	byMetric map[string][]*kind // those of a metric that match
}

func newMatching(kinds []*kind, matchers []*labels.Matcher) *matching {
	m := &matching{possible: true, kinds: kinds, byMetric: make(map[string][]*kind)}
	for _, one := range matchers {
		switch one.Name {
		case model.MetricNameLabel:
			m.names = append(m.names, one)
			if one.Type == labels.MatchEqual && one.Value != "" {
				m.metric, _, _ = strings.Cut(one.Value, ":")
			}
		case sensorLabel:
			m.sensors = append(m.sensors, one)
		case spanLabel:
			m.spans = append(m.spans, one)
		default:
			m.possible = m.possible && one.Matches("")
		}
	}
	return m
}

// ids are the only sensors that can match, if the matchers name them.
func (m *matching) ids() (ids []string, fixed bool) {
	for _, one := range m.sensors {
		switch set := one.SetMatches(); {
		case one.Type == labels.MatchEqual:
			return []string{one.Value}, true
		case one.Type == labels.MatchRegexp && len(set) > 0:
			set = slices.Clone(set)
			slices.Sort(set)
			return slices.Compact(set), true
		}
	}
	return nil, false
}

func (m *matching) sensor(id string) bool { return id != "" && matches(m.sensors, id) }

// series yields those of the sensor's series whose name and span match.
func (m *matching) series(s member, yield func(key) error) error {
	for _, metric := range s.metrics {
		kinds, known := m.byMetric[metric]
		if !known {
			for _, k := range m.kinds {
				if k == nil && matches(m.names, metric) && matches(m.spans, "") ||
					k != nil && matches(m.names, metric+k.suffix) && matches(m.spans, k.span) {
					kinds = append(kinds, k)
				}
			}
			m.byMetric[metric] = kinds
		}
		for _, k := range kinds {
			if err := yield(key{s.id, metric, k}); err != nil {
				return err
			}
		}
	}
	return nil
}

func matches(all []*labels.Matcher, value string) bool {
	for _, m := range all {
		if !m.Matches(value) {
			return false
		}
	}
	return true
}
