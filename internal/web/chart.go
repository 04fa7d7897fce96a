package web

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gudang/internal/reading"
)

// A chart is drawn on a plane of chartWidth by chartHeight units, which the
// browser stretches to the place there is. Its labels stand beside that plane,
// at percentages of it, so that they keep their size.
const (
	chartWidth  = 1000
	chartHeight = 200
	chartSlots  = 240 // points at most: three pixels each on a wide page
)

// chart is the picture of one metric over a time.
type chart struct {
	Metric, Unit string
	From, To     int64  // ms
	Line, Band   string // paths on the plane
	Dots, Bars   string // points with a gap on either side, and their band
	XTicks       []tick
	YTicks       []tick
	Slots        []slot
	Raw          bool // each slot is one reading
	Decimals     int
	Low, High    float64 // of the scale
	Slot         time.Duration
}

// tick is a mark on an axis.
type tick struct {
	At    string // percent, or units from the top
	Label string
	Minor bool // left out where there is little room
}

// slot is what a piece of the time holds.
type slot struct {
	Time  int64 // where it is drawn: its middle, or that of the reading
	Count int64
	Sum   float64
	Min   float64
	Max   float64
}

// Mean is the average of the readings.
func (s slot) Mean() float64 { return s.Sum / float64(s.Count) }

// plotter gathers what is to be drawn of one metric. What it holds does not
// grow with what it is given.
type plotter struct {
	from, to int64
	width    int64 // of a slot, ms
	slots    map[int64]*slot
}

// slotSteps are the multiples that people count minutes and hours in.
var slotSteps = []int64{1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1440}

// slotWidth is how long the slots for a range are: a round multiple of step,
// such that they are no more than there is use for.
func slotWidth(from, to, step int64) int64 {
	n := max(1, (to-from+step*chartSlots-1)/(step*chartSlots))
	last := slotSteps[len(slotSteps)-1]
	if n > last {
		return step * last * ((n + last - 1) / last)
	}
	i, _ := slices.BinarySearch(slotSteps, n)
	return step * slotSteps[i]
}

func newPlotter(from, to, step int64) *plotter {
	return &plotter{from: from, to: to, width: slotWidth(from, to, step), slots: map[int64]*slot{}}
}

// bucket takes a stored bucket.
func (p *plotter) bucket(b reading.Summary) {
	if b.Count <= 0 {
		return
	}
	start := b.Start - b.Start%p.width
	s := p.slots[start]
	if s == nil {
		s = &slot{Time: start + p.width/2, Min: b.Min, Max: b.Max}
		p.slots[start] = s
	}
	s.Count += b.Count
	s.Sum += b.Sum
	s.Min, s.Max = min(s.Min, b.Min), max(s.Max, b.Max)
}

// chart draws what was taken.
func (p *plotter) chart(metric string, zone *time.Location) *chart {
	slots := make([]slot, 0, len(p.slots))
	for _, s := range p.slots {
		s.Time = min(max(s.Time, p.from), p.to)
		slots = append(slots, *s)
	}
	slices.SortFunc(slots, func(a, b slot) int { return cmp.Compare(a.Time, b.Time) })
	c := draw(metric, p.from, p.to, slots, p.width, zone)
	c.Slot = time.Duration(p.width) * time.Millisecond
	return c
}

// drawReadings draws readings one by one, which are in order of time.
func drawReadings(metric string, from, to int64, found []reading.Reading, zone *time.Location) *chart {
	slots := make([]slot, len(found))
	for i, r := range found {
		slots[i] = slot{Time: r.Time, Count: 1, Sum: r.Value, Min: r.Value, Max: r.Value}
	}
	c := draw(metric, from, to, slots, 1, zone)
	c.Raw = true
	return c
}

func draw(metric string, from, to int64, slots []slot, width int64, zone *time.Location) *chart {
	c := &chart{Metric: metric, From: from, To: to, Slots: slots, XTicks: timeTicks(from, to, zone)}
	if len(slots) == 0 {
		return c
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range slots {
		low, high = min(low, s.Min), max(high, s.Max)
		if c.Decimals < 2 {
			c.Decimals = max(c.Decimals, decimals(s.Min, s.Max))
		}
	}
	c.Low, c.High, c.YTicks = valueTicks(low, high)
	c.paths(gap(slots, width))
	return c
}

// gap is how far two points may lie apart and still be joined: some times what
// is usual here, so that a sensor that sends rarely has a line as well. A few
// points say nothing of what is usual.
func gap(slots []slot, width int64) int64 {
	const few, minute = 5, 60_000
	if len(slots) < few {
		return max(minute, width+width/2)
	}
	steps := make([]int64, 0, len(slots)-1)
	for i := 1; i < len(slots); i++ {
		steps = append(steps, slots[i].Time-slots[i-1].Time)
	}
	slices.Sort(steps)
	return max(3*steps[len(steps)/4], width+width/2)
}

func (c *chart) x(t int64) float64 {
	return chartWidth * float64(t-c.From) / float64(max(1, c.To-c.From))
}

func (c *chart) y(v float64) float64 { return chartHeight * (c.High - v) / (c.High - c.Low) }

// paths draws the line and the band, each piece between two gaps by itself.
func (c *chart) paths(gap int64) {
	var line, band, dots, bars strings.Builder
	for rest := c.Slots; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Time-rest[n-1].Time <= gap {
			n++
		}
		piece := rest[:n]
		rest = rest[n:]
		if n == 1 {
			// A line of no length, which a round end makes a dot of.
			fmt.Fprintf(&dots, "M%.1f %.1fh0", c.x(piece[0].Time), c.y(piece[0].Mean()))
			if piece[0].Max > piece[0].Min {
				fmt.Fprintf(&bars, "M%.1f %.1fV%.1f", c.x(piece[0].Time), c.y(piece[0].Min), c.y(piece[0].Max))
			}
			continue
		}
		c.piece(&line, &band, piece)
	}
	c.Line, c.Band, c.Dots, c.Bars = line.String(), band.String(), dots.String(), bars.String()
}

func (c *chart) piece(line, band *strings.Builder, piece []slot) {
	point := func(b *strings.Builder, first bool, t int64, v float64) {
		cmd := byte('L')
		if first {
			cmd = 'M'
		}
		fmt.Fprintf(b, "%c%.1f %.1f", cmd, c.x(t), c.y(v))
	}
	wide := false
	for i, s := range piece {
		point(line, i == 0, s.Time, s.Mean())
		wide = wide || s.Max > s.Min
	}
	if !wide {
		return
	}
	for i, s := range piece {
		point(band, i == 0, s.Time, s.Max)
	}
	for _, s := range slices.Backward(piece) {
		point(band, false, s.Time, s.Min)
	}
	band.WriteByte('Z')
}

// valueTicks is a scale that holds low to high, with round numbers on it.
func valueTicks(low, high float64) (bottom, top float64, ticks []tick) {
	if high-low < 1e-9*max(math.Abs(low), math.Abs(high), 1e-6) {
		room := max(math.Abs(low)/20, 0.5)
		low, high = low-room, high+room
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/6)))
	for _, f := range []float64{1, 2, 5, 10} {
		if (high-low)/(step*f) <= 6 {
			step *= f
			break
		}
	}
	room := (high - low) / 12
	bottom, top = low-room, high+room
	places := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	for i := math.Ceil(bottom / step); i*step <= top && len(ticks) < 10; i++ {
		label := minus(strconv.FormatFloat(i*step+0, 'f', min(places, 9), 64))
		if math.Abs(i*step) >= 1e7 || places > 4 && i != 0 {
			label = minus(strconv.FormatFloat(i*step, 'g', 4, 64))
		}
		ticks = append(ticks, tick{At: fmt.Sprintf("%.1f", chartHeight*(top-i*step)/(top-bottom)), Label: label})
	}
	return bottom, top, ticks
}

// timeSteps are the distances that ticks on the axis of time may have.
var timeSteps = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	day, 2 * day, 5 * day, 10 * day, 30 * day, 90 * day, 365 * day,
}

const day = 24 * time.Hour

// timeTicks are round times of the zone between from and to (ms).
func timeTicks(from, to int64, zone *time.Location) (ticks []tick) {
	length := time.Duration(to-from) * time.Millisecond
	step := timeSteps[len(timeSteps)-1]
	for _, s := range timeSteps {
		if length/s <= 7 {
			step = s
			break
		}
	}
	for ; length/step > 7; step *= 2 {
	}
	layout := "15:04"
	switch {
	case step < time.Minute:
		layout = "15:04:05"
	case step >= 30*day:
		layout = "2 Jan 2006"
	case step >= day:
		layout = "2 Jan"
	}
	y, m, d := time.UnixMilli(from).In(zone).Date()
	if step >= day { // every so many days, counted from the same day whatever the range
		d -= int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix()/86400) % int(step/day)
	}
	first := 0
	if step < day { // the clock may have been changed by an hour or two since midnight
		midnight := time.Date(y, m, d, 0, 0, 0, 0, zone).UnixMilli()
		first = max(0, int((time.Duration(from-midnight)*time.Millisecond-3*time.Hour)/step))
	}
	for i := first; ; i++ {
		// By the clock on the wall: after it is changed, ticks are round again.
		at := time.Date(y, m, d, 0, 0, i*int(step/time.Second), 0, zone)
		if step >= day {
			at = time.Date(y, m, d+i*int(step/day), 0, 0, 0, 0, zone)
		}
		ms := at.UnixMilli()
		if ms > to {
			return ticks
		}
		if ms < from {
			continue
		}
		label := at.Format(layout)
		if layout == "15:04" && at.Hour() == 0 && at.Minute() == 0 {
			label = at.Format("2 Jan")
		}
		ticks = append(ticks, tick{At: fmt.Sprintf("%.2f%%", 100*float64(ms-from)/float64(to-from)), Label: label, Minor: len(ticks)%2 == 1})
	}
}
