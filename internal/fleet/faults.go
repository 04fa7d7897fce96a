package fleet

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// How long messages are kept back, in simulated time.
const (
	lateFrom, lateTo = time.Minute, 5 * time.Minute
	againTo          = 2 * time.Minute
)

// picker chooses messages for a fault. If the number of messages is known it
// chooses exactly as many as it was asked for, else with that probability.
type picker struct {
	p    float64
	want int64 // still to choose
	left int64 // messages still to come; 0: unknown
}

// newPicker takes a fraction (below 1) or a number of messages.
func newPicker(amount float64, count int64) picker {
	if count == 0 {
		return picker{p: amount}
	}
	if amount < 1 {
		amount *= float64(count)
	}
	return picker{want: min(count, int64(amount+0.5)), left: count}
}

// pick decides for the next message, given a random number below 1.
func (p *picker) pick(u float64) bool {
	if p.left == 0 {
		return u < p.p
	}
	chosen := u*float64(p.left) < float64(p.want)
	p.left--
	if chosen {
		p.want--
	}
	return chosen
}

// held is a message that is published later than it was measured.
type held struct {
	*message
	at   int64 // simulated time
	kind kind
	n    int64 // order among those of one time
}

// heldBack is a heap of them, the next on top.
type heldBack []held

func (h heldBack) Len() int { return len(h) }
func (h heldBack) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].n < h[j].n
}
func (h heldBack) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *heldBack) Push(x any)   { *h = append(*h, x.(held)) }
func (h *heldBack) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = held{}
	*h = (*h)[:len(*h)-1]
	return last
}

func (h *heldBack) hold(m *message, k kind, from, to time.Duration, rng *rand.Rand, n int64) {
	delay := from.Milliseconds() + rng.Int64N((to - from).Milliseconds())
	heap.Push(h, held{m, m.time + delay, k, n})
}

// due takes the next message that is to be published by now.
func (h *heldBack) due(now int64) (held, bool) {
	if len(*h) == 0 || (*h)[0].at > now {
		return held{}, false
	}
	return heap.Pop(h).(held), true
}

// absence is when a sensor is away: for some ticks (one is an interval) out of
// every so many.
type absence struct{ cycle, length, shift int64 }

func newAbsence(rng *rand.Rand, ticks int64) absence {
	cycle := int64(60)
	if ticks > 0 {
		cycle = max(4, min(cycle, ticks/2))
	}
	length := max(1, cycle/6+rng.Int64N(cycle/6+1))
	// The shift leaves the first tick in touch, so that every sensor is seen.
	return absence{cycle, length, 1 + rng.Int64N(max(1, cycle-length-1))}
}

func (a absence) away(tick int64) bool {
	if a.cycle == 0 {
		return false
	}
	at := tick%a.cycle - a.shift
	return at >= 0 && at < a.length
}
