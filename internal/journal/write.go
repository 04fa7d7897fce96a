package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gudang/internal/reading"
)

// Run takes what arrives, makes it durable, acknowledges it and hands it on,
// until the intake has ended and the next stage is done with all of it: then
// nothing is left to replay. When ctx ends first, it ends at once: what was
// acknowledged is in the journal, and the rest with the broker.
//
// No timer decides how much is synced together. While the disk syncs one
// group, the next one gathers upstream.
func (j *Journal) Run(ctx context.Context) error {
	j.stamps = nil
	for more := true; more; {
		select {
		case <-j.upstream.Ready():
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := j.waitForRoom(ctx, 1); err != nil {
			return err
		}
		more = j.upstream.Take(&j.batch)
		if err := j.commit(ctx, &j.batch); err != nil {
			return err
		}
	}
	j.mu.Lock()
	j.ended = true
	j.sealLocked()
	j.mu.Unlock()
	wake(j.ready)
	for !j.drained() {
		select {
		case <-j.freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	j.trim()
	return nil
}

func (j *Journal) drained() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.handed == j.appended && len(j.runs) == 0 && j.aside.empty()
}

// needsDisk says whether a message has what would be lost in a crash.
func needsDisk(d *reading.Delivery) bool { return d.Outcome == reading.Pending && d.Readings > 0 }

// part is a part of a batch that is written and synced together.
type part struct {
	deliveries []reading.Delivery
	readings   []reading.Reading
	messages   int // with readings
	stamped    bool
}

// commit makes a batch durable, part by part, and acknowledges it in order.
func (j *Journal) commit(ctx context.Context, b *reading.Batch) error {
	rest := part{deliveries: b.Deliveries, readings: b.Readings}
	for len(rest.deliveries) > 0 {
		var p part
		p, rest = j.encode(rest)
		if p.messages > 0 {
			if err := j.write(ctx, &p); err != nil {
				return err
			}
		}
		for i := range p.deliveries {
			p.deliveries[i].Done()
		}
		j.upstream.Done(len(p.deliveries))
		j.handOn(&p)
	}
	j.mu.Lock()
	j.aside.add(b)
	j.mu.Unlock()
	wake(j.ready)
	b.Reset()
	return nil
}

// encode encodes as much of what there is as may be written together.
func (j *Journal) encode(all part) (p, rest part) {
	e := j.enc
	e.buf = e.buf[:0]
	if cap(e.buf) > 2*j.lim.commit {
		e.buf = nil // that was a message of unusual size
	}
	n, open := 0, false
	for i := range all.deliveries {
		d := &all.deliveries[i]
		if needsDisk(d) {
			if len(e.buf) >= j.lim.commit {
				break
			}
			if open && e.size() >= j.lim.group {
				e.finish()
				open = false
			}
			if !open {
				e.begin(j.appended + uint64(p.messages))
				open = true
			}
			e.add(d, all.readings[n:n+d.Readings])
			p.messages++
			p.stamped = p.stamped || d.Hash != 0
		}
		n += d.Readings
		p.deliveries = all.deliveries[:i+1]
	}
	if open {
		e.finish()
	}
	p.readings = all.readings[:n]
	return p, part{deliveries: all.deliveries[len(p.deliveries):], readings: all.readings[n:]}
}

// handOn gives the next stage what is durable: in memory while there is room
// and nothing older waits on disk, else by leaving it there.
func (j *Journal) handOn(p *part) {
	j.mu.Lock()
	defer j.mu.Unlock()
	m := &j.memory
	onDisk := j.handed+uint64(len(m.Deliveries)) < j.appended
	written := int64(len(j.enc.buf))
	if p.messages > 0 {
		j.active.size += written
		j.active.stamped = j.active.stamped || p.stamped
		j.total += written
		j.appended += uint64(p.messages)
	}
	keep := !onDisk && len(m.Deliveries)+p.messages <= j.lim.deliveries && len(m.Readings)+len(p.readings) <= j.lim.readings
	if !keep && !onDisk && p.messages > 0 {
		j.at, j.offset = j.active, j.active.size-written
	}
	n := 0
	for i := range p.deliveries {
		d := &p.deliveries[i]
		if !needsDisk(d) {
			j.aside.deliveries[ending{d.Outcome, d.Reason}]++
		} else if keep {
			m.Deliveries = append(m.Deliveries, reading.Delivery{Readings: d.Readings})
			m.Readings = append(m.Readings, p.readings[n:n+d.Readings]...)
		}
		n += d.Readings
	}
	wake(j.ready)
}

const (
	firstPause = 100 * time.Millisecond
	longPause  = 5 * time.Second
)

// write makes what was encoded durable. It tries until it is, or ctx ends.
func (j *Journal) write(ctx context.Context, p *part) error {
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		if err := j.waitForRoom(ctx, len(j.enc.buf)); err != nil {
			return err
		}
		err := j.append()
		if err == nil {
			j.setProblem(nil)
			j.metrics.groupMessages.Observe(float64(p.messages))
			return nil
		}
		j.setProblem(err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// setProblem notes why the journal can't be written, and logs what is new.
func (j *Journal) setProblem(err error) {
	j.mu.Lock()
	was := j.problem
	j.problem = err
	j.mu.Unlock()
	switch {
	case err != nil && (was == nil || was.Error() != err.Error()):
		j.log.Error("journal can't be written, messages wait at the broker", "error", err)
	case err == nil && was != nil:
		j.log.Info("journal can be written again")
	}
}

// append writes and syncs what was encoded. After an error the file is not
// written to again: once a sync has failed, the kernel may have dropped what
// was to be written, and the next sync of that file says nothing of it.
func (j *Journal) append() error {
	j.mu.Lock()
	s := j.active
	if s != nil && s.size > 0 && s.size+int64(len(j.enc.buf)) > int64(j.lim.segment) {
		j.sealLocked()
		s = nil
	}
	j.mu.Unlock()
	if s == nil {
		var err error
		if s, err = j.create(); err != nil {
			return fmt.Errorf("disk: cannot create a file of the journal: %w", err)
		}
	}
	_, err := s.file.WriteAt(j.enc.buf, s.size)
	if err == nil {
		begun := time.Now()
		err = s.file.Sync()
		j.metrics.syncSeconds.Observe(time.Since(begun).Seconds())
	}
	if err != nil {
		j.abandon(s)
		return fmt.Errorf("disk: cannot write %q: %w", s.name, err)
	}
	return nil
}

// create begins a segment, whose name is durable before anything is in it.
func (j *Journal) create() (*segment, error) {
	s := &segment{name: segmentName(j.appended), first: j.appended}
	f, err := j.dir.Create(s.name)
	if err != nil {
		return nil, err
	}
	s.file = f
	if err := j.dir.Sync(); err != nil {
		j.discard(s)
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.active = s
	j.segments = append(j.segments, s)
	return s, nil
}

// abandon stops using the active segment, of which only what was synced before
// is believed. What was written since is cut off if possible. If not, a start
// finds messages there that were not acknowledged, or the same that were
// written again elsewhere under the same numbers: both change nothing.
func (j *Journal) abandon(s *segment) {
	j.mu.Lock()
	if s.size > 0 {
		j.sealLocked()
	} else {
		j.active, j.segments = nil, j.segments[:len(j.segments)-1]
	}
	j.mu.Unlock()
	if s.size == 0 {
		j.discard(s)
	} else if err := errors.Join(s.file.Truncate(s.size), s.file.Sync()); err != nil {
		j.log.Warn("cannot cut off what could not be written", "file", s.name, "error", err)
	}
}

// discard removes a segment that has nothing.
func (j *Journal) discard(s *segment) {
	if err := s.file.Close(); err != nil {
		j.log.Warn("cannot close a file of the journal", "file", s.name, "error", err)
	}
	if err := j.dir.Remove(s.name); err != nil {
		j.log.Warn("cannot remove a file of the journal", "file", s.name, "error", err)
	}
}

// sealLocked ends the active segment: once committed it can go.
func (j *Journal) sealLocked() {
	if j.active != nil {
		j.active.end = j.appended
		j.active = nil
	}
}

// waitForRoom waits until n bytes more may be written. What a journal of
// nothing can't hold is written all the same.
func (j *Journal) waitForRoom(ctx context.Context, n int) error {
	for {
		if j.room(n) {
			return nil
		}
		j.trim() // what was just sealed may be committed
		if j.room(n) {
			return nil
		}
		select {
		case <-j.freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// room says whether there is room for n bytes. If not, the active segment is
// sealed, or it could never go.
func (j *Journal) room(n int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	limit := j.cfg.MaxBytes
	j.full = j.total > 0 && j.total+int64(n) > limit
	switch {
	case j.full:
		j.sealLocked()
		if !j.saidFull {
			j.saidFull = true
			j.log.Warn("journal is full, messages wait at the broker until the store has committed some", "bytes", j.total, "limit", limit)
		}
	case j.saidFull && j.total < limit/2:
		j.saidFull = false
		j.log.Info("journal has room again", "bytes", j.total, "limit", limit)
	}
	return !j.full
}
