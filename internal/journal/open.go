package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gudang/internal/reading"
)

// Open opens the journal in cfg.Dir, which it makes if need be. Whatever is in
// there, it opens: what can be read is used, and what can't is reported and
// kept. It fails only if the directory can't be made or listed, or another
// process has it.
func Open(cfg Config, upstream Intake, reg Registerer) (*Journal, error) {
	dir, err := openDisk(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the journal in %q: %w", cfg.Dir, err)
	}
	j, err := open(cfg, limitsFor(cfg.MaxBytes), dir, upstream, reg)
	if err != nil {
		return nil, fmt.Errorf("cannot open the journal in %q: %w", cfg.Dir, errors.Join(err, dir.Close()))
	}
	return j, nil
}

func open(cfg Config, lim limits, dir directory, upstream Intake, reg Registerer) (*Journal, error) {
	j := &Journal{
		cfg: cfg, lim: lim, dir: dir, upstream: upstream, log: cfg.Log, enc: newEncoder(),
		ready: make(chan struct{}, 1), freed: make(chan struct{}, 1),
		aside: aside{deliveries: map[ending]int{}, dropped: map[reading.Reason]int{}},
	}
	j.metrics = newMetrics(reg, j.bytes)
	list, err := dir.List()
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		j.adopt(e)
	}
	slices.SortFunc(j.segments, func(a, b *segment) int { return cmp.Compare(a.first, b.first) })

	done, known := j.readCheckpoint(list)
	next := j.repairEnd()
	start := uint64(1)
	if len(j.segments) > 0 {
		start = j.segments[0].first
	}
	switch {
	case known && done <= next:
		start = done
	case known && len(j.segments) > 0:
		// What it says is committed and what is there don't fit. To believe
		// it could lose messages, not to believe it costs a replay.
		j.metrics.damaged.Inc()
		j.log.Error("journal ends before its checkpoint, storing all of it again", "end", next, "checkpoint", done)
	default:
		start = max(start, done)
	}
	next = max(next, done) // no number is used twice
	if known {
		j.settled = done
	}
	j.opened, j.appended, j.handed = next, next, start
	if j.handed < j.appended && len(j.segments) == 0 {
		j.handed = j.appended
	}
	if j.handed < j.appended {
		j.at = j.segments[0]
		j.log.Info("journal has messages that were not stored before the last stop", "messages", j.appended-j.handed, "bytes", j.total)
		wake(j.ready)
	} else {
		for _, s := range j.segments {
			s.end = next
		}
	}
	j.readStamps()
	j.mark, j.marked = j.checkpoint(nil, j.handed), j.handed
	if j.mark != nil {
		err = errors.Join(j.mark.Sync(), dir.Sync())
		if err != nil {
			j.log.Warn("cannot sync the journal's checkpoint", "error", err)
		}
	}
	j.trim()
	return j, nil
}

// adopt opens a file of the directory if it is a segment.
func (j *Journal) adopt(e entry) {
	first, ok := parseName(e.name)
	switch {
	case ok:
	case e.name == checkpointName, e.name == lockName, strings.HasPrefix(e.name, keptPrefix):
		return
	default:
		j.log.Warn("file in the journal's directory is none of its own, leaving it alone", "file", e.name)
		return
	}
	f, err := j.dir.Open(e.name)
	if err != nil {
		j.metrics.damaged.Inc()
		j.log.Error("cannot open a file of the journal, setting it aside", "file", e.name, "bytes", e.size, "kept_as", keptName(e.name), "error", err)
		j.setAside(e.name)
		return
	}
	j.segments = append(j.segments, &segment{name: e.name, first: first, file: f, size: e.size})
	j.total += e.size
}

func (j *Journal) readCheckpoint(list []entry) (done uint64, known bool) {
	i := slices.IndexFunc(list, func(e entry) bool { return e.name == checkpointName })
	if i < 0 {
		return 0, false
	}
	f, err := j.dir.Open(checkpointName)
	if err == nil {
		b := make([]byte, checkpointSize)
		_, err = f.ReadAt(b, 0)
		err = errors.Join(err, f.Close())
		done, known = parseCheckpoint(b)
	}
	if !known {
		// A power cut may do that, and costs no reading.
		j.log.Warn("journal's checkpoint is damaged, storing again what is there", "error", err)
	}
	return done, known
}

// repairEnd cuts off what the last write before a crash left unfinished, and
// returns the number of the first message behind all that is there.
func (j *Journal) repairEnd() uint64 {
	for len(j.segments) > 0 {
		s := j.segments[len(j.segments)-1]
		next, end := j.scan(s, nil)
		if end == 0 && s.size > 0 && !j.ours(s) {
			j.metrics.damaged.Inc()
			j.log.Error("file is not the journal's or of a later version, setting it aside", "file", s.name, "bytes", s.size, "kept_as", keptName(s.name))
			j.keep(s)
			j.total -= s.size
			j.segments = j.segments[:len(j.segments)-1]
			continue
		}
		if end < s.size {
			j.log.Warn("journal ends with an unfinished write, cutting it off: nobody was told that it is safe", "file", s.name, "bytes", s.size-end)
			if err := errors.Join(s.file.Truncate(end), s.file.Sync()); err != nil {
				j.log.Warn("cannot cut off an unfinished write", "file", s.name, "error", err)
			}
			j.total -= s.size - end
			s.size = end
		}
		if end == 0 {
			j.discard(s)
			j.segments = j.segments[:len(j.segments)-1]
		}
		return max(next, s.first)
	}
	return 1
}

// ours says whether a segment without a valid group begins like one, as far as
// it was written before there is nothing but zeros: power may have failed then.
func (j *Journal) ours(s *segment) bool {
	var head [len(magic)]byte
	n, err := s.file.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	begun := strings.TrimRight(string(head[:n]), "\x00")
	return strings.HasPrefix(magic, begun)
}

// scan visits the valid groups of a segment. It returns the number of the
// first message behind them and the offset at which the last of them ends.
func (j *Journal) scan(s *segment, visit func(h header, body []byte)) (next uint64, end int64) {
	for off := int64(0); off < s.size; {
		h, body, err := s.groupAt(off, s.size, &j.buf)
		if err != nil {
			off = s.find(off+1, s.size, &j.buf)
			continue
		}
		off += headerSize + int64(len(body))
		next, end = max(next, h.end()), off
		if visit != nil {
			visit(h, body)
		}
	}
	return next, end
}

// readStamps collects the stamps of the messages that may come again.
func (j *Journal) readStamps() {
	var scratch reading.Batch
	from := len(j.segments)
	for from > 0 && (from == len(j.segments) || j.appended-j.segments[from].first < uint64(j.lim.ids)) {
		from--
	}
	for _, s := range j.segments[from:] {
		j.scan(s, func(h header, body []byte) {
			scratch.Reset()
			// A body that is malformed is reported when it is read for the store.
			_ = j.dec.decode(body, h.count, 0, &scratch, func(st Stamp) {
				s.stamped = true
				j.stamps = append(j.stamps, st)
			})
			if old := len(j.stamps) - j.lim.ids; old > j.lim.ids {
				j.stamps = append(j.stamps[:0], j.stamps[old:]...)
			}
		})
	}
}

// Close gives the directory back. Nothing may be called after it, and Run must
// have ended.
func (j *Journal) Close() error {
	j.trim()
	var errs []error
	if j.mark != nil {
		errs = append(errs, j.mark.Sync(), j.mark.Close())
	}
	for _, s := range j.segments {
		errs = append(errs, s.file.Close())
	}
	if err := errors.Join(append(errs, j.dir.Close())...); err != nil {
		return fmt.Errorf("cannot close the journal: %w", err)
	}
	return nil
}
