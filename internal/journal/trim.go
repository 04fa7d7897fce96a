package journal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
)

const (
	checkpointName  = "checkpoint"
	checkpointMagic = "\xffGC\x01"
	checkpointSize  = 16

	keptPrefix = "damaged-"
	// maxKept bounds how many damaged files are kept for inspection: a disk
	// that goes bad would fill itself with them.
	maxKept = 8
)

func keptName(name string) string { return keptPrefix + name }

// trim notes how far the store has committed and removes what nobody needs.
func (j *Journal) trim() {
	j.trimming.Lock()
	defer j.trimming.Unlock()
	done, gone := j.takeCommitted()
	if done != j.marked {
		j.mark, j.marked = j.checkpoint(j.mark, done), done
	}
	if len(gone) == 0 {
		return
	}
	// A checkpoint that is older than the files that are gone would look like
	// a loss at the next start.
	if j.mark != nil {
		if err := j.mark.Sync(); err != nil {
			j.log.Warn("cannot sync the journal's checkpoint", "error", err)
		}
	}
	for _, s := range gone {
		if s.damaged {
			j.keep(s)
		} else {
			j.discard(s)
		}
		j.mu.Lock()
		j.total -= s.size
		j.mu.Unlock()
	}
	wake(j.freed)
}

// takeCommitted removes from the list the segments that the store has
// committed and nobody needs, and returns them.
func (j *Journal) takeCommitted() (done uint64, gone []*segment) {
	j.mu.Lock()
	defer j.mu.Unlock()
	done = j.doneLocked()
	n, total := 0, j.total
	for ; n < len(j.segments); n++ {
		s := j.segments[n]
		// Our acknowledgement of a message may be lost together with the
		// connection or the process. The broker sends it again then, and its
		// stamp is needed: see reading.Delivery.
		needed := s.stamped && j.appended-s.end < uint64(j.lim.ids) && total <= j.cfg.MaxBytes/2 && !j.full
		if s == j.active || s.end == 0 || s.end > done || needed {
			break
		}
		total -= s.size
	}
	gone = append(gone, j.segments[:n]...)
	j.segments = append(j.segments[:0], j.segments[n:]...)
	return done, gone
}

// keep sets a segment aside for inspection.
func (j *Journal) keep(s *segment) {
	if err := s.file.Close(); err != nil {
		j.log.Warn("cannot close a file of the journal", "file", s.name, "error", err)
	}
	j.setAside(s.name)
}

// setAside renames a file so that the journal leaves it alone.
func (j *Journal) setAside(name string) {
	kept := 0
	list, err := j.dir.List()
	for _, e := range list {
		if strings.HasPrefix(e.name, keptPrefix) {
			kept++
		}
	}
	if err == nil && kept >= maxKept {
		j.log.Error("too many damaged files of the journal are kept already, removing this one", "file", name)
		err = j.dir.Remove(name)
	} else if err == nil {
		err = j.dir.Rename(name, keptName(name))
	}
	if err != nil {
		j.log.Error("cannot set aside a damaged file of the journal", "file", name, "error", err)
	}
}

// checkpoint writes how far the store has committed, over what was there. It
// is not synced each time: one that is old or torn costs a replay of what the
// store knows already. If the file can't be written, the next one is new.
func (j *Journal) checkpoint(f file, done uint64) file {
	var err error
	if f == nil {
		if f, err = j.dir.Open(checkpointName); err != nil {
			f, err = j.dir.Create(checkpointName)
		}
		if err != nil {
			j.log.Warn("cannot create the journal's checkpoint", "error", err)
			return nil
		}
	}
	b := append(j.markBuf[:0], checkpointMagic...)
	b = binary.LittleEndian.AppendUint64(b, done)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if _, err = f.WriteAt(b, 0); err != nil {
		j.log.Warn("cannot write the journal's checkpoint", "error", errors.Join(err, f.Close()))
		return nil
	}
	return f
}

func parseCheckpoint(b []byte) (done uint64, ok bool) {
	if len(b) != checkpointSize || string(b[:4]) != checkpointMagic || crc32.Checksum(b[:12], castagnoli) != binary.LittleEndian.Uint32(b[12:]) {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b[4:]), true
}
