package query

import (
	"context"
	"fmt"
	"slices"

	"gudang/internal/reading"
)

const (
	// fatBytes is the size from which a document is worth a word, and nearFull
	// the part of the threshold from which a bucket is.
	fatBytes = 64 << 10
	nearFull = 0.9
	// suspects bounds how many documents, and how many sensors, are looked at
	// one by one.
	suspects = 200
	// recentBuckets is how many of the newest buckets speak for all that is
	// written now.
	recentBuckets = 50_000
	// examineRows is how many buckets are all looked at; of more, the newest
	// half of that and blocks from all over the rest.
	examineRows = 2_000_000
	blocks      = 100
	blockRows   = 5000
	// quiet is for how long a sensor may be away before it is looked at, and
	// clockSlack how far ahead the fleet's clocks may be.
	quiet      = 60 * 60 * 1000
	clockSlack = 5 * 60 * 1000
)

// Examiner looks at the store as a doctor does.
type Examiner interface {
	// Examine looks at everything there is in a small store, and at samples of
	// a large one: it takes seconds. Outlier is the number of readings from
	// which a bucket should be an outlier.
	Examine(ctx context.Context, outlier int64) (Examination, error)
}

// Examination is what was found.
type Examination struct {
	Server      Server
	Collections []Collection // with what of their sizes costs nothing
	Buckets     int64        // how many there are, about
	Disk        *Disk        // the embedded store's file
	Plans       []Plan
	// Largest is the largest document looked at, Fat are those above 64 KiB
	// and Full the buckets with nearly as many readings as an outlier, or
	// more, that are none; the longest first.
	Largest   Document
	Fat, Full []Document
	Sensors   []Seen
	Recent    []Recent // the newest buckets
	Marks     []Mark   // how far back it is to older ones, where Recent is not all
	Sampled   []string // what was not looked at as a whole, in words
}

// Server is what the store is and can do.
type Server struct {
	Name     string    `json:"name"`
	Version  string    `json:"version"`
	Embedded bool      `json:"embedded"`
	Set      string    `json:"replicaSet,omitempty"`
	Sharded  bool      `json:"sharded,omitempty"`
	Majority bool      `json:"majority"` // writes wait for a majority
	Features []Feature `json:"features,omitempty"`
	Clock    int64     `json:"-"` // its time, 0 if it did not say
}

// Feature is something that the server has or has not.
type Feature struct {
	Name string `json:"name"`
	Has  bool   `json:"has"`
}

// Plan is how the store answers one of our queries.
type Plan struct {
	Query      string `json:"query"`
	Collection string `json:"collection"`
	Stage      string `json:"stage"` // as the store says it
	Scan       bool   `json:"scan"`  // it reads all there is
	Sort       bool   `json:"sort"`  // it sorts what it read
	// Examined and Returned are documents; -1 where the store does not tell.
	Examined int64 `json:"examined"`
	Returned int64 `json:"returned"`
}

// Document is a document that was looked at for its size.
type Document struct {
	Collection string
	Sensor     string
	Metric     string
	Start      int64
	Count      int64
	Bytes      int64
}

// Seen is when a sensor was seen. Every and Lags are known of those alone that
// seem to be away.
type Seen struct {
	ID          string
	First, Last int64
	// Every is the usual time from one reading to the next, 0 if not known.
	Every int64
	// Lags says of its newest buckets how much later the buckets began that
	// were made beside them; the newest first. Only the embedded store knows.
	Lags []int64
}

// Recent is one of the newest buckets.
type Recent struct {
	Key     reading.Key
	Count   int64
	Bytes   int64 // of BSON
	Outlier bool
}

// Mark is the start of the bucket that has so many newer ones.
type Mark struct {
	Newer, Start int64
}

// marks are at how many buckets from the end one is looked at.
func (e *Examination) marks() (newer []int64) {
	for _, n := range []int64{4 * recentBuckets, 20 * recentBuckets} {
		if len(e.Recent) == recentBuckets && n < e.Buckets {
			newer = append(newer, n)
		}
	}
	return newer
}

// Newest is the latest time at which a sensor was seen, up to a limit: beyond
// it clocks are wrong. It is 0 if there is none.
func (e *Examination) Newest(limit int64) (newest int64) {
	for _, s := range e.Sensors {
		if s.Last <= limit {
			newest = max(newest, s.Last)
		}
	}
	return newest
}

// rows is which rows of buckets, from the first of a range exclusive to its
// last inclusive, are looked at: all, or of very many the newest and blocks from
// all over the rest.
func rows(first, last int64) (ranges [][2]int64, sampled string) {
	if last-first < examineRows {
		return [][2]int64{{first - 1, last}}, ""
	}
	newest := last - examineRows/2
	ranges = [][2]int64{{newest, last}}
	for i := range int64(blocks) {
		from := first - 1 + i*(newest-first)/blocks
		ranges = append(ranges, [2]int64{from, from + blockRows})
	}
	return ranges, fmt.Sprintf("sizes: the newest %d buckets, and %d from all over the other %d", examineRows/2, blocks*blockRows, newest-first+1)
}

// away are the sensors that have been quiet for long while others were not, at
// most so many as are looked at one by one.
func (e *Examination) away(now int64) (away []*Seen) {
	newest := e.Newest(now + clockSlack)
	for i := range e.Sensors {
		s := &e.Sensors[i]
		if s.Last >= newest-quiet {
			continue
		}
		if len(away) == suspects {
			e.Sampled = append(e.Sampled, fmt.Sprintf("sensors that seem to be away: the first %d", suspects))
			break
		}
		away = append(away, s)
	}
	return away
}

// every is the usual time between the readings of a sensor: the median of what
// is between its newest, of the metric that has the most.
func every(s reading.Sensor) int64 {
	var gaps []int64
	for _, points := range s.Metrics {
		if len(points)-1 <= len(gaps) {
			continue
		}
		gaps = gaps[:0]
		for i := 1; i < len(points); i++ {
			gaps = append(gaps, points[i-1].Time-points[i].Time)
		}
	}
	return median(gaps)
}

func median(of []int64) int64 {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

// newestMetric is the metric that a sensor sent last.
func newestMetric(s reading.Sensor) (name string) {
	latest := int64(0)
	for metric, points := range s.Metrics {
		if len(points) > 0 && (name == "" || points[0].Time > latest) {
			name, latest = metric, points[0].Time
		}
	}
	return name
}

// look takes note of a document, if there is reason to.
func (e *Examination) look(d Document) {
	if d.Bytes > e.Largest.Bytes {
		e.Largest = d
	}
	if d.Bytes > fatBytes && len(e.Fat) < suspects {
		e.Fat = append(e.Fat, d)
	}
}

// sort puts what is worst first.
func (e *Examination) sort() {
	slices.SortFunc(e.Fat, func(a, b Document) int { return int(b.Bytes - a.Bytes) })
	slices.SortFunc(e.Full, func(a, b Document) int { return int(b.Count - a.Count) })
}
