// Package sink is every write to the store. Each of them can be sent again
// without harm, so that a lost reply, a retry or a second instance changes
// nothing.
package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"gudang/internal/reading"
)

// Config is what a sink depends on.
type Config struct {
	Latest  int            // points of the subset for each metric; 0: only the newest
	Raw     bool           // keep every reading in raw too
	Rollups []reading.Span // what late readings outdate, ascending; none: nothing is marked
	Log     *slog.Logger
}

// Sink writes flushes to a store until they are committed, and keeps the
// sensors' documents near to what the buckets hold.
type Sink struct {
	store   Store
	log     *slog.Logger
	metrics *metrics
	latest  *latest
	raw     bool

	mu      sync.Mutex
	failure error     // why the last flush was not taken; nil when it was
	since   time.Time // of the failure
	silence error     // why the store does not answer when asked; nil when it does
	heard   time.Time // when it last took or answered anything
}

// New makes a sink over a store. Run must run beside Write.
func New(cfg Config, store Store, reg Registerer) *Sink {
	s := &Sink{store: newMarking(store, cfg.Rollups), log: cfg.Log, latest: newLatest(cfg.Latest), raw: cfg.Raw, silence: errors.New("it has not answered yet")}
	s.metrics = newMetrics(reg)
	return s
}

const (
	firstPause = 100 * time.Millisecond
	longPause  = 5 * time.Second
	logEvery   = 10 * time.Second
	// pingEvery is how often a store that nothing is written to is asked how it
	// is, and askTimeout how long it may take to answer.
	pingEvery  = 2 * time.Second
	askTimeout = 10 * time.Second
	// sweepEvery is how often buckets that have become outliers are looked for.
	sweepEvery = 2 * time.Second
	sweepLog   = time.Minute
)

// Write stores the buckets and returns when each of their readings is
// committed or refused. It tries until ctx ends.
func (s *Sink) Write(ctx context.Context, buckets []*reading.Bucket) ([]reading.Refusal, error) {
	var (
		refused []reading.Refusal
		unsure  map[*reading.Bucket]bool // sent before, with an unknown end
		left    = append([]*reading.Bucket(nil), buckets...)
		pause   = firstPause
		logged  time.Time
	)
	for attempt := 1; ; attempt++ {
		res := s.store.WriteBuckets(ctx, left)
		s.metrics.wrote(res.Writes)
		s.outliers(res.Outliers, res.Migrated)
		for _, r := range res.Refused {
			if r.Verdict == reading.Duplicate && unsure[r.Bucket] {
				continue // what is there is what an earlier attempt wrote: stored
			}
			refused = append(refused, r)
		}
		if len(res.Again) == 0 {
			s.succeeded(attempt)
			break
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("cannot store %d buckets: %w", len(res.Again), errors.Join(err, res.Err))
		}
		s.failed(res.Err)
		if now := time.Now(); now.Sub(logged) >= logEvery {
			logged = now
			s.log.Warn("store does not take a flush, trying again", "buckets", len(res.Again), "attempt", attempt, "error", res.Err)
		}
		if unsure == nil {
			unsure = make(map[*reading.Bucket]bool, len(res.Again))
		}
		for _, b := range res.Again {
			unsure[b] = true
		}
		left = append(left[:0], res.Again...)
		if err := rest(ctx, pause); err != nil {
			return nil, fmt.Errorf("cannot store %d buckets: %w", len(left), errors.Join(err, res.Err))
		}
		pause = min(2*pause, longPause)
	}
	s.reject(ctx, refused)
	stored := without(buckets, refused)
	if s.raw {
		if err := s.keepRaw(ctx, stored); err != nil {
			return nil, err
		}
	}
	if err := s.introduce(ctx, stored); err != nil {
		return nil, err
	}
	return refused, nil
}

// Know says that a sensor has its document already.
func (s *Sink) Know(id string) { s.latest.know(id) }

// Forget has the next reading of a sensor introduce it again: its document may
// be gone.
func (s *Sink) Forget(id string) { s.latest.forget(id) }

// introduce notes the newest points of the buckets, and stores the documents
// of sensors that are new to this process before their first readings count
// as stored: so a sensor that has readings is in the list of sensors, whatever
// crashes, and the limit on sensors holds over a restart.
func (s *Sink) introduce(ctx context.Context, buckets []*reading.Bucket) error {
	fresh := s.latest.note(buckets)
	for pause := firstPause; len(fresh) > 0; pause = min(2*pause, longPause) {
		err := s.store.CreateSensors(ctx, fresh, s.latest.keep)
		if err == nil {
			break
		}
		s.failed(err)
		s.log.Warn("store does not take new sensors, trying again", "sensors", len(fresh), "error", err)
		if stop := rest(ctx, pause); stop != nil {
			return fmt.Errorf("cannot store %d new sensors: %w", len(fresh), errors.Join(stop, err))
		}
	}
	if len(fresh) > 0 {
		s.succeeded(1)
	}
	s.latest.introduced(fresh)
	return nil
}

// rest waits before another attempt, or until ctx ends. Half of the pause is
// drawn: many instances must not come back together.
func rest(ctx context.Context, pause time.Duration) error {
	select {
	case <-time.After(pause/2 + rand.N(pause/2)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// without is the buckets as the store has them: without the readings that it
// refused. Copies of what it has may stay.
func without(buckets []*reading.Bucket, refused []reading.Refusal) []*reading.Bucket {
	drop := map[*reading.Bucket]map[int32]bool{}
	for _, r := range refused {
		if r.Verdict == reading.Duplicate {
			continue
		}
		if drop[r.Bucket] == nil {
			drop[r.Bucket] = map[int32]bool{}
		}
		drop[r.Bucket][r.Offset] = true
	}
	if len(drop) == 0 {
		return buckets
	}
	out := make([]*reading.Bucket, len(buckets))
	for i, b := range buckets {
		out[i] = b
		if drop[b] == nil {
			continue
		}
		out[i] = &reading.Bucket{Series: b.Series, Start: b.Start}
		for j, off := range b.Offsets {
			if !drop[b][off] {
				out[i].Add(b.Start+int64(off), b.Values[j])
			}
		}
	}
	return out
}

// reject records what the store will never take. Losing that record costs an
// operator some insight, and no readings: it is tried once.
func (s *Sink) reject(ctx context.Context, refused []reading.Refusal) {
	var list []Rejected
	now := time.Now().UnixMilli()
	for _, r := range refused {
		if r.Verdict != reading.Added {
			continue
		}
		b := r.Bucket
		list = append(list, Rejected{
			Reading: reading.Reading{Series: b.Series, Time: b.Start + int64(r.Offset), Value: b.Values[b.Find(r.Offset)]},
			Reason:  r.Reason, Detail: r.Detail, At: now,
		})
	}
	if len(list) == 0 {
		return
	}
	first := list[0]
	s.log.Error("store refused readings for good", "readings", len(list), "sensor", first.Sensor, "metric", first.Metric, "reason", first.Reason, "detail", first.Detail)
	if err := s.store.Reject(ctx, list); err != nil {
		s.log.Warn("cannot record rejected readings", "readings", len(list), "error", err)
	}
}

// Run writes the sensors' documents from time to time, and once more when ctx
// ends, until last ends. Beside that it asks the store how it is.
func (s *Sink) Run(ctx, last context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() { s.ask(ctx) })
	asking.Go(func() { s.sweep(ctx) })
	pause := latestEvery
	for {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			err := s.mergeLatest(last, true)
			if err != nil {
				s.log.Warn("cannot store the newest readings of the sensors, they are stored in the buckets", "error", err)
			}
			return nil
		}
		begun := time.Now()
		if err := s.mergeLatest(ctx, s.latest.few()); err != nil && ctx.Err() == nil {
			s.log.Warn("cannot store the newest readings of the sensors, trying again", "error", err)
		}
		// The copy must never cost a large part of what the truth costs.
		pause = max(latestEvery, 10*time.Since(begun))
	}
}

func (s *Sink) mergeLatest(ctx context.Context, all bool) error {
	for {
		sensors := s.latest.take(latestBatch, all)
		if len(sensors) == 0 {
			return nil
		}
		if err := s.store.MergeSensors(ctx, sensors, s.latest.keep); err != nil {
			s.latest.giveBack(sensors)
			return err
		}
	}
}

// outliers notes which buckets are outliers, for the documents of their sensors.
func (s *Sink) outliers(list []Outlier, migrated int) {
	s.metrics.outliers.Add(float64(migrated))
	for _, o := range list {
		s.latest.outlier(o)
	}
}

// sweep looks after the outliers from time to time.
func (s *Sink) sweep(ctx context.Context) {
	pause := sweepEvery
	var logged time.Time
	for {
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return
		}
		if s.Ready(ctx) != nil {
			continue
		}
		begun := time.Now()
		swept, err := s.store.Sweep(ctx)
		s.outliers(swept.Outliers, swept.Migrated)
		if swept.Migrated+swept.Settled > 0 {
			s.log.Debug("looked after outlier buckets", "migrated", swept.Migrated, "settled", swept.Settled)
		}
		if err != nil && ctx.Err() == nil && time.Since(logged) > sweepLog {
			logged = time.Now()
			s.log.Warn("cannot look after the outlier buckets, trying again", "error", err)
		}
		pause = max(sweepEvery, 10*time.Since(begun))
	}
}

// ask asks the store how it is while nothing is written that would tell.
func (s *Sink) ask(ctx context.Context) {
	for {
		s.mu.Lock()
		quiet := time.Since(s.heard) >= pingEvery
		s.mu.Unlock()
		if quiet {
			limited, cancel := context.WithTimeout(ctx, askTimeout)
			err := s.store.Ping(limited)
			cancel()
			if ctx.Err() != nil {
				return
			}
			s.answered(err)
		}
		select {
		case <-time.After(pingEvery):
		case <-ctx.Done():
			return
		}
	}
}

func (s *Sink) answered(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silence = err
	if err == nil {
		s.heard = time.Now()
	}
	s.showLocked()
}

func (s *Sink) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		s.since = time.Now()
	}
	s.failure = err
	s.showLocked()
}

func (s *Sink) succeeded(attempt int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		s.log.Info("store takes writes again", "after", time.Since(s.since).Round(time.Millisecond), "attempts", attempt)
	}
	s.failure, s.silence, s.heard = nil, nil, time.Now()
	s.showLocked()
}

func (s *Sink) showLocked() {
	up := 0.0
	if s.failure == nil && s.silence == nil {
		up = 1
	}
	s.metrics.up.Set(up)
}

// Ready says whether the store takes writes, and if not, why and since when.
func (s *Sink) Ready(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.failure != nil:
		return fmt.Errorf("store does not take writes since %s: %w", s.since.UTC().Format(time.RFC3339), s.failure)
	case s.silence != nil:
		return fmt.Errorf("store: %w", s.silence)
	}
	return nil
}
