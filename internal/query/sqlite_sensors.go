package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/reading"
)

const (
	selectSensor    = `SELECT _id, firstSeen, lastSeen, metrics, outlierUntil FROM sensors WHERE _id = ?`
	selectSensors   = `SELECT _id, firstSeen, lastSeen, metrics, outlierUntil FROM sensors WHERE _id > ? ORDER BY _id LIMIT ?`
	selectSensorIDs = `SELECT _id FROM sensors WHERE _id > ? ORDER BY _id LIMIT ?`
)

// Sensors implements Store.
func (s *SQLite) Sensors(ctx context.Context, after string, limit int) ([]reading.Sensor, error) {
	var found []reading.Sensor
	err := s.read(ctx, func(c *sqliteConn) error {
		if limit <= 0 {
			return errNoLimit
		}
		return c.each(selectSensors, func(st *sqlite3.Stmt) error {
			sensor, err := readSensor(st)
			found = append(found, sensor)
			return err
		}, after, int64(limit))
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the sensors after %q: %w", after, err)
	}
	return found, nil
}

// Sensor implements Store.
func (s *SQLite) Sensor(ctx context.Context, id string) (reading.Sensor, error) {
	var sensor reading.Sensor
	found := false
	err := s.read(ctx, func(c *sqliteConn) error {
		return c.each(selectSensor, func(st *sqlite3.Stmt) (err error) {
			found = true
			sensor, err = readSensor(st)
			return err
		}, id)
	})
	if err == nil && !found {
		err = reading.ErrNotFound
	}
	if err != nil {
		return reading.Sensor{}, fmt.Errorf("cannot read the sensor %q: %w", id, err)
	}
	return sensor, nil
}

// SensorIDs implements Store.
func (s *SQLite) SensorIDs(ctx context.Context, yield func(id string) error) error {
	var stop error
	for after, n := "", scanChunk; n == scanChunk; {
		n = 0
		err := s.read(ctx, func(c *sqliteConn) error {
			return c.each(selectSensorIDs, func(st *sqlite3.Stmt) error {
				n++
				after = st.ColumnText(0)
				stop = yield(after)
				return stop
			}, after, int64(scanChunk))
		})
		if stop != nil {
			return stop
		}
		if err != nil {
			return fmt.Errorf("cannot read the ids of the sensors: %w", err)
		}
	}
	return nil
}

// metricDoc is a metric in a sensor's stored document: its newest point, and
// the list of the newest if there is one.
type metricDoc struct {
	Time   int64   `json:"time"`
	Value  float64 `json:"value"`
	Latest []struct {
		Time  int64   `json:"time"`
		Value float64 `json:"value"`
	} `json:"latest"`
}

var errDocument = errors.New("its stored document is damaged")

func readSensor(st *sqlite3.Stmt) (reading.Sensor, error) {
	var docs map[string]metricDoc
	sensor := reading.Sensor{ID: st.ColumnText(0), FirstSeen: st.ColumnInt64(1), LastSeen: st.ColumnInt64(2), OutlierUntil: st.ColumnInt64(4)}
	if err := json.Unmarshal(st.ColumnRawText(3), &docs); err != nil {
		return sensor, fmt.Errorf("%w: %q: %w", errDocument, sensor.ID, err)
	}
	sensor.Metrics = make(map[string][]reading.Point, len(docs))
	for name, doc := range docs {
		points := make([]reading.Point, 0, max(1, len(doc.Latest)))
		for _, p := range doc.Latest {
			points = append(points, reading.Point(p))
		}
		if len(points) == 0 {
			points = append(points, reading.Point{Time: doc.Time, Value: doc.Value})
		}
		sensor.Metrics[name] = points
	}
	return sensor, nil
}
