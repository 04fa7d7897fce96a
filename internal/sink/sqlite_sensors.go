package sink

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/reading"
	"gudang/internal/sqlite"
)

const (
	selectSensor = `SELECT firstSeen, lastSeen, metrics, outlierUntil FROM sensors WHERE _id = ?`
	upsertSensor = `INSERT INTO sensors (_id, firstSeen, lastSeen, metrics, outlierUntil) VALUES (?, ?, ?, ?, nullif(?, 0))
		ON CONFLICT (_id) DO UPDATE SET firstSeen = excluded.firstSeen, lastSeen = excluded.lastSeen, metrics = excluded.metrics, outlierUntil = excluded.outlierUntil`
)

// CreateSensors implements Store. Looking whether they are there costs next to
// nothing here.
func (s *SQLite) CreateSensors(ctx context.Context, sensors []reading.Sensor, keep int) error {
	return s.MergeSensors(ctx, sensors, keep)
}

// MergeSensors implements Store.
func (s *SQLite) MergeSensors(ctx context.Context, sensors []reading.Sensor, keep int) error {
	if len(sensors) == 0 {
		return nil
	}
	err := s.inTransaction(ctx, func(c *sqliteConn) error {
		for _, sensor := range sensors {
			if err := c.mergeSensor(sensor, keep); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot write %d sensors to the embedded store: %w", len(sensors), err)
	}
	return nil
}

func (c *sqliteConn) mergeSensor(sensor reading.Sensor, keep int) error {
	st, found, err := c.query(selectSensor, sensor.ID)
	if err != nil {
		return err
	}
	var merged reading.Sensor
	if found {
		merged = decodeSensor(st, sensor.ID)
		if err := st.Reset(); err != nil {
			return err
		}
	}
	merged.Merge(sensor, max(keep, 1))
	text, err := encodeMetrics(merged.Metrics, keep)
	if err != nil {
		return err
	}
	return c.exec(upsertSensor, merged.ID, merged.FirstSeen, merged.LastSeen, text, merged.OutlierUntil)
}

// metricDoc is a metric in the stored document. Its time and value are those
// of the newest point; without a list they are all there is.
type metricDoc struct {
	Time   int64      `json:"time"`
	Value  double     `json:"value"`
	Latest []pointDoc `json:"latest,omitempty"`
}

type pointDoc struct {
	Time  int64  `json:"time"`
	Value double `json:"value"`
}

// double is a number that says in JSON that it is no integer.
type double float64

// MarshalJSON implements json.Marshaler.
func (d double) MarshalJSON() ([]byte, error) { return sqlite.AppendDouble(nil, float64(d)), nil }

func encodeMetrics(metrics map[string][]reading.Point, keep int) ([]byte, error) {
	docs := make(map[string]metricDoc, len(metrics))
	for name, points := range metrics {
		if len(points) == 0 {
			continue
		}
		doc := metricDoc{Time: points[0].Time, Value: double(points[0].Value)}
		for _, p := range points[:min(keep, len(points))] {
			doc.Latest = append(doc.Latest, pointDoc{p.Time, double(p.Value)})
		}
		docs[name] = doc
	}
	return json.Marshal(docs)
}

// decodeSensor reads a sensor's row. What is damaged in it counts as not
// there: the document is a copy, and what it lacks comes with later readings.
// Failing instead would have the service try for ever.
func decodeSensor(st *sqlite3.Stmt, id string) reading.Sensor {
	var docs map[string]metricDoc
	if st.ColumnType(0) != sqlite3.INTEGER || st.ColumnType(1) != sqlite3.INTEGER || json.Unmarshal(st.ColumnRawText(2), &docs) != nil {
		return reading.Sensor{}
	}
	sensor := reading.Sensor{
		ID: id, FirstSeen: st.ColumnInt64(0), LastSeen: st.ColumnInt64(1),
		Metrics: make(map[string][]reading.Point, len(docs)), OutlierUntil: st.ColumnInt64(3),
	}
	for name, doc := range docs {
		points := []reading.Point{{Time: doc.Time, Value: float64(doc.Value)}}
		if len(doc.Latest) > 0 {
			points = points[:0]
		}
		for _, p := range doc.Latest {
			points = append(points, reading.Point{Time: p.Time, Value: float64(p.Value)})
		}
		sensor.Metrics[name] = points
	}
	return sensor
}

const (
	// maxRejected is how many rejected readings are kept: enough to see what
	// is wrong, and no more than a few MB whatever arrives.
	maxRejected = 10_000
	maxDetail   = 500

	insertRejected = `INSERT OR REPLACE INTO rejected (sensorId, metric, time, value, reason, detail, at) VALUES (?, ?, ?, ?, ?, ?, ?)`
	trimRejected   = `DELETE FROM rejected WHERE _id <= (SELECT max(_id) FROM rejected) - ?`
)

// Reject implements Store. The newest maxRejected are kept, each once for a
// reason.
func (s *SQLite) Reject(ctx context.Context, rejected []Rejected) error {
	if len(rejected) == 0 {
		return nil
	}
	kept := rejected[max(0, len(rejected)-maxRejected):]
	err := s.inTransaction(ctx, func(c *sqliteConn) error {
		for _, r := range kept {
			err := c.exec(insertRejected, clip(r.Sensor, reading.MaxSensorID), clip(r.Metric, reading.MaxSensorID),
				r.Time, r.Value, string(r.Reason), clip(r.Detail, maxDetail), r.At)
			if err != nil {
				return err
			}
		}
		return c.exec(trimRejected, int64(maxRejected))
	})
	if err != nil {
		return fmt.Errorf("cannot record %d rejected readings in the embedded store: %w", len(rejected), err)
	}
	return nil
}

// clip cuts a text to n bytes and makes it one that every tool can show.
func clip(text string, n int) string {
	if len(text) > n {
		text = text[:n]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
}
