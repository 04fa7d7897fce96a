package journal

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
)

// segment is one file of groups. It stays open as long as it is needed, so
// that what was acknowledged can be read even when no file can be opened.
type segment struct {
	name  string
	file  file
	first uint64 // number of its first message, and its name

	// The rest is guarded by Journal.mu.
	size    int64  // of what is synced: nothing beyond is read
	end     uint64 // number of the first message behind it; 0: not known yet
	stamped bool   // has messages without a time of their own
	damaged bool   // is kept for inspection
}

const suffix = ".journal"

func segmentName(first uint64) string { return fmt.Sprintf("%020d", first) + suffix }

func parseName(name string) (first uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	first, err := strconv.ParseUint(digits, 10, 64)
	return first, err == nil
}

var errDamaged = errors.New("no valid group")

// firstRead is how much of a group is read to learn its length: a group of a
// few messages is read at once.
const firstRead = 512

// groupAt reads the group at off, of a segment of that size, into buf.
func (s *segment) groupAt(off, size int64, buf *[]byte) (h header, body []byte, err error) {
	if size-off < headerSize {
		return h, nil, errDamaged
	}
	b := grow(buf, min(firstRead, size-off))
	if _, err := s.file.ReadAt(b, off); err != nil {
		return h, nil, err
	}
	h, ok := parseHeader(b[:headerSize])
	if !ok || int64(h.length) > size-off-headerSize {
		return h, nil, errDamaged
	}
	if whole := headerSize + int64(h.length); whole <= int64(len(b)) {
		body = b[headerSize:whole]
	} else {
		body = grow(buf, int64(h.length))
		if _, err := s.file.ReadAt(body, off+headerSize); err != nil {
			return h, nil, err
		}
	}
	if crc32.Checksum(body, castagnoli) != h.sum {
		return h, nil, errDamaged
	}
	return h, body, nil
}

// grow makes buf long enough for n bytes and returns as many of it.
func grow(buf *[]byte, n int64) []byte {
	if int64(cap(*buf)) < n {
		*buf = make([]byte, n)
	}
	return (*buf)[:n]
}

// find is where the first valid group at or behind off begins; size if there
// is none. A part that can't be read has none.
func (s *segment) find(off, size int64, buf *[]byte) int64 {
	window := make([]byte, 64<<10)
	for off < size {
		n, err := s.file.ReadAt(window[:min(int64(len(window)), size-off)], off)
		if err != nil && !errors.Is(err, io.EOF) {
			n = 0
		}
		for at := 0; ; at++ {
			i := bytes.Index(window[at:n], []byte(magic))
			if i < 0 {
				break
			}
			at += i
			if _, _, err := s.groupAt(off+int64(at), size, buf); err == nil {
				return off + int64(at)
			}
		}
		// The magic may lie across the end of the window.
		off += int64(len(window) - len(magic) + 1)
	}
	return size
}
