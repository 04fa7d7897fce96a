// Package prom answers PromQL over what is stored, through Prometheus' own
// engine, in the form of Prometheus' HTTP API.
package prom

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"gudang/internal/reading"
)

// Reader is the part of the store that is answered from.
type Reader interface {
	// Sensors lists sensors in order of id, after the given one.
	Sensors(ctx context.Context, after string, limit int) ([]reading.Sensor, error)
	// Sensor is one of them, or reading.ErrNotFound.
	Sensor(ctx context.Context, id string) (reading.Sensor, error)
	// NewestAt is the newest reading of the series in [from, at], and what its
	// bucket has behind it. Stretch is its readings in [from, until), about
	// limit of them.
	NewestAt(ctx context.Context, s reading.Series, from, at int64) (reading.Stretch, error)
	Stretch(ctx context.Context, s reading.Series, from, until int64, limit int) (reading.Stretch, error)
}

// Summaries are what readings are summed up to, each over one span of time.
type Summaries struct {
	Span reading.Span
	// Read lists those of one series that start in the query's range, in order
	// of start.
	Read func(ctx context.Context, q reading.Query) ([]reading.Summary, error)
}

// Config is what an API is made from. All of it is needed.
type Config struct {
	Reader    Reader
	Summaries []Summaries // of different spans
	Unit      func(metric string) string
	Log       *slog.Logger
}

// The bounds on queries. A sample takes 16 bytes, so that the queries that run
// at one time can take some 300 MB at the very worst.
const (
	maxSamples = 5_000_000        // that a query may hold at one time
	maxSeries  = 100_000          // that a query may select
	maxTokens  = 3000             // words and signs of an expression
	maxPoints  = 11_000           // of a series in an answer, as Prometheus
	atOnce     = 4                // queries that run; the others wait
	lookback   = 5 * time.Minute  // how old a reading may be that still counts, as Prometheus
	timeout    = 2 * time.Minute  // as Prometheus; who serves the API has a shorter one
	subStep    = int64(60 * 1000) // of a subquery that names none, as Prometheus
)

// API answers the requests.
type API struct {
	reader    Reader
	summaries []Summaries
	unit      func(metric string) string
	parser    parser.Parser
	engine    *promql.Engine
	fleet     *fleet
	now       func() time.Time
}

// New prepares an API.
func New(c Config) *API {
	a := &API{reader: c.Reader, summaries: c.Summaries, unit: c.Unit, parser: parser.NewParser(parser.Options{}), fleet: newFleet(), now: time.Now}
	a.engine = promql.NewEngine(promql.EngineOpts{
		Logger:                   c.Log,
		MaxSamples:               maxSamples,
		Timeout:                  timeout,
		ActiveQueryTracker:       make(slots, atOnce),
		LookbackDelta:            lookback,
		NoStepSubqueryIntervalFn: func(int64) int64 { return subStep },
		EnableAtModifier:         true,
		EnableNegativeOffset:     true,
		Parser:                   a.parser,
	})
	return a
}

// slots bounds how many queries run at one time.
type slots chan struct{}

// GetMaxConcurrent implements promql.QueryTracker.
func (s slots) GetMaxConcurrent() int { return cap(s) }

// Insert waits for a free slot.
func (s slots) Insert(ctx context.Context, _ string) (int, error) {
	select {
	case s <- struct{}{}:
		return 0, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Delete frees a slot.
func (s slots) Delete(int) { <-s }

// Close implements io.Closer.
func (slots) Close() error { return nil }

// The times that stores are asked for: a few times 100,000 years about 1970,
// so that a span more is still a time.
const (
	minTime = -maxTime
	maxTime = math.MaxInt64 / 1000
)

func clamp(ms int64) int64 { return max(minTime, min(maxTime, ms)) }
