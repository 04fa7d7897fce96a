package upkeep

import (
	"context"
	"log/slog"
	"time"

	"gudang/internal/reading"
)

// Deleter is the store that old readings are deleted from.
type Deleter interface {
	// Expire has the server delete what is older than these times, 0 for
	// never. It says whether the server does, and if not, why.
	Expire(ctx context.Context, buckets, raw time.Duration) (byServer bool, why string, err error)
	// DeleteBefore deletes what is older, in steps, and calls rest after each.
	DeleteBefore(ctx context.Context, kind reading.Kind, before int64, rest func(ctx context.Context, n int) error) error
	// SilentSensors lists sensors that have sent nothing since, by id.
	SilentSensors(ctx context.Context, before int64, after string, limit int) ([]string, error)
	// DeleteSensors deletes those of which nothing is stored any more.
	DeleteSensors(ctx context.Context, ids []string, before int64) ([]string, error)
}

// RetentionConfig is how long what is kept. 0 is for ever.
type RetentionConfig struct {
	Buckets time.Duration // buckets, and the readings of outliers
	Raw     time.Duration
	Rollups time.Duration
	Span    reading.Span // of buckets: so much older than its last reading is a bucket's start
	Longest reading.Span // of roll-ups, likewise; 0: there are none
	// Forget is told of each sensor that may be deleted, before it is.
	Forget func(sensor string)
	// Gone is told of each sensor that was.
	Gone  func(sensor string)
	Clock Clock
	Log   *slog.Logger
}

// Retention deletes what is old, or has the server do it.
type Retention struct {
	cfg     RetentionConfig
	store   Deleter
	metrics *retentionMetrics

	told     bool // the server was told what to delete
	byServer bool
}

// NewRetention makes the task. Run does it.
func NewRetention(cfg RetentionConfig, store Deleter, reg Registerer) *Retention {
	return &Retention{cfg: cfg, store: store, metrics: newRetentionMetrics(reg)}
}

const (
	sensorsAtOnce = 200
	mostBetween   = time.Hour
	leastBetween  = 10 * time.Second
)

// Run deletes until ctx ends.
func (r *Retention) Run(ctx context.Context) error {
	return repeat(ctx, r.cfg.Clock, r.cfg.Log, "retention", func(ctx context.Context) (time.Duration, error) {
		if err := r.Pass(ctx); err != nil {
			return 0, err
		}
		return r.between(), nil
	})
}

// between is how long after a pass the next one is: what is deleted is at most
// a tenth older than it may be, and never an hour.
func (r *Retention) between() time.Duration {
	between := mostBetween
	for _, d := range []time.Duration{r.cfg.Buckets, r.cfg.Raw, r.cfg.Rollups} {
		if d > 0 {
			between = min(between, d/10)
		}
	}
	return max(between, leastBetween)
}

// Pass deletes everything that is old now and is not the server's to delete.
func (r *Retention) Pass(ctx context.Context) error {
	if err := r.tell(ctx); err != nil {
		return err
	}
	now := r.cfg.Clock.Now()
	pace := newPacer(r.cfg.Clock)
	for _, k := range []struct {
		kind reading.Kind
		keep time.Duration
		span reading.Span // so long after its time is the last reading of it
		ours bool
	}{
		// Buckets first: one that is there has all of its readings.
		{reading.KindBuckets, r.cfg.Buckets, r.cfg.Span, !r.byServer},
		{reading.KindOverflow, r.cfg.Buckets, r.cfg.Span, !r.byServer},
		{reading.KindRaw, r.cfg.Raw, 0, !r.byServer},
		{reading.KindRollups, r.cfg.Rollups, r.cfg.Longest, true},
	} {
		if k.keep == 0 || !k.ours {
			continue
		}
		before := now.Add(-k.keep - k.span.Duration()).UnixMilli()
		err := r.store.DeleteBefore(ctx, k.kind, before, func(ctx context.Context, n int) error {
			r.metrics.deleted.WithLabelValues(string(k.kind)).Add(float64(n))
			return pace.rest(ctx)
		})
		if err != nil {
			return err
		}
	}
	if r.cfg.Buckets == 0 {
		return nil
	}
	return r.deleteSensors(ctx, now.Add(-r.cfg.Buckets).UnixMilli(), pace)
}

// tell has the server delete, once, and says in the log who does.
func (r *Retention) tell(ctx context.Context) error {
	if r.told {
		return nil
	}
	var buckets time.Duration
	if r.cfg.Buckets > 0 {
		buckets = r.cfg.Buckets + r.cfg.Span.Duration()
	}
	byServer, why, err := r.store.Expire(ctx, buckets, r.cfg.Raw)
	if err != nil {
		return err
	}
	r.told, r.byServer = true, byServer
	if r.cfg.Buckets == 0 && r.cfg.Raw == 0 && r.cfg.Rollups == 0 {
		return nil
	}
	who := "gudang"
	if byServer {
		who = "the server, by TTL indexes"
	}
	r.cfg.Log.Info("old readings are deleted", "retention", r.cfg.Buckets, "raw_retention", r.cfg.Raw, "rollup_retention", r.cfg.Rollups, "by", who, "why", why)
	return nil
}

// deleteSensors deletes the documents of sensors of which nothing is stored any
// more: they would count for the limit on sensors for ever.
func (r *Retention) deleteSensors(ctx context.Context, before int64, pace *pacer) error {
	for after := ""; ; {
		ids, err := r.store.SilentSensors(ctx, before, after, sensorsAtOnce)
		if err != nil || len(ids) == 0 {
			return err
		}
		after = ids[len(ids)-1]
		for _, id := range ids {
			r.cfg.Forget(id)
		}
		gone, err := r.store.DeleteSensors(ctx, ids, before)
		r.metrics.deleted.WithLabelValues("sensors").Add(float64(len(gone)))
		for _, id := range gone {
			r.cfg.Gone(id)
		}
		if err != nil {
			return err
		}
		if err := pace.rest(ctx); err != nil {
			return err
		}
	}
}
