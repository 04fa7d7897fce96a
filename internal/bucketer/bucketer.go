// Package bucketer merges readings into buckets in memory and decides when
// they are written: one write for many readings is what makes the service fast.
package bucketer

import (
	"context"
	"sync/atomic"
	"time"

	"gudang/internal/reading"
)

// Intake is where deliveries come from.
type Intake interface {
	// Ready has a value when there may be something to take.
	Ready() <-chan struct{}
	// Take moves what has arrived into into, whose memory is reused, and says
	// whether there is more to come: false once the intake has ended and
	// everything was taken.
	Take(into *reading.Batch) (more bool)
	// Done gives back the room of n deliveries that have ended.
	Done(n int)
}

// Sink is where buckets go.
type Sink interface {
	// Write stores the buckets and returns when each of their readings is
	// committed or refused. It keeps trying until ctx ends; after an error
	// nothing is known and nothing may be acknowledged. It does not keep the
	// buckets.
	Write(ctx context.Context, buckets []*reading.Bucket) ([]reading.Refusal, error)
}

// Config says when to flush.
type Config struct {
	Span            reading.Span
	ReadingInterval time.Duration // what a sensor is expected to send
	FlushInterval   time.Duration // how long a reading may wait in memory
	FlushReadings   int           // flush at this many
}

const (
	// quiet is how long the intake must be silent before unacknowledged
	// messages are flushed early. Mosquitto sends 20 messages and then waits
	// for their acks: a service that waits for its timer moves 20 a second.
	quiet = 3 * time.Millisecond
	// straggle is how long after the end of a span its last readings may take
	// to arrive.
	straggle = time.Second
	// gatherAhead and aheadMost bound what is gathered while a flush is under
	// way: so many times FlushReadings, or so much more than that.
	gatherAhead = 10
	aheadMost   = 100_000
)

// Bucketer is the stage between the intake and the sink. One flush is under
// way at a time; the next one gathers meanwhile, so that batches grow by
// themselves when the store is the bottleneck.
type Bucketer struct {
	cfg     Config
	intake  Intake
	sink    Sink
	sensors *Sensors
	metrics *metrics
	fill    *fill
	now     func() time.Time

	batch   reading.Batch
	gather  *gathering // fills up
	spare   *gathering // an emptied one, for its memory
	arrived time.Time  // when the intake last gave something
	open    atomic.Int64
}

// New makes a bucketer; Run runs it.
func New(cfg Config, intake Intake, sink Sink, sensors *Sensors, reg Registerer) *Bucketer {
	b := &Bucketer{cfg: cfg, intake: intake, sink: sink, sensors: sensors, now: time.Now, gather: newGathering(), spare: newGathering()}
	b.metrics = newMetrics(reg, func() float64 { return float64(b.open.Load()) })
	b.fill = newFill(cfg.Span, cfg.ReadingInterval, b.metrics.fill.Observe)
	return b
}

// flushed is a flush that has come back.
type flushed struct {
	g       *gathering
	refused []reading.Refusal
	took    time.Duration
	err     error
}

// Run works until the intake has ended and all that came from it is stored and
// acknowledged, or until ctx ends: then what is not stored stays unacknowledged
// and the broker has it still.
func (b *Bucketer) Run(ctx context.Context) error {
	var (
		back    = make(chan flushed, 1)
		writing bool
		more    = true
		timer   = time.NewTimer(time.Hour)
		sweep   = time.NewTicker(time.Second)
	)
	defer timer.Stop()
	defer sweep.Stop()
	for {
		ready := b.intake.Ready()
		if !more || b.gather.readings >= min(gatherAhead*b.cfg.FlushReadings, b.cfg.FlushReadings+aheadMost) {
			ready = nil
		}
		select {
		case <-ready:
			more = b.intake.Take(&b.batch)
			b.take()
		case f := <-back:
			writing = false
			if f.err != nil {
				return f.err
			}
			b.settle(f)
			b.spare = f.g
		case <-timer.C:
		case <-sweep.C:
			b.fill.sweep(b.now())
			b.open.Store(int64(b.fill.open()))
		case <-ctx.Done():
			if writing {
				<-back // the sink's Write ends with ctx
			}
			return ctx.Err()
		}
		if writing {
			continue
		}
		if !more && b.gather.empty() {
			b.fill.sweep(b.now())
			return nil
		}
		now := b.now()
		wait, due := b.due(now, more)
		if !due {
			timer.Reset(wait)
			continue
		}
		g := b.gather
		b.gather, b.spare = b.spare, nil
		writing = true
		go func() {
			begun := time.Now()
			var refused []reading.Refusal
			var err error
			if len(g.buckets) > 0 {
				refused, err = b.sink.Write(ctx, g.buckets)
			}
			back <- flushed{g, refused, time.Since(begun), err}
		}()
	}
}

// due says whether to flush now, and if not, how long it may wait.
func (b *Bucketer) due(now time.Time, more bool) (wait time.Duration, due bool) {
	g := b.gather
	switch {
	case g.empty():
		return time.Hour, false
	case !more || g.readings >= b.cfg.FlushReadings:
		return 0, true
	}
	wait = b.deadline(g.since).Sub(now)
	if g.unacked > 0 {
		wait = min(wait, b.arrived.Add(quiet).Sub(now))
	}
	return wait, wait <= 0
}

// deadline is when what has gathered since the given time is flushed at the
// latest. An interval that is as long as a span ends shortly after a bucket
// does, and not in its middle: then most buckets are written once.
func (b *Bucketer) deadline(since time.Time) time.Time {
	latest := since.Add(b.cfg.FlushInterval)
	if b.cfg.FlushInterval < b.cfg.Span.Duration() {
		return latest
	}
	passed := b.cfg.Span.Start(latest.Add(-straggle).UnixMilli())
	if end := time.UnixMilli(passed).Add(straggle); end.After(since) {
		return end
	}
	return latest
}

// take puts a batch into the buckets.
func (b *Bucketer) take() {
	batch, g := &b.batch, b.gather
	b.metrics.dropped(batch)
	if len(batch.Deliveries) == 0 {
		batch.Reset()
		return
	}
	b.arrived = b.now()
	if g.empty() {
		g.since = b.arrived
	}
	ms := b.arrived.UnixMilli()
	next := 0
	for i := range batch.Deliveries {
		d := &batch.Deliveries[i]
		n := g.deliver(d)
		for _, r := range batch.Readings[next : next+d.Readings] {
			b.add(n, r, ms)
		}
		next += d.Readings
	}
	batch.Reset()
}

// add puts reading r of delivery n into its bucket.
func (b *Bucketer) add(n int32, r reading.Reading, now int64) {
	g := b.gather
	key := reading.Key{Series: r.Series, Start: b.cfg.Span.Start(r.Time)}
	o := g.open[key]
	if o == nil {
		if !b.sensors.Admit(r.Sensor) {
			g.tally[n] |= refusedSome
			b.metrics.rejected.inc(reading.TooManySensors)
			return
		}
		o = g.add(key)
		o.fill = b.fill.touch(key, b.arrived)
	}
	switch o.Add(r.Time, r.Value) {
	case reading.Added:
		o.from = append(o.from, n)
		g.tally[n] += storedOne
		g.readings++
		if key.Start+int64(b.cfg.Span) <= now {
			b.metrics.late.Inc()
		}
	case reading.Duplicate:
		g.tally[n] |= repeatedSome
		b.metrics.duplicate.Inc()
	case reading.Conflict:
		g.tally[n] |= refusedSome
		b.metrics.rejected.inc(reading.ValueConflict)
	}
}

// settle counts what became of a flush, acknowledges its messages in the order
// of their arrival (MQTT 3.1.1, [MQTT-4.6.0-2]) and empties it.
func (b *Bucketer) settle(f flushed) {
	g, m := f.g, b.metrics
	for _, r := range f.refused {
		o := g.open[r.Bucket.Key()]
		i := o.Find(r.Offset)
		if i < 0 || o.refused[r.Offset] {
			continue
		}
		o.refuse(r.Offset)
		n := o.from[i]
		g.tally[n] -= storedOne
		switch r.Verdict {
		case reading.Duplicate:
			g.tally[n] |= repeatedSome
			m.duplicate.Inc()
		case reading.Conflict:
			g.tally[n] |= refusedSome
			m.rejected.inc(reading.ValueConflict)
		default:
			g.tally[n] |= refusedSome
			m.rejected.inc(r.Reason)
		}
	}
	now := b.now()
	ms, total := now.UnixMilli(), 0
	for _, o := range g.list {
		stored := o.Count() - len(o.refused)
		total += stored
		b.fill.add(o.fill, stored, now)
		for _, off := range o.Offsets {
			if !o.refused[off] {
				m.lag.Observe(float64(ms-o.Start-int64(off)) / 1000)
			}
		}
	}
	m.stored.Add(float64(total))
	if len(g.list) > 0 {
		m.flushSeconds.Observe(f.took.Seconds())
		m.flushReadings.Observe(float64(g.readings))
	}
	var outcomes [reading.Rejected + 1]int
	for i := range g.deliveries {
		d := &g.deliveries[i]
		outcomes[g.outcome(i)]++
		d.Done()
	}
	for o, n := range outcomes {
		if n > 0 {
			m.messages[reading.Outcome(o)].Add(float64(n))
		}
	}
	b.intake.Done(len(g.deliveries))
	b.open.Store(int64(b.fill.open()))
	g.reset()
}
