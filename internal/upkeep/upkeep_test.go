package upkeep

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"gudang/internal/reading"
)

const (
	anHour = reading.Span(3_600_000)
	aDay   = reading.Span(86_400_000)
)

// deleter is a store of which the tests say what is in it.
type deleter struct {
	byServer bool
	why      string
	fails    error

	told    [][2]time.Duration
	deleted map[reading.Kind]time.Duration // how old what was deleted is at least
	steps   int                            // of each DeleteBefore
}

func (d *deleter) Expire(_ context.Context, buckets, raw time.Duration) (bool, string, error) {
	d.told = append(d.told, [2]time.Duration{buckets, raw})
	return d.byServer, d.why, d.fails
}

func (d *deleter) DeleteBefore(ctx context.Context, kind reading.Kind, before int64, rest func(context.Context, int) error) error {
	d.deleted[kind] = time.Since(time.UnixMilli(before))
	for range d.steps {
		if err := rest(ctx, 10); err != nil {
			return err
		}
	}
	return d.fails
}

func (d *deleter) SilentSensors(context.Context, int64, string, int) ([]string, error) {
	return nil, d.fails
}

func (d *deleter) DeleteSensors(context.Context, []string, int64) ([]string, error) {
	return nil, d.fails
}

func retention(cfg RetentionConfig, d *deleter, log *bytes.Buffer) *Retention {
	d.deleted = map[reading.Kind]time.Duration{}
	cfg.Clock, cfg.Log, cfg.Span, cfg.Longest = RealClock(), slog.New(slog.NewTextHandler(log, nil)), 60_000, aDay
	cfg.Forget, cfg.Gone = func(string) {}, func(string) {}
	return NewRetention(cfg, d, prometheus.NewRegistry())
}

func TestWhoDeletesIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		cfg      RetentionConfig
		byServer bool
		want     string // in the log
		deleted  map[reading.Kind]time.Duration
	}{
		"nothing is": {RetentionConfig{}, true, "", nil},
		"the server": {RetentionConfig{Buckets: time.Hour, Raw: 2 * time.Hour, Rollups: 48 * time.Hour}, true, "by TTL indexes", map[reading.Kind]time.Duration{
			reading.KindRollups: 72 * time.Hour,
		}},
		"gudang": {RetentionConfig{Buckets: time.Hour, Raw: 2 * time.Hour}, false, "by=gudang why=because", map[reading.Kind]time.Duration{
			reading.KindBuckets: time.Hour + time.Minute, reading.KindOverflow: time.Hour + time.Minute, reading.KindRaw: 2 * time.Hour,
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			d := &deleter{byServer: c.byServer, why: map[bool]string{false: "because"}[c.byServer]}
			r := retention(c.cfg, d, &log)
			for range 2 {
				if err := r.Pass(t.Context()); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			if !strings.Contains(log.String(), c.want) || (log.Len() == 0) != (c.want == "") || len(d.told) != 1 {
				t.Errorf("%s: told %d times, log %q, want %q", name, len(d.told), &log, c.want)
			}
			if len(d.deleted) != len(c.deleted) {
				t.Errorf("%s: deleted %v, want %v", name, d.deleted, c.deleted)
			}
			for kind, age := range c.deleted {
				if d.deleted[kind] != age {
					t.Errorf("%s: %s of %v is deleted, want %v", name, kind, d.deleted[kind], age)
				}
			}
		})
	}
}

// It goes by the start of a bucket, which is a span older.
func TestTheServerIsToldWhenTheLastReadingIsOld(t *testing.T) {
	d := &deleter{byServer: true}
	r := retention(RetentionConfig{Buckets: time.Hour, Raw: 2 * time.Hour}, d, &bytes.Buffer{})
	if err := r.Pass(t.Context()); err != nil || d.told[0] != [2]time.Duration{time.Hour + time.Minute, 2 * time.Hour} {
		t.Errorf("told %v (%v)", d.told, err)
	}
}

func TestPassesComeAsOftenAsTheyMust(t *testing.T) {
	for keep, want := range map[time.Duration]time.Duration{0: time.Hour, time.Minute: 10 * time.Second, time.Hour: 6 * time.Minute, 720 * time.Hour: time.Hour} {
		r := &Retention{cfg: RetentionConfig{Buckets: keep}}
		if have := r.between(); have != want {
			t.Errorf("retention %v: a pass every %v, want %v", keep, have, want)
		}
	}
}

// A store that is away is tried again and again, and the log does not fill.
func TestAStoreThatIsAwayIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := &deleter{fails: errors.New("nobody there")}
		r := retention(RetentionConfig{Buckets: time.Hour}, d, &log)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(5*time.Minute - time.Second)
		synctest.Wait()
		if lines := strings.Count(log.String(), "nobody there"); len(d.told) < 20 || lines < 4 || lines > 6 {
			t.Errorf("tried %d times, %d lines in the log", len(d.told), lines)
		}
		begun := time.Now()
		stop()
		if err := <-ended; err != nil || time.Since(begun) > 0 {
			t.Errorf("it ended after %v with %v", time.Since(begun), err)
		}
	})
}

func TestATaskRestsAndStopsWithinAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deleter{steps: 1000}
		r := retention(RetentionConfig{Buckets: time.Hour}, d, &bytes.Buffer{})
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := r.Pass(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
		if n := testutil.ToFloat64(r.metrics.deleted.WithLabelValues("buckets")); n < 500 || n > 1010 {
			t.Errorf("%v documents were deleted in a second of steps of 10 ms", n)
		}
	})
}

func TestAPauseIsTwiceTheStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for step, want := range map[time.Duration]time.Duration{0: leastRest, 40 * time.Millisecond: 80 * time.Millisecond, time.Hour: mostRest} {
			p := newPacer(RealClock())
			time.Sleep(step)
			begun := time.Now()
			if err := p.rest(t.Context()); err != nil || time.Since(begun) != want {
				t.Errorf("after %v it rests %v, want %v", step, time.Since(begun), want)
			}
		}
	})
}

// roller is a store without buckets, which fails if it is told to.
type roller struct {
	Roller
	marks     []reading.Mark
	unsettled bool
	fails     error
	rolled    []reading.Window
	unmarked  int
}

func (r *roller) DropProgress(context.Context, []reading.Span) error { return r.fails }
func (r *roller) Progress(context.Context) (map[reading.Span]reading.Progress, error) {
	return map[reading.Span]reading.Progress{anHour: {Until: time.Now().UnixMilli()}, aDay: {Until: time.Now().UnixMilli()}}, nil
}

func (r *roller) Stale(_ context.Context, after reading.Mark, limit int) ([]reading.Mark, error) {
	for i, m := range r.marks {
		if after == (reading.Mark{}) || m == after {
			from := i
			if m == after {
				from++
			}
			return r.marks[from:min(len(r.marks), from+limit)], nil
		}
	}
	return nil, nil
}

func (r *roller) RollUpSeries(_ context.Context, w reading.Window, series []reading.Series) (int, []reading.Series, error) {
	r.rolled = append(r.rolled, w)
	if r.unsettled {
		return 0, series, nil
	}
	return len(series), nil, nil
}

func (r *roller) Unmark(_ context.Context, marks []reading.Mark) error {
	r.unmarked += len(marks)
	return nil
}

func TestMarksAreWorkedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &roller{unsettled: true}
		start := anHour.Start(time.Now().Add(-48 * time.Hour).UnixMilli())
		for i := range 2*marksAtOnce + 7 {
			store.marks = append(store.marks, reading.Mark{
				Key: reading.Key{Series: reading.Series{Sensor: "a", Metric: "m"}, Start: start - int64(i)*int64(anHour)}, Span: anHour, Token: int64(i),
			})
		}
		r := NewRollups(RollupsConfig{Spans: []reading.Span{anHour, aDay}, Clock: RealClock(), Log: slog.New(slog.DiscardHandler)}, store, prometheus.NewRegistry())
		pass := func(unmarked int, stale float64) {
			t.Helper()
			if _, err := r.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			if have := testutil.ToFloat64(r.metrics.stale); store.unmarked != unmarked || have != stale {
				t.Errorf("%d marks are removed, want %d; %v left, want %v", store.unmarked, unmarked, have, stale)
			}
		}
		all := len(store.marks)
		pass(0, float64(all)) // they are new
		if len(store.rolled) > 0 {
			t.Error("a mark was not quiet and is worked off")
		}
		time.Sleep(reading.QuietFor)
		pass(0, float64(all)) // outliers that are not settled
		store.unsettled = false
		pass(all, 0)
		for _, w := range store.rolled {
			if w.Span == anHour && w.Source != 0 || w.Span == aDay && w.Source != anHour {
				t.Fatalf("window %+v", w)
			}
		}
	})
}

func TestAWindowThatMayStillBeRolledUpIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRollups(RollupsConfig{Spans: []reading.Span{anHour, aDay}, Buckets: 48 * time.Hour, Clock: RealClock()}, &roller{}, prometheus.NewRegistry())
		time.Sleep(13*time.Hour + 30*time.Minute) // it is midnight at first
		now := time.Now().UnixMilli()
		mark := func(start int64) []reading.Mark {
			return []reading.Mark{{Key: reading.Key{Start: start}, Span: anHour}}
		}
		for name, c := range map[string]struct {
			span  reading.Span
			from  int64
			start int64
			want  int
		}{
			"over for long":            {anHour, 0, anHour.Start(now) - 3*int64(anHour), 1},
			"not over":                 {anHour, 0, anHour.Start(now), 0},
			"its day is not over":      {aDay, 0, aDay.Start(now), 0},
			"its day is":               {aDay, 0, aDay.Start(now) - int64(anHour), 1},
			"its buckets are deleted":  {anHour, 0, anHour.Start(now) - 48*int64(anHour), 0},
			"its day is made of hours": {aDay, 0, aDay.Start(now) - 10*int64(aDay), 1},
			"before all":               {aDay, aDay.Start(now), aDay.Start(now) - int64(aDay), 0},
		} {
			if have := r.outdated(c.span, c.from, mark(c.start)); len(have) != c.want {
				t.Errorf("%s: %v", name, have)
			}
		}
	})
}
