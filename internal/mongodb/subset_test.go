package mongodb

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/reading"
)

// The largest documents that sensors can have stay within the bound, and use
// most of it where they are cut.
func TestSensorDocumentsAreBounded(t *testing.T) {
	for _, c := range []struct {
		metrics, name, keep int
		points              int // that each metric keeps
	}{
		{1, 11, 1000, 1000},
		{4, 11, 1000, 415},
		{16, 20, 100, 100},
		{100, 20, 10, 10},
		{reading.MaxMetrics, 11, 10, 4},
		{reading.MaxMetrics, 128, 10, 1},
		{reading.MaxMetrics, 128, 1000, 1},
		{2 * reading.MaxMetrics, 128, 1000, 1},
	} {
		s := reading.Sensor{ID: strings.Repeat("s", reading.MaxSensorID), FirstSeen: 1, LastSeen: 2, OutlierUntil: 3}
		for m := range c.metrics {
			news := reading.Sensor{ID: s.ID, Metrics: map[string][]reading.Point{}}
			name := fmt.Sprintf("%0*d", c.name, m)
			for i := range c.keep {
				news.Metrics[name] = append(news.Metrics[name], reading.Point{Time: int64(c.keep - i), Value: -math.MaxFloat64})
			}
			s.Merge(news, c.keep)
		}
		doc := bson.Raw(AppendSensor(nil, s, c.keep))
		for name, points := range s.Metrics {
			if len(points) != c.points {
				t.Errorf("%+v: metric %s keeps %d points", c, name, len(points))
				break
			}
		}
		if len(doc) > reading.MaxSensorBytes || len(s.Metrics) != min(c.metrics, reading.MaxMetrics) {
			t.Errorf("%+v: a document of %d bytes with %d metrics", c, len(doc), len(s.Metrics))
		}
		if cut := c.points < c.keep && c.points > 1; cut && len(doc) < reading.MaxSensorBytes*3/4 {
			t.Errorf("%+v: cut to %d bytes, far below the bound", c, len(doc))
		}
		t.Logf("%d metrics, names of %d bytes, LATEST_READINGS=%d: %d bytes", c.metrics, c.name, c.keep, len(doc))
	}
}
