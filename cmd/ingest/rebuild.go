package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"gudang/internal/query"
	"gudang/internal/reading"
	"gudang/internal/rebuild"
)

// logOutput is where commands log to and show how far they are.
var logOutput io.Writer = os.Stderr

// instant is a flag that is a time.
type instant struct {
	time.Time
	given bool
}

func (i *instant) String() string { return "" }

func (i *instant) Set(text string) error {
	if s, err := strconv.ParseInt(text, 10, 64); err == nil {
		i.Time, i.given = time.Unix(s, 0), true
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return errors.New("must be a time such as 2026-03-14T09:27:00Z, or seconds since 1970")
	}
	i.Time, i.given = t, true
	return nil
}

// seriesName is a flag that names a series. A metric has no blank in it, a
// sensor's id may.
type seriesName struct{ reading.Series }

func (s seriesName) String() string { return strings.TrimSpace(s.Sensor + " " + s.Metric) }

func (s *seriesName) Set(text string) error {
	i := strings.LastIndexByte(text, ' ')
	if i < 1 {
		return errors.New("must be a sensor and a metric, such as \"S-01 temperature\"")
	}
	s.Sensor, s.Metric = text[:i], text[i+1:]
	return nil
}

// shellWord is a text as a shell takes it for one word.
func shellWord(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// runRebuild builds buckets from raw readings.
func runRebuild(ctx context.Context, c *config, out io.Writer, args []string) error {
	var from, to instant
	var after seriesName
	set := newFlags("rebuild")
	set.Var(&from, "from", "the `time` to begin with (default: the first raw reading)")
	set.Var(&to, "to", "the `time` to end before (default: behind the last raw reading)")
	set.Var(&after, "after", "only the series after \"`SENSOR METRIC`\", in their order")
	span := set.Duration("span", c.BucketSpan, "what a bucket covers, `BUCKET_SPAN` unless set")
	asJSON := set.Bool("json", false, "for programs")
	if err := parse(set, args); err != nil {
		return err
	}
	cfg, err := spanOf(set, c, *span)
	if err != nil {
		return err
	}
	cfg.After = after.Series
	store, err := openReader(c)
	if err != nil {
		return err
	}
	defer store.Close()
	raw, err := rangeOfRaw(ctx, c, store, &cfg, from, to)
	if err != nil {
		return err
	}
	var sum rebuild.Summary
	if cfg.From < cfg.To {
		if from.given || to.given || after.Sensor != "" {
			raw.Count = 0 // how much of it is in the range is not known
		}
		sum, err = rebuildRange(ctx, c, store, cfg, raw.Count)
	}
	if werr := printRebuilt(out, sum, cfg, err, *asJSON); werr != nil {
		return werr
	}
	switch {
	case err != nil && ctx.Err() == nil:
		return err
	case err != nil, sum.Refused > 0:
		return errCheck
	}
	return nil
}

// spanOf checks -span, and has the store opened with it.
func spanOf(set *flag.FlagSet, c *config, span time.Duration) (rebuild.Config, error) {
	checked, err := reading.NewSpan(span)
	if err != nil {
		fmt.Fprintf(set.Output(), "ingest rebuild: -span %v: must be from 1s to 24h and divide a day\n", span)
		return rebuild.Config{}, errUsage
	}
	if checked != c.span {
		fmt.Fprintf(logOutput, "ingest rebuild: BUCKET_SPAN is %v: the service must run with %v, or it will write buckets of both\n", c.BucketSpan, span)
	}
	c.span = checked
	return rebuild.Config{Span: checked}, nil
}

// rangeOfRaw sets the range that is rebuilt: whole spans, from and to where raw
// has readings, and nothing that is past its retention.
func rangeOfRaw(ctx context.Context, c *config, store query.Store, cfg *rebuild.Config, from, to instant) (query.Extent, error) {
	if err := store.Ping(ctx); err != nil {
		return query.Extent{}, fmt.Errorf("cannot rebuild from %s: %w", c.storeName(), err)
	}
	raw, err := store.RawExtent(ctx)
	if err != nil || raw.Count == 0 {
		return raw, err
	}
	cfg.From, cfg.To = cfg.Span.Start(raw.First), cfg.Span.Start(raw.Last)+int64(cfg.Span)
	if from.given {
		cfg.From = max(cfg.From, cfg.Span.Start(from.UnixMilli()))
	}
	if to.given {
		cfg.To = min(cfg.To, cfg.Span.Start(to.UnixMilli()-1)+int64(cfg.Span))
	}
	if c.Retention > 0 {
		cfg.From = max(cfg.From, cfg.Span.Start(time.Now().Add(-c.Retention).UnixMilli()))
	}
	return raw, nil
}

func rebuildRange(ctx context.Context, c *config, store query.Store, cfg rebuild.Config, total int64) (sum rebuild.Summary, err error) {
	w, err := newWriter(ctx, c, false)
	if err != nil {
		return rebuild.Summary{}, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	shown := newProgress(logOutput)
	defer shown.end()
	cfg.Progress = func(s rebuild.Summary) {
		part := -1.0
		if total > 0 {
			part = float64(s.Raw) / float64(total)
		}
		shown.show(part, "%d raw readings, %.0f/s, %d added; after %s", s.Raw, shown.rate(s.Raw), s.Added, seriesName{s.Done}.String())
	}
	return rebuild.Run(ctx, cfg, store, w)
}

func printRebuilt(out io.Writer, sum rebuild.Summary, cfg rebuild.Config, failed error, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(struct {
			OK   bool   `json:"ok"`
			From string `json:"from"`
			To   string `json:"to"`
			Span string `json:"span"`
			rebuild.Summary
			After string `json:"after"`
		}{failed == nil && sum.Refused == 0, clockTime(cfg.From), clockTime(cfg.To), duration(cfg.Span.Duration()), sum, seriesName{sum.Done}.String()})
	}
	if cfg.From >= cfg.To {
		_, err := fmt.Fprintln(out, "nothing to rebuild: raw has no readings there (RAW=true keeps them)")
		return err
	}
	fmt.Fprintf(out, "range      %s to %s, buckets of %s\nraw        %d readings of %d series\nadded      %d readings that buckets lacked\nmended     %d buckets that were wrong\n",
		clockTime(cfg.From), clockTime(cfg.To), duration(cfg.Span.Duration()), sum.Raw, sum.Series, sum.Added, sum.Mended)
	if sum.Moved > 0 {
		fmt.Fprintf(out, "moved      %d readings out of buckets of another span, %d of which are removed\n", sum.Moved, sum.Removed)
	}
	if sum.Outliers > 0 {
		fmt.Fprintf(out, "outliers   %d readings passed over: their buckets are outliers\n", sum.Outliers)
	}
	if sum.Refused > 0 {
		fmt.Fprintf(out, "refused    %d readings that the store will never take: the collection rejected says why\n", sum.Refused)
	}
	if failed != nil {
		fmt.Fprintln(out, "stopped    run it again: what is done stays done")
		if sum.Done != (reading.Series{}) {
			fmt.Fprintf(out, "           it may begin there: -after %s\n", shellWord(seriesName{sum.Done}.String()))
		}
	}
	return nil
}
