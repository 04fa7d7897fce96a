package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gudang/internal/query"
	"gudang/internal/reading"
	"gudang/internal/sink"
	"gudang/internal/upkeep"
)

// refresher compares sensors' documents with the buckets that they are copies
// of, and corrects them.
type refresher struct {
	query.TruthReader
	sink.Refresher
	keep int
}

// newRefresher makes one, unless the store keeps no buckets of ours.
func newRefresher(from query.Store, to sink.Store, keep int) (*refresher, bool) {
	reads, ok := from.(query.TruthReader)
	writes, ok2 := to.(sink.Refresher)
	return &refresher{reads, writes, keep}, ok && ok2
}

func (r *refresher) refresh(ctx context.Context, id string) (sink.Refreshed, error) {
	return r.RefreshSensor(ctx, id, r.keep, func(ctx context.Context) (reading.Sensor, error) {
		return r.Truth(ctx, id, r.keep)
	})
}

// openRefresh is the task that refreshes the sensors' documents once a day. It
// is nil where the store keeps no buckets of ours.
func (s *service) openRefresh(reg prometheus.Registerer) *upkeep.Refresh {
	r, ok := newRefresher(s.read, s.write, s.cfg.LatestReadings)
	if !ok || s.cfg.Buckets == bucketsTimeSeries {
		return nil
	}
	counted := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gudang_sensors_refreshed_total",
		Help: "Sensors' documents compared with the buckets by result: same; behind, it lacked readings; corrected; created, there was none; left, there are no buckets; failed.",
	}, []string{"result"})
	reg.MustRegister(counted)
	for _, result := range []string{sink.Same.String(), sink.Behind.String(), sink.Corrected.String(), sink.Created.String(), sink.Left.String(), "failed"} {
		counted.WithLabelValues(result)
	}
	return &upkeep.Refresh{
		Next:  r.NextSensor,
		Begin: s.sensors.Any,
		Log:   s.log,
		Do: func(ctx context.Context, id string) error {
			result, err := r.refresh(ctx, id)
			if err != nil {
				if ctx.Err() == nil {
					counted.WithLabelValues("failed").Inc()
				}
				return err
			}
			counted.WithLabelValues(result.String()).Inc()
			if result == sink.Corrected || result == sink.Created {
				s.log.Debug("sensor's document did not agree with the buckets", "sensor", id, "result", result.String())
			}
			return nil
		},
	}
}

// refreshReport is what ingest refresh found and did.
type refreshReport struct {
	Sensors   int      `json:"sensors"`
	Unchanged int      `json:"unchanged"`
	Behind    int      `json:"behind"` // nothing in it was wrong, but readings were missing
	Corrected int      `json:"corrected"`
	Created   int      `json:"created"`
	Failed    int      `json:"failed"`
	Errors    []string `json:"errors,omitempty"` // of the first few
	Seconds   float64  `json:"seconds"`
}

const refreshErrors = 10

func (r *refreshReport) add(result sink.Refreshed, err error) {
	r.Sensors++
	switch {
	case err != nil:
		r.Failed++
		if len(r.Errors) < refreshErrors {
			r.Errors = append(r.Errors, err.Error())
		}
	case result == sink.Behind:
		r.Behind++
	case result == sink.Corrected:
		r.Corrected++
	case result == sink.Created:
		r.Created++
	default:
		r.Unchanged++
	}
}

// runRefresh makes the sensors' documents what the buckets say.
func runRefresh(ctx context.Context, c *config, out io.Writer, args []string) error {
	set := newFlags("refresh")
	asJSON := set.Bool("json", false, "for programs")
	names, err := parseMixed(set, args)
	if err != nil {
		return err
	}
	if len(names) > 1 {
		fmt.Fprintf(set.Output(), "ingest refresh: give one sensor, or none to refresh all: %q is one too many\n", names[1])
		return errUsage
	}
	if c.Buckets == bucketsTimeSeries {
		return &settingError{"BUCKETS", errors.New("timeseries keeps no buckets of ours that the sensors' documents could be made again from")}
	}
	from, err := openReader(c)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := from.Ping(ctx); err != nil {
		return fmt.Errorf("cannot refresh %s: %w", c.storeName(), err)
	}
	to, err := openWriter(c, c.logger(os.Stderr))
	if err != nil {
		return err
	}
	defer to.Close()
	r, ok := newRefresher(from, to, c.LatestReadings)
	if !ok {
		return fmt.Errorf("cannot refresh %s: the store has no buckets of ours", c.storeName())
	}
	begun := time.Now()
	report, err := r.run(ctx, names, newRefreshProgress(set.Output()))
	if err != nil {
		return err
	}
	report.Seconds = time.Since(begun).Seconds()
	if *asJSON {
		err = json.NewEncoder(out).Encode(report)
	} else {
		err = report.writeText(out)
	}
	if err == nil && report.Failed > 0 {
		return errCheck
	}
	return err
}

// run refreshes the named sensor, or all.
func (r *refresher) run(ctx context.Context, names []string, p *refreshProgress) (report refreshReport, err error) {
	if len(names) == 1 {
		result, err := r.refresh(ctx, names[0])
		if err == nil && result == sink.Left {
			err = fmt.Errorf("sensor %q has no buckets: %w", names[0], reading.ErrNotFound)
		}
		if err != nil {
			return report, err
		}
		report.add(result, nil)
		return report, nil
	}
	defer p.clear()
	for after := ""; ; {
		next, err := r.NextSensor(ctx, after)
		if errors.Is(err, reading.ErrNotFound) {
			return report, nil
		}
		if err != nil {
			return report, fmt.Errorf("cannot go on after sensor %q: %w", after, err)
		}
		result, err := r.refresh(ctx, next)
		if ctx.Err() != nil {
			return report, fmt.Errorf("stopped after sensor %q: %w", after, ctx.Err())
		}
		report.add(result, err)
		after = next
		p.show(report, next)
	}
}

func (r refreshReport) counts() string {
	return fmt.Sprintf("%d sensors: %d unchanged, %d behind, %d corrected, %d created, %d failed", r.Sensors, r.Unchanged, r.Behind, r.Corrected, r.Created, r.Failed)
}

func (r refreshReport) writeText(out io.Writer) error {
	for _, e := range r.Errors {
		fmt.Fprintf(out, "%s\n", e)
	}
	if n := r.Failed - len(r.Errors); n > 0 {
		fmt.Fprintf(out, "and %d more\n", n)
	}
	_, err := fmt.Fprintf(out, "%s; %.1f s\n", r.counts(), r.Seconds)
	return err
}

// refreshProgress is one line that changes on a terminal, a line every few
// seconds elsewhere.
type refreshProgress struct {
	w          io.Writer
	every      time.Duration
	begin, end string
	shown      time.Time
}

func newRefreshProgress(w io.Writer) *refreshProgress {
	p := &refreshProgress{w: w, every: 5 * time.Second, end: "\n", shown: time.Now()}
	if f, ok := w.(*os.File); ok && isTerminal(f) {
		p.every, p.begin, p.end = 200*time.Millisecond, "\r\x1b[K", ""
	}
	return p
}

func (p *refreshProgress) show(r refreshReport, at string) {
	if now := time.Now(); now.Sub(p.shown) >= p.every {
		p.shown = now
		fmt.Fprintf(p.w, "%s%s; at %q%s", p.begin, r.counts(), at, p.end)
	}
}

// clear leaves nothing behind on a terminal.
func (p *refreshProgress) clear() { fmt.Fprint(p.w, p.begin) }
