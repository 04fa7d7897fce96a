package web

import (
	"context"
	"encoding/csv"
	"net/http"
	"strconv"
	"strings"
	"time"

	"gudang/internal/reading"
)

const (
	csvPage  = 5000             // readings read at once
	csvWrite = 30 * time.Second // for a client to take so many
)

// readingsCSV answers /api/v1/readings.csv: what /api/v1/readings has, without
// pages. It passes the gate for each piece that it reads, not for as long as
// the client takes to fetch them.
func (s *Server) readingsCSV(w http.ResponseWriter, r *http.Request) error {
	q, none, err := parseQuery(r.URL.RawQuery, readingsToken)
	if err != nil {
		return err
	}
	left := q.Limit
	if p, _ := parseParams(r.URL.RawQuery, "sensor", "metric", "from", "to", "limit", "after"); p["limit"] == "" {
		left = -1 // all of them
	}
	read := func() (found []reading.Reading, err error) {
		q.Limit = csvPage
		if left >= 0 {
			q.Limit = min(csvPage, left)
		}
		if none || q.Limit == 0 {
			return nil, nil
		}
		if found, err = s.readPage(r.Context(), q); err != nil {
			return nil, err
		}
		if left >= 0 {
			left -= len(found)
		}
		if none = len(found) < q.Limit; !none {
			last := found[len(found)-1]
			q.After = reading.Cursor{Time: last.Time, Metric: last.Metric}
		}
		return found, nil
	}
	first, err := read() // while an error can still be told
	if err != nil {
		return err
	}
	w.Header().Set("Content-Disposition", `attachment; filename="readings-`+fileName(q.Sensor)+`.csv"`)
	return s.answerAs(w, r, "text/csv; charset=utf-8; header=present", func(e *encoder) {
		s.writeCSV(w, r, e, first, read)
	})
}

// readPage reads readings through the gate, in the time that a query has.
func (s *Server) readPage(ctx context.Context, q reading.Query) ([]reading.Reading, error) {
	leave, err := s.gate.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, s.queryTimeout)
	defer cancel()
	return s.reader.Readings(ctx, q)
}

// writeCSV writes readings until there are no more (RFC 4180). An error breaks
// the connection: nothing else tells the client that it hasn't got all.
func (s *Server) writeCSV(w http.ResponseWriter, r *http.Request, e *encoder, found []reading.Reading, read func() ([]reading.Reading, error)) {
	deadline := http.NewResponseController(w)
	out := csv.NewWriter(e)
	out.UseCRLF = true
	out.Write([]string{"sensor", "metric", "time", "value"})
	for len(found) > 0 {
		deadline.SetWriteDeadline(time.Now().Add(csvWrite)) // what can't, has no deadline
		for _, v := range found {
			out.Write([]string{harmless(v.Sensor), v.Metric, utc(v.Time), strconv.FormatFloat(v.Value, 'g', -1, 64)})
		}
		out.Flush()
		if e.err != nil || r.Method == http.MethodHead {
			return
		}
		var err error
		if found, err = read(); err != nil {
			if r.Context().Err() == nil {
				s.log.Error("cannot answer from the store", "route", r.Pattern, "err", err, "unlogged", 0)
			}
			panic(http.ErrAbortHandler)
		}
	}
	out.Flush()
}

// Write lets other encoders write through this one.
func (e *encoder) Write(p []byte) (int, error) {
	e.buf = append(e.buf, p...)
	e.piece()
	return len(p), e.err
}

// harmless keeps a spreadsheet from taking a sensor's name for a formula: by
// the apostrophe it is a text.
func harmless(id string) string {
	if strings.ContainsRune("=+-@\t\r", rune(id[0])) {
		return "'" + id
	}
	return id
}

// fileName is what of an id every file system takes.
func fileName(id string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, id)
	return clean[:min(len(clean), 60)]
}
