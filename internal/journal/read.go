package journal

import "gudang/internal/reading"

// readAhead is how many readings a batch from disk may have before another
// group is added.
const readAhead = 4096

// read appends to into what is on disk from number next on, without a gap, and
// returns the number behind it. It returns nothing only when nothing is left:
// what could not be read is in the log then. Replay after a start and catching
// up with a backlog are the same.
func (j *Journal) read(into *reading.Batch, next uint64) uint64 {
	for len(into.Readings) < readAhead {
		j.mu.Lock()
		s, off, size, appended := j.at, j.offset, j.at.size, j.appended
		j.mu.Unlock()
		if off >= size {
			if j.advance(s, off, next) {
				continue
			}
			if next < appended && len(into.Deliveries) > 0 {
				return next
			}
			j.missing(next, appended)
			return appended
		}
		h, body, err := s.groupAt(off, size, &j.buf)
		if err != nil {
			found := s.find(off+1, size, &j.buf)
			j.invalid(s, next, found-off, err)
			if found < size {
				j.damage()
			}
			j.seek(s, found)
			continue
		}
		if h.first > next && len(into.Deliveries) > 0 {
			return next // the gap is for the next time
		}
		if h.end() > next { // else it is committed, or was written twice
			j.missing(next, h.first)
			next = max(next, h.first)
			had := len(into.Readings)
			if err := j.dec.decode(body, h.count, next-h.first, into, nil); err != nil {
				j.invalid(s, next, int64(len(body)), err)
				j.damage()
			} else {
				next = h.end()
			}
			if h.first < j.opened {
				j.metrics.replayed.Add(float64(len(into.Readings) - had))
			}
		}
		j.seek(s, off+headerSize+int64(len(body)))
	}
	return next
}

func (j *Journal) seek(s *segment, off int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.at, j.offset = s, off
}

// advance goes on behind off, where s ended when it was looked at: in s, if
// more was written since, or in the segment behind it.
func (j *Journal) advance(s *segment, off int64, next uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if off < s.size {
		return true
	}
	if s != j.active && s.end == 0 {
		s.end = next
	}
	for _, t := range j.segments {
		if t.first > s.first {
			j.at, j.offset = t, 0
			return true
		}
	}
	return false
}

// doubt is what was no valid group and may be damage. At the end of a segment
// it may also be a write that failed and was done again in the next segment:
// then the numbers go on there without a gap.
type doubt struct {
	s     *segment // nil: there is none
	next  uint64
	bytes int64
	err   error
	was   bool // the segment was damaged already
}

// invalid notes n bytes that are no valid group, and keeps the file for now.
func (j *Journal) invalid(s *segment, next uint64, n int64, err error) {
	j.damage()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.doubt = doubt{s, next, n, err, s.damaged}
	s.damaged = true
}

// damage reports what was noted as invalid, if anything was.
func (j *Journal) damage() {
	d := j.doubt
	j.doubt = doubt{}
	if d.s == nil {
		return
	}
	j.metrics.damaged.Inc()
	j.log.Error("journal is damaged, the rest is used and the file is kept", "file", d.s.name, "bytes", d.bytes, "kept_as", keptName(d.s.name), "from_message", d.next, "error", d.err)
}

// missing reports that the messages from..to are not in the journal, if there
// are any. What was committed before the start need not be there.
func (j *Journal) missing(from, to uint64) {
	if from = max(from, j.settled); from >= to {
		if d := j.doubt; d.s != nil {
			j.log.Warn("journal has an unfinished write, nothing is lost", "file", d.s.name, "bytes", d.bytes)
			j.mu.Lock()
			d.s.damaged = d.was
			j.mu.Unlock()
			j.doubt = doubt{}
		}
		return
	}
	j.damage()
	j.metrics.damaged.Inc()
	j.log.Error("journal has lost messages", "messages", to-from, "from_message", from)
}
