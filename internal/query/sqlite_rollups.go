package query

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/reading"
)

const (
	selectAllSummaries = `SELECT start, count, sum, min, max, isOutlier FROM buckets WHERE sensorId = ? AND metric = ? AND start >= ? AND start < ? AND count > 0 ORDER BY start`
	selectRollups      = `SELECT start, count, sum, min, max, NULL FROM rollups WHERE sensorId = ? AND metric = ? AND span = ? AND start >= ? AND start < ? ORDER BY start`
	selectNextRolled   = `SELECT metric FROM rollups WHERE sensorId = ? AND metric > ? ORDER BY metric LIMIT 1`
	selectProgress     = `SELECT _id, value FROM meta WHERE _id >= 'rollups' AND _id < 'rollupt'`
)

// Rollups implements Store.
func (s *SQLite) Rollups(ctx context.Context, q reading.Query, span reading.Span) ([]reading.Summary, error) {
	var found []reading.Summary
	err := s.read(ctx, func(c *sqliteConn) (err error) {
		found, err = rollups(sqliteSummaries{c}, q, span)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the roll-ups of %q: %w", q.Sensor, err)
	}
	return found, nil
}

// sqliteSummaries reads summaries for one answer.
type sqliteSummaries struct{ c *sqliteConn }

func (s sqliteSummaries) series(q reading.Query) ([]string, error) {
	metrics, err := s.c.metrics(q)
	if err != nil || q.Metric != "" {
		return metrics, err
	}
	// The buckets may be gone, and the roll-ups still there.
	for last, more := "", true; more; {
		more = false
		err := s.c.each(selectNextRolled, func(st *sqlite3.Stmt) error {
			last, more = st.ColumnText(0), true
			metrics = append(metrics, last)
			return nil
		}, q.Sensor, last)
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(metrics)
	return slices.Compact(metrics), nil
}

func (s sqliteSummaries) progress() (map[reading.Span]reading.Progress, error) {
	all := map[reading.Span]reading.Progress{}
	err := s.c.each(selectProgress, func(st *sqlite3.Stmt) error {
		name, number, _ := strings.Cut(st.ColumnText(0), ":")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil // nothing that we have written
		}
		p := all[reading.Span(n)]
		switch name {
		case "rollupsFrom":
			p.From = st.ColumnInt64(1)
		case "rollupsUntil":
			p.Until = st.ColumnInt64(1)
		}
		all[reading.Span(n)] = p
		return nil
	})
	return all, err
}

func (s sqliteSummaries) each(at reading.Series, span reading.Span, from, until int64, yield func(reading.Summary) error) error {
	k := reading.Key{Series: at}
	take := func(st *sqlite3.Stmt) error {
		k.Start = st.ColumnInt64(0)
		summary, err := readSummary(st, 1, k)
		if err != nil {
			return damaged(at, k.Start, err)
		}
		return yield(summary)
	}
	if span == 0 {
		return s.c.each(selectAllSummaries, take, at.Sensor, at.Metric, from, until)
	}
	return s.c.each(selectRollups, take, at.Sensor, at.Metric, int64(span), from, until)
}

// TTLIndexes implements Store: SQLite has none.
func (s *SQLite) TTLIndexes(context.Context) ([]TTLIndex, error) { return nil, nil }
