package bucketer

import (
	"time"

	"gudang/internal/reading"
)

// gathering is what the next flush will be: open buckets, and the messages
// that wait for them. Its memory is used again and again.
type gathering struct {
	open       map[reading.Key]*open
	list       []*open
	buckets    []*reading.Bucket // the same, as the sink wants them
	deliveries []reading.Delivery
	tally      []int32 // what became of each delivery's readings so far
	readings   int
	unacked    int
	since      time.Time // when the first delivery came

	slabs [][]open // where the buckets lie
	used  int
}

// A tally is a count of readings that are (or will be) stored, in steps of
// storedOne, and two flags.
const (
	repeatedSome int32 = 1 << iota
	refusedSome
	storedOne
)

// open is a bucket that gathers. The usual bucket is small: the arrays within
// it spare it three allocations.
type open struct {
	reading.Bucket
	from    []int32        // which delivery each reading came from
	refused map[int32]bool // by offset: what the store did not take
	fill    int32          // its place in fill

	offsets0 [inline]int32
	values0  [inline]float64
	from0    [inline]int32
}

const (
	inline   = 6 // a reading every 10 s, for a minute
	slabSize = 256
	// keepSlabs bounds the memory that an emptied gathering holds on to.
	keepSlabs = 1024
)

func newGathering() *gathering { return &gathering{open: map[reading.Key]*open{}} }

func (g *gathering) empty() bool { return len(g.deliveries) == 0 }

// deliver takes over a delivery and returns its number.
func (g *gathering) deliver(d *reading.Delivery) int32 {
	g.deliveries = append(g.deliveries, *d)
	g.tally = append(g.tally, 0)
	if d.Acker != nil {
		g.unacked++
	}
	return int32(len(g.deliveries) - 1)
}

// add opens the bucket of key.
func (g *gathering) add(key reading.Key) *open {
	if g.used == len(g.slabs)*slabSize {
		g.slabs = append(g.slabs, make([]open, slabSize))
	}
	o := &g.slabs[g.used/slabSize][g.used%slabSize]
	g.used++
	o.Series, o.Start = key.Series, key.Start
	o.Offsets, o.Values, o.from = o.offsets0[:0], o.values0[:0], o.from0[:0]
	g.open[key] = o
	g.list = append(g.list, o)
	g.buckets = append(g.buckets, &o.Bucket)
	return o
}

// refuse marks a reading as not stored.
func (o *open) refuse(off int32) {
	if o.refused == nil {
		o.refused = map[int32]bool{}
	}
	o.refused[off] = true
}

// outcome is what delivery i has become, once the store has answered.
func (g *gathering) outcome(i int) reading.Outcome {
	switch d, t := &g.deliveries[i], g.tally[i]; {
	case d.Outcome != reading.Pending:
		return d.Outcome
	case t >= storedOne:
		return reading.Stored
	case t&repeatedSome != 0:
		return reading.Repeated
	default:
		return reading.Rejected
	}
}

// reset empties the gathering.
func (g *gathering) reset() {
	if len(g.slabs) > keepSlabs {
		*g = *newGathering()
		return
	}
	for i := range g.used {
		g.slabs[i/slabSize][i%slabSize] = open{}
	}
	clear(g.open)
	clear(g.list)
	clear(g.buckets)
	clear(g.deliveries)
	g.list, g.buckets, g.deliveries, g.tally = g.list[:0], g.buckets[:0], g.deliveries[:0], g.tally[:0]
	g.readings, g.unacked, g.used = 0, 0, 0
}
