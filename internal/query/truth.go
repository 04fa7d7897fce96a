package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gudang/internal/reading"
)

// TruthReader reads what the sensors' documents are copies of.
type TruthReader interface {
	// NextSensor is the first sensor after the given id that has buckets, or
	// reading.ErrNotFound.
	NextSensor(ctx context.Context, after string) (string, error)
	// Newest is the newest n readings of a series, newest first. It reads no
	// more buckets than they lie in.
	Newest(ctx context.Context, s reading.Series, n int) ([]reading.Point, error)
	// Truth is the sensor's document as the buckets have it, with up to keep
	// points of each metric. It is reading.ErrNotFound if they have none.
	Truth(ctx context.Context, id string, keep int) (reading.Sensor, error)
}

// ends reads the two ends of the sensors' series.
type ends interface {
	metricsOf(sensor string) ([]string, error)
	newest(s reading.Series, n int) ([]reading.Point, error)
	// first is the time of the earliest reading; found says if there is one.
	first(s reading.Series) (at int64, found bool, err error)
}

// truthOf makes a sensor's document of its series. One metric after another is
// merged into it, so that it is bounded however many there are.
func truthOf(from ends, id string, keep int) (reading.Sensor, error) {
	var truth reading.Sensor
	metrics, err := from.metricsOf(id)
	if err != nil {
		return truth, err
	}
	for _, metric := range metrics {
		series := reading.Series{Sensor: id, Metric: metric}
		points, err := from.newest(series, max(1, keep))
		if err != nil {
			return truth, err
		}
		first, found, err := from.first(series)
		if err != nil {
			return truth, err
		}
		if !found || len(points) == 0 {
			continue // an outlier whose readings are not there yet
		}
		truth.Merge(reading.Sensor{
			ID: id, FirstSeen: first, LastSeen: points[0].Time, Metrics: map[string][]reading.Point{metric: points},
		}, max(1, keep))
	}
	if truth.ID == "" {
		return truth, fmt.Errorf("readings of sensor %q: %w", id, reading.ErrNotFound)
	}
	return truth, nil
}

// newestOf is the newest n of a bucket's readings, newest first. They lie in
// it in order of arrival.
func newestOf(start int64, offsets []int32, values []float64, n int) []reading.Point {
	points := make([]reading.Point, min(len(offsets), len(values)))
	for i := range points {
		points[i] = reading.Point{Time: start + int64(offsets[i]), Value: values[i]}
	}
	slices.SortStableFunc(points, func(a, b reading.Point) int { return cmp.Compare(b.Time, a.Time) })
	points = slices.CompactFunc(points, func(a, b reading.Point) bool { return a.Time == b.Time })
	return points[:min(len(points), n)]
}

// tail gathers the newest n readings of a series while its buckets are gone
// through from the newest start on.
type tail struct {
	n      int
	reach  int64 // how long a bucket's span may be
	points []reading.Point
}

// enough says whether no bucket that starts at start, or before, can hold
// anything that belongs to the newest.
func (t *tail) enough(start int64) bool {
	return len(t.points) == t.n && t.points[t.n-1].Time >= start+t.reach
}

// since is the earliest start that matters still.
func (t *tail) since() int64 {
	if len(t.points) < t.n {
		return minTime
	}
	return before(t.points[t.n-1].Time, t.reach-1)
}

// add takes over points, newest first. Of two with one time, that of the
// bucket that started first counts, which is what Readings answers.
func (t *tail) add(points []reading.Point) {
	t.points = reading.MergeLatest(points, t.points, t.n)
}

// minTime is before every time that MongoDB's dates and our ids can have.
const minTime = -1 << 52
