package reading

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Record is a bucket as it is stored, right or wrong: what checks go by and
// repairs replace.
type Record struct {
	Summary
	Offsets []int32
	Values  []float64
	// Damaged says that a part of it is of no form that we write: of the
	// arrays only what could be read is here.
	Damaged bool
	// Until is the exclusive end of an outlier's span, 0 where it is not stored.
	Until int64
}

// SumTolerance is how far a stored sum may be from that of the values, as a
// part of the sum of their magnitudes: additions in another order round
// otherwise.
const SumTolerance = 1e-9

// Sound says whether the arrays and the summary agree. An outlier has no arrays
// to disagree with.
func (r *Record) Sound() bool { return len(r.Problems()) == 0 }

// Problems are the ways in which the bucket contradicts itself, in words.
func (r *Record) Problems() (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if r.Damaged {
		say("a part of it is of no form that is written")
	}
	n := len(r.Values)
	switch {
	case r.Outlier:
		return problems
	case len(r.Offsets) != n:
		say("%d offsets, but %d values", len(r.Offsets), n)
		return problems
	case r.Count != int64(n):
		say("count is %d, but it holds %d readings", r.Count, n)
	}
	if n == 0 {
		say("it holds no readings")
		return problems
	}
	if least, most := slices.Min(r.Values), slices.Max(r.Values); r.Min != least || r.Max != most {
		say("min and max are %v and %v, but the values' are %v and %v", r.Min, r.Max, least, most)
	}
	var sum, size float64
	for _, v := range r.Values {
		sum += v
		size += math.Abs(v)
	}
	if !SumsAgree(r.Sum, sum, size) {
		say("sum is %v, but the values' is %v", r.Sum, sum)
	}
	offsets := slices.Sorted(slices.Values(r.Offsets))
	if offsets[0] < 0 {
		say("offset %d lies before its start", offsets[0])
	}
	for i := 1; i < n; i++ {
		if offsets[i] == offsets[i-1] {
			say("offset %d stands in it twice", offsets[i])
			break
		}
	}
	return problems
}

// SumsAgree says whether two sums of the same values, whose magnitudes add up
// to size, are one but for rounding. NaN agrees with nothing.
func SumsAgree(a, b, size float64) bool { return math.Abs(a-b) <= SumTolerance*size }

// Points are the readings that can be read, the first of each time, in order
// of time.
func (r *Record) Points() []Point {
	points := make([]Point, 0, len(r.Offsets))
	for i, off := range r.Offsets[:min(len(r.Offsets), len(r.Values))] {
		if v := r.Values[i]; v-v == 0 { // neither NaN nor an infinity
			points = append(points, Point{Time: r.Start + int64(off), Value: v + 0})
		}
	}
	slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(a.Time, b.Time) })
	return slices.CompactFunc(points, func(a, b Point) bool { return a.Time == b.Time })
}
