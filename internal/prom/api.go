package prom

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// result is what a request is answered with.
type result struct {
	encode      func(e *encoder) // the data
	annotations annotations.Annotations
	query       string // which the annotations are about
	close       func() // gives back the memory
}

var errTruncated = errors.New("results truncated due to limit")

// Serve answers a request, whose path begins behind /api/v1. It says what is
// wrong with one in the form of Prometheus; the error that it returns is the
// store's or the context's, and nothing is written then.
func (a *API) Serve(w http.ResponseWriter, r *http.Request) error {
	err := r.ParseForm()
	if err != nil {
		err = badData("error parsing form values: %w", err)
	}
	var res result
	if err == nil {
		res, err = a.route(r.URL.Path)(r)
	}
	if res.close != nil {
		defer res.close()
	}
	if err != nil {
		return fail(w, r, err)
	}
	success(w, res)
	return nil
}

func (a *API) route(path string) func(*http.Request) (result, error) {
	switch path {
	case "/query":
		return a.query
	case "/query_range":
		return a.queryRange
	case "/series":
		return a.series
	case "/labels":
		return a.labelNames
	case "/metadata":
		return a.metadata
	case "/status/buildinfo":
		return buildinfo
	}
	if name, ok := strings.CutPrefix(path, "/label/"); ok {
		if name, ok := strings.CutSuffix(name, "/values"); ok {
			return func(r *http.Request) (result, error) { return a.labelValues(r, name) }
		}
	}
	return func(*http.Request) (result, error) {
		return result{}, &apiError{notFound, errors.New("there is nothing here: docs/promql.md says what there is")}
	}
}

// query answers an expression at one time.
func (a *API) query(r *http.Request) (result, error) {
	p := params{r: r}
	limit, at := p.limit(), p.time("time", a.now())
	timeout, lookback := p.duration("timeout", timeout), p.duration("lookback_delta", lookback)
	if p.err != nil {
		return result{}, p.err
	}
	return a.execute(r, limit, timeout, lookback, func(ctx context.Context, q storage.Queryable, opts promql.QueryOpts) (promql.Query, error) {
		return a.engine.NewInstantQuery(ctx, q, opts, r.Form.Get("query"), at)
	})
}

// queryRange answers an expression at each step of a range.
func (a *API) queryRange(r *http.Request) (result, error) {
	p := params{r: r}
	limit, start, end := p.limit(), p.mustTime("start"), p.mustTime("end")
	step := p.duration("step", 0)
	timeout, lookback := p.duration("timeout", timeout), p.duration("lookback_delta", lookback)
	switch {
	case p.err != nil:
		return result{}, p.err
	case end.Before(start):
		return result{}, badData(`invalid parameter "end": end timestamp must not be before start time`)
	case step < time.Millisecond:
		return result{}, badData(`invalid parameter "step": zero or negative query resolution step widths are not accepted. Try a positive integer`)
	case end.Sub(start)/step > maxPoints:
		return result{}, badData("exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)")
	}
	return a.execute(r, limit, timeout, lookback, func(ctx context.Context, q storage.Queryable, opts promql.QueryOpts) (promql.Query, error) {
		return a.engine.NewRangeQuery(ctx, q, opts, r.Form.Get("query"), start, end, step)
	})
}

// execute runs a query. Its result stays valid until it is closed.
func (a *API) execute(r *http.Request, limit int, timeout, lookback time.Duration, prepare func(context.Context, storage.Queryable, promql.QueryOpts) (promql.Query, error)) (result, error) {
	if err := check(r.Form.Get("query")); err != nil {
		return result{}, badData(`invalid parameter "query": %w`, err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	q := &queryable{api: a, lookback: lookback.Milliseconds()}
	query, err := prepare(ctx, q, promql.NewPrometheusQueryOpts(false, lookback, nil))
	if err != nil {
		return result{}, badData(`invalid parameter "query": %w`, err)
	}
	res := query.Exec(ctx)
	out := result{annotations: res.Warnings, query: r.Form.Get("query"), close: query.Close}
	if res.Err != nil {
		return out, res.Err
	}
	if truncate(res, limit) {
		out.annotations.Add(errTruncated)
	}
	out.encode = func(e *encoder) { e.value(res.Value) }
	return out, nil
}

// check refuses an expression that is too long to be one of a person or a
// dashboard. The parser's time grows with the square of the depth, whatever the
// timeout, and the engine's stack with it: 64 KiB of parentheses are 8 s and
// 130 MB. A text in quotes counts once, as a regular expression may name a fleet.
func check(expression string) error {
	lexer := parser.Lex(expression)
	var item parser.Item
	for range maxTokens {
		if lexer.NextItem(&item); item.Typ == parser.EOF || item.Typ == parser.ERROR {
			return nil // the parser says what is wrong with it
		}
	}
	return fmt.Errorf("the expression has more than %d words and signs", maxTokens)
}

func truncate(res *promql.Result, limit int) bool {
	switch v := res.Value.(type) {
	case promql.Matrix:
		if limit > 0 && len(v) > limit {
			res.Value = v[:limit]
			return true
		}
	case promql.Vector:
		if limit > 0 && len(v) > limit {
			res.Value = v[:limit]
			return true
		}
	}
	return false
}

// listing is a request for what there is.
type listing struct {
	*querier
	sets  [][]*labels.Matcher // one at least
	limit int
}

func (a *API) listing(r *http.Request) (listing, error) {
	p := params{r: r}
	l := listing{limit: p.limit()}
	start, end := p.time("start", time.UnixMilli(minTime)), p.time("end", time.UnixMilli(maxTime))
	l.sets = p.matchers(a.parser)
	l.querier = &querier{queryable: &queryable{api: a}, mint: timestamp.FromTime(start), maxt: timestamp.FromTime(end)}
	return l, p.err
}

// all is what of each set of matchers yields, each once and in order, up to the
// limit.
func (l listing) all(of func(matchers []*labels.Matcher) ([]string, error)) (result, error) {
	union := make(map[string]bool)
	for _, set := range l.sets {
		found, err := of(set)
		if err != nil {
			return result{}, err
		}
		for _, s := range found {
			union[s] = true
		}
	}
	return l.strings(sortedKeys(union)), nil
}

func (l listing) strings(all []string) result {
	var out result
	if l.limit > 0 && len(all) > l.limit {
		all = all[:l.limit]
		out.annotations.Add(errTruncated)
	}
	out.encode = func(e *encoder) { e.strings(all) }
	return out
}

func (l listing) hints() *storage.LabelHints {
	if l.limit == 0 {
		return &storage.LabelHints{}
	}
	return &storage.LabelHints{Limit: l.limit + 1, LimitSmallest: true}
}

// labelNames answers which labels there are.
func (a *API) labelNames(r *http.Request) (result, error) {
	l, err := a.listing(r)
	if err != nil {
		return result{}, err
	}
	return l.all(func(set []*labels.Matcher) ([]string, error) {
		names, _, err := l.LabelNames(r.Context(), l.hints(), set...)
		return names, err
	})
}

// labelValues answers which values a label has.
func (a *API) labelValues(r *http.Request, name string) (result, error) {
	l, err := a.listing(r)
	if err != nil {
		return result{}, err
	}
	name = model.UnescapeName(name, model.ValueEncodingEscaping)
	if !model.UTF8Validation.IsValidLabelName(name) {
		return result{}, badData("invalid label name: %q", name)
	}
	return l.all(func(set []*labels.Matcher) ([]string, error) {
		values, _, err := l.LabelValues(r.Context(), name, l.hints(), set...)
		return values, err
	})
}

// series answers which series there are.
func (a *API) series(r *http.Request) (result, error) {
	if len(r.Form["match[]"]) == 0 {
		return result{}, badData("no match[] parameter provided")
	}
	l, err := a.listing(r)
	if err != nil {
		return result{}, err
	}
	hints := &storage.SelectHints{Start: l.mint, End: l.maxt, Func: seriesFunc}
	if l.limit > 0 {
		hints.Limit = l.limit + 1
	}
	sets := make([]storage.SeriesSet, len(l.sets))
	for i, set := range l.sets {
		sets[i] = l.Select(r.Context(), true, hints, set...)
	}
	merged := storage.NewMergeSeriesSet(sets, hints.Limit, storage.ChainedSeriesMerge)
	var found []labels.Labels
	for merged.Next() {
		found = append(found, merged.At().Labels())
	}
	if err := merged.Err(); err != nil {
		return result{}, err
	}
	var out result
	if l.limit > 0 && len(found) > l.limit {
		found = found[:l.limit]
		out.annotations.Add(errTruncated)
	}
	out.encode = func(e *encoder) { e.series(found) }
	return out, nil
}
