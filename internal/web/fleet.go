package web

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"gudang/internal/reading"
)

// The bounds on what is kept of the fleet in memory: about 10 MB for 10,000
// sensors of two metrics.
const (
	maxFleet      = 20000 // sensors
	maxRowMetrics = 12    // of a sensor, those heard last
	maxRowPoints  = 20    // of a metric
	fleetPage     = 1000  // sensors read at once
	fleetPeriod   = 2 * time.Second
	fleetShare    = 10               // reading it again takes one part in so many of the time
	fleetTimeout  = 30 * time.Second // to read all of it
	fleetPatience = 3                // periods for which the last copy is better than to wait
)

// fleet keeps a copy of every sensor's own document, so that a request can
// search and sort all of them and still cost no more than its page. The copy is
// read anew when somebody asks and it is older than a period, once for all who
// ask, and seldom enough that reading it is never the main thing that is done.
type fleet struct {
	reader Reader
	most   int

	mu     sync.Mutex
	last   *snapshot  // nil: none yet
	call   *fleetCall // under way
	closed bool
}

type fleetCall struct {
	cancel context.CancelFunc
	done   chan struct{}
	got    *snapshot
	err    error
}

var errStopping = &httpError{http.StatusServiceUnavailable, "the service is stopping"}

// get is the fleet as it was at most a few periods ago. With an error there
// may still be a snapshot: the last one that could be read.
func (f *fleet) get(ctx context.Context) (*snapshot, error) {
	f.mu.Lock()
	last, call := f.last, f.call
	var age time.Duration
	if last != nil {
		if age = time.Since(last.at); age < last.period() {
			f.mu.Unlock()
			return last, nil
		}
	}
	if f.closed {
		f.mu.Unlock()
		return last, errStopping
	}
	if call == nil {
		refreshing, cancel := context.WithTimeout(context.WithoutCancel(ctx), fleetTimeout)
		call = &fleetCall{cancel: cancel, done: make(chan struct{})}
		f.call = call
		go f.refresh(refreshing, call)
	}
	f.mu.Unlock()
	if last != nil && age < fleetPatience*last.period() {
		return last, nil
	}
	select {
	case <-call.done:
		if call.err != nil {
			return last, call.err
		}
		return call.got, nil
	case <-ctx.Done():
		return last, ctx.Err()
	}
}

// close ends the reading that is under way, and lets none begin: the store is
// closed after the server.
func (f *fleet) close(within time.Duration) {
	f.mu.Lock()
	f.closed = true
	call := f.call
	f.mu.Unlock()
	if call == nil {
		return
	}
	call.cancel()
	select {
	case <-call.done:
	case <-time.After(within):
	}
}

func (f *fleet) refresh(ctx context.Context, call *fleetCall) {
	defer call.cancel()
	defer func() {
		if v := recover(); v != nil {
			call.err = fmt.Errorf("reading the fleet panicked: %v", v)
		}
		f.mu.Lock()
		if call.err == nil {
			f.last = call.got
		}
		f.call = nil
		f.mu.Unlock()
		close(call.done)
	}()
	call.got, call.err = f.read(ctx)
}

// read makes a snapshot of the store.
func (f *fleet) read(ctx context.Context) (*snapshot, error) {
	begun := time.Now()
	snap := &snapshot{orders: map[order][]place{}}
	names := map[string]string{} // one copy of each metric's name
	for after := ""; ; {
		limit := min(fleetPage, f.most+1-len(snap.rows))
		found, err := f.reader.Sensors(ctx, after, limit)
		if err != nil {
			return nil, err
		}
		for i := range found {
			snap.rows = append(snap.rows, newRow(&found[i], names))
		}
		if len(snap.rows) > f.most {
			snap.rows, snap.more = snap.rows[:f.most], true
			break
		}
		if len(found) < limit {
			break
		}
		after = found[len(found)-1].ID
	}
	snap.finish()
	snap.at = time.Now()
	snap.took = snap.at.Sub(begun)
	return snap, nil
}

// row is a sensor in the snapshot.
type row struct {
	id      string
	folded  string // for the search
	last    int64
	outlier bool
	metrics []rowMetric // by name
	print   uint64      // another one when the sensor has said something
}

type rowMetric struct {
	name   string
	points []reading.Point // newest first
}

var printSeed = maphash.MakeSeed()

func newRow(s *reading.Sensor, names map[string]string) row {
	r := row{id: s.ID, folded: strings.ToLower(s.ID), last: s.LastSeen, outlier: s.Outlier()}
	r.metrics = make([]rowMetric, 0, len(s.Metrics))
	for name, points := range s.Metrics {
		if len(points) == 0 {
			continue // the subset is turned off
		}
		own, ok := names[name]
		if !ok {
			own = name
			names[name] = name
		}
		if len(points) > maxRowPoints {
			points = slices.Clone(points[:maxRowPoints])
		}
		r.metrics = append(r.metrics, rowMetric{own, points})
	}
	if len(r.metrics) > maxRowMetrics {
		slices.SortFunc(r.metrics, func(a, b rowMetric) int {
			return cmp.Or(cmp.Compare(b.points[0].Time, a.points[0].Time), cmp.Compare(a.name, b.name))
		})
		r.metrics = slices.Clone(r.metrics[:maxRowMetrics])
	}
	slices.SortFunc(r.metrics, func(a, b rowMetric) int { return cmp.Compare(a.name, b.name) })
	var h maphash.Hash
	h.SetSeed(printSeed)
	h.WriteString(r.id)
	maphash.WriteComparable(&h, r.last)
	maphash.WriteComparable(&h, r.outlier)
	for _, m := range r.metrics {
		h.WriteString(m.name)
		maphash.WriteComparable(&h, m.points[0])
	}
	r.print = h.Sum64()
	return r
}

// metric is the newest points of one of the sensor's metrics.
func (r *row) metric(name string) []reading.Point {
	for i := range r.metrics {
		if r.metrics[i].name == name {
			return r.metrics[i].points
		}
	}
	return nil
}

// snapshot is the fleet at a time. It does not change, but that orders are
// made when they are first asked for.
type snapshot struct {
	rows     []row // by id
	more     bool  // the store has sensors beyond these
	metrics  []metricCount
	outliers int
	print    uint64
	at       time.Time
	took     time.Duration

	mu     sync.Mutex
	orders map[order][]place
}

// metricCount is how many sensors have a metric.
type metricCount struct {
	name    string
	sensors int
}

// finish counts what is in the rows.
func (s *snapshot) finish() {
	counts := map[string]int{}
	for i := range s.rows {
		r := &s.rows[i]
		if r.outlier {
			s.outliers++
		}
		s.print = s.print*31 + r.print
		for _, m := range r.metrics {
			counts[m.name]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		s.metrics = append(s.metrics, metricCount{name, counts[name]})
	}
	slices.SortStableFunc(s.metrics, func(a, b metricCount) int { return cmp.Compare(b.sensors, a.sensors) })
}

// period is how old the snapshot may get before it is read again.
func (s *snapshot) period() time.Duration { return max(fleetPeriod, fleetShare*s.took) }

// row is the sensor of that id, or nil.
func (s *snapshot) row(id string) *row {
	i, ok := slices.BinarySearchFunc(s.rows, id, func(r row, id string) int { return cmp.Compare(r.id, id) })
	if !ok {
		return nil
	}
	return &s.rows[i]
}

// silent counts the sensors that have said nothing since then (ms).
func (s *snapshot) silent(since int64) int {
	places := s.order(order{by: bySeen})
	i, _ := slices.BinarySearchFunc(places, orderableInt(since), func(p place, key uint64) int { return cmp.Compare(p.key, key) })
	return i
}
