package fleet

import (
	"context"
	"time"
)

// patience is how short a wait is not worth sleeping for: at a high rate the
// messages go out in small groups.
const patience = 2 * time.Millisecond

// run is one run of a fleet.
type run struct {
	*Fleet
	pub  Publisher
	rec  Recorder
	sent int64     // for the pace
	base time.Time // when the first message of the pace was due
	over bool      // the last message has been made
}

// generate makes the messages in the order of simulated time and publishes
// them, each when it is due.
func (r *run) generate(ctx context.Context) error {
	var (
		perTick  = int64(len(r.slots))
		start    = r.cfg.Start.UnixMilli()
		interval = r.cfg.Interval.Milliseconds()
		now      = start
	)
	r.base = r.begun
	for seq := int64(0); r.cfg.Count == 0 || seq < r.cfg.Count; seq++ {
		tick, turn := seq/perTick, r.slots[seq%perTick]
		now = start + tick*interval + turn.offset
		if r.cfg.Count == 0 && r.cfg.Duration > 0 && now-start >= r.cfg.Duration.Milliseconds() {
			break
		}
		if err := r.release(ctx, now); err != nil {
			return err
		}
		if err := r.realTime(ctx, now); err != nil {
			return err
		}
		if err := r.turn(ctx, r.message(seq, turn, now), tick, turn.sensor); err != nil {
			return err
		}
	}
	r.over = true // what is still held back comes at once
	for i := range r.backlogs {
		if err := r.comeBack(ctx, i); err != nil {
			return err
		}
	}
	return r.release(ctx, now+lateTo.Milliseconds()+againTo.Milliseconds())
}

// message is the next message of a sensor.
func (r *run) message(seq int64, turn slot, now int64) *message {
	i := turn.sensor
	if turn.metric <= 0 { // else it was measured with the metric before
		r.samples[i] = r.sensors[i].sample(now)
	}
	o := observation{sensor: r.ids[i], time: now, metrics: r.cfg.Metrics, bad: -1, seq: seq}
	topic := r.topics[i][0]
	if turn.metric >= 0 {
		o.metrics = r.cfg.Metrics[turn.metric : turn.metric+1]
		topic = r.topics[i][turn.metric]
	}
	var values [3]float64
	for j := range o.metrics {
		values[j] = r.samples[i][r.columns[max(turn.metric, 0)+j]]
	}
	o.values = values[:len(o.metrics)]
	which := r.rng.IntN(len(o.metrics))
	if r.nan.pick(r.rng.Float64()) {
		o.bad = which
		r.nans.Add(1)
	}
	m := &message{seq: seq + 1, time: now, readings: o.readings()}
	m.Sensor, m.Topic, m.Payload = i, topic, r.format.encode(make([]byte, 0, 128), &o)
	return m
}

// turn decides what becomes of a message: it is published, kept by a sensor
// that is away, or held back.
func (r *run) turn(ctx context.Context, m *message, tick int64, sensor int) error {
	isLate := r.late.pick(r.rng.Float64())
	if r.away[sensor].away(tick) {
		r.backlogs[sensor] = append(r.backlogs[sensor], m)
		return nil
	}
	if err := r.comeBack(ctx, sensor); err != nil {
		return err
	}
	if isLate {
		r.held.hold(m, late, lateFrom, lateTo, r.rng, m.seq)
		return nil
	}
	return r.publish(ctx, m, first)
}

// comeBack publishes what a sensor kept while it was away, in one burst.
func (r *run) comeBack(ctx context.Context, sensor int) error {
	kept := r.backlogs[sensor]
	r.backlogs[sensor] = nil
	for _, m := range kept {
		if err := r.publish(ctx, m, backlog); err != nil {
			return err
		}
	}
	return nil
}

// release publishes what was held back until now.
func (r *run) release(ctx context.Context, now int64) error {
	for {
		h, ok := r.held.due(now)
		if !ok {
			return nil
		}
		if err := r.realTime(ctx, h.at); err != nil {
			return err
		}
		if err := r.publish(ctx, h.message, h.kind); err != nil {
			return err
		}
	}
}

// publish publishes a message, and decides whether it comes a second time.
func (r *run) publish(ctx context.Context, m *message, k kind) error {
	if err := r.send(ctx, m, k); err != nil {
		return err
	}
	if k == again || !r.duplicate.pick(r.rng.Float64()) {
		return nil
	}
	if r.rng.IntN(2) == 0 {
		return r.send(ctx, m, again)
	}
	r.held.hold(m, again, 0, againTo, r.rng, m.seq)
	return nil
}

// send hands a message over, at the pace that is set.
func (r *run) send(ctx context.Context, m *message, k kind) error {
	if err := r.pace(ctx); err != nil {
		return err
	}
	out := m.Message
	out.Done = func(err error) { r.done(m, err) }
	r.outstanding.Add(1)
	r.published.Add(1)
	if err := r.pub.Publish(ctx, out); err != nil {
		r.published.Add(-1)
		r.outstanding.Done()
		return err
	}
	switch k {
	case again:
		r.duplicates.Add(1)
		return nil
	case late:
		r.lates.Add(1)
	case backlog:
		r.backlogged.Add(1)
	}
	r.messages.Add(1)
	return nil
}

// done is told what became of a copy of a message.
func (r *run) done(m *message, err error) {
	defer r.outstanding.Done()
	if err != nil {
		r.fails.Add(1)
		return
	}
	r.acked.Add(1)
	if !m.recorded.CompareAndSwap(false, true) {
		return
	}
	r.readings.Add(int64(len(m.readings)))
	if r.rec == nil {
		return
	}
	if err := r.rec.Write(m.seq, m.readings...); err != nil {
		r.recordErr.CompareAndSwap(nil, &err)
	}
}

// pace waits until the next message is due at the rate that is set. Who was
// held up for long does not make up for it in one burst.
func (r *run) pace(ctx context.Context) error {
	if failed := r.recordErr.Load(); failed != nil {
		return *failed
	}
	if r.cfg.Rate == 0 {
		return ctx.Err()
	}
	due := r.base.Add(time.Duration(float64(r.sent) / r.cfg.Rate * float64(time.Second)))
	r.sent++
	if behind := r.cfg.Now().Sub(due); behind > time.Second {
		r.base = r.base.Add(behind)
	}
	return r.sleepUntil(ctx, due)
}

// realTime waits for simulated time, where that is real time.
func (r *run) realTime(ctx context.Context, at int64) error {
	if r.cfg.Count > 0 || r.over {
		return ctx.Err()
	}
	return r.sleepUntil(ctx, r.begun.Add(time.Duration(at-r.cfg.Start.UnixMilli())*time.Millisecond))
}

func (r *run) sleepUntil(ctx context.Context, t time.Time) error {
	d := t.Sub(r.cfg.Now())
	if d < patience {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
