package reading

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// RollupGrace is how long a window has been over when it is rolled up first.
// What is written into a window that has been over for half of it must be
// marked as late. The other half is how far the clocks of instances may differ.
const RollupGrace = 5 * time.Minute

// QuietFor is how long a mark has not been made again when the window is
// rolled up for it. The write that the mark announced is over by then, or was
// announced again: one that takes more than half of it marks once more when it
// is over.
const QuietFor = time.Minute

// MaxSpan is the longest span of a roll-up.
const MaxSpan = 3660 * Span(day/time.Millisecond)

// Window is a stretch of time that is rolled up to one summary for each series.
type Window struct {
	Span   Span
	Start  int64
	Source Span // the shorter roll-ups that it is made of; 0: buckets
}

// End is where the window ends, which is not in it.
func (w Window) End() int64 { return w.Start + int64(w.Span) }

// Mark says that late readings came to a window of a series after it may have
// been rolled up. Token is another one each time the mark is made.
type Mark struct {
	Key
	Span  Span
	Token int64
}

// Progress is how far the roll-ups of one span are: those of the windows that
// begin in [From, Until) are complete, late readings aside.
type Progress struct{ From, Until int64 }

// Kind is a kind of stored thing that is deleted by its age.
type Kind string

// The kinds, which are the names of their collections.
const (
	KindBuckets  Kind = "buckets"
	KindOverflow Kind = "overflow"
	KindRaw      Kind = "raw"
	KindRollups  Kind = "rollups"
)

// WindowID is the _id of a roll-up, and of a mark: as ID, with the span in the
// hash too.
func (s Series) WindowID(start int64, span Span) [16]byte {
	var buf [MaxSensorID + 1 + 128 + 20]byte
	key := append(append(append(append(buf[:0], s.Sensor...), 0), s.Metric...), 0)
	return timedID(start, sha256.Sum256(strconv.AppendInt(key, int64(span), 10)))
}

func timedID(ms int64, sum [sha256.Size]byte) [16]byte {
	id := FirstID(ms)
	copy(id[6:], sum[:10])
	id[6] = 0x80 | id[6]&0x0f
	id[8] = 0x80 | id[8]&0x3f
	return id
}

// FirstID is not above any ID of that time, and above all of earlier ones.
func FirstID(ms int64) (id [16]byte) {
	binary.BigEndian.PutUint64(id[:8], uint64(ms)<<16)
	return id
}

// Merge takes the readings that o sums up into s. It leaves Outlier as it is:
// that is about how a bucket is stored.
func (s *Summary) Merge(o Summary) {
	if o.Count <= 0 {
		return
	}
	if s.Count == 0 {
		s.Min, s.Max = o.Min, o.Max
	}
	s.Count += o.Count
	s.Sum += o.Sum
	s.Min, s.Max = min(s.Min, o.Min), max(s.Max, o.Max)
}

// Same says whether two summaries are of the same readings. Their sums may
// differ by what the order of adding makes of them.
func (s Summary) Same(o Summary) bool {
	if s.Key != o.Key || s.Count != o.Count || s.Min != o.Min || s.Max != o.Max {
		return false
	}
	size := float64(s.Count) * max(math.Abs(s.Min), math.Abs(s.Max))
	return math.Abs(s.Sum-o.Sum) <= 1e-13*size
}

// ParseSpan reads a span as people write it: 90s, 1m, 1h, 1d, 7d.
func ParseSpan(text string) (Span, error) {
	var d time.Duration
	var err error
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		if n, err = strconv.Atoi(days); err == nil && n > int(MaxSpan.Duration()/day) {
			err = strconv.ErrRange
		}
		d = time.Duration(n) * day
	} else {
		d, err = time.ParseDuration(text)
	}
	if err != nil || d < time.Second || d > MaxSpan.Duration() || d%time.Millisecond != 0 {
		return 0, fmt.Errorf("%q: must be a time such as 90s, 15m, 1h or 7d", text)
	}
	return Span(d.Milliseconds()), nil
}

// String is the span as ParseSpan reads it.
func (s Span) String() string {
	d := s.Duration()
	switch {
	case d != 0 && d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d != 0 && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d != 0 && d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

// ParseRollups reads a list of the spans to roll up to, in ascending order. A
// window must hold whole buckets, and begin at the same times every day or be
// of whole days.
func ParseRollups(list string, bucket Span) ([]Span, error) {
	var spans []Span
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		s, err := ParseSpan(item)
		if err != nil {
			return nil, err
		}
		const aDay = Span(day / time.Millisecond)
		switch {
		case s%bucket != 0 || s == bucket:
			return nil, fmt.Errorf("%v: must be a multiple of BUCKET_SPAN (%v)", s, bucket)
		case aDay%s != 0 && s%aDay != 0:
			return nil, fmt.Errorf("%v: must divide a day, or be a number of days", s)
		case len(spans) > 0 && s <= spans[len(spans)-1]:
			return nil, fmt.Errorf("%v: must be longer than %v, which is before it", s, spans[len(spans)-1])
		}
		spans = append(spans, s)
	}
	return spans, nil
}

// SourceOf is the longest of the spans that windows of span can be made of, 0
// if that is none and they are made of buckets.
func SourceOf(span Span, spans []Span) (source Span) {
	for _, s := range spans {
		if s < span && span%s == 0 {
			source = max(source, s)
		}
	}
	return source
}
