package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"gudang/internal/manifest"
	"gudang/internal/reading"
)

// Scanner yields every stored bucket, as Store's Scan does.
type Scanner interface {
	Scan(ctx context.Context, yield func(*Stored) error) error
}

// maxExamples is how many cases of a finding are told in words.
const maxExamples = 10

// sumTolerance is how far a stored sum may be from that of the values, as a
// part of it: additions in another order round otherwise.
const sumTolerance = 1e-9

// Finding is one way in which the store is not what it should be.
type Finding struct {
	Count    int64    `json:"count"`
	Examples []string `json:"examples,omitempty"`
}

func (f *Finding) add(format string, args ...any) {
	f.Count++
	if len(f.Examples) < maxExamples {
		f.Examples = append(f.Examples, fmt.Sprintf(format, args...))
	}
}

// Report is what Verify found.
type Report struct {
	Manifests int     `json:"manifests"`
	Expected  int64   `json:"expected"`  // distinct readings in the manifests
	Found     int64   `json:"found"`     // of these, stored with the right value
	Stored    int64   `json:"stored"`    // readings in the store
	Buckets   int64   `json:"buckets"`   // buckets in the store
	Missing   Finding `json:"missing"`   // expected, not stored
	Doubled   Finding `json:"doubled"`   // stored more than once
	Foreign   Finding `json:"foreign"`   // stored, not expected
	Different Finding `json:"different"` // stored with another value
	BadBucket Finding `json:"badBucket"` // buckets that contradict themselves
	Damaged   Finding `json:"damaged"`   // manifests that are not as they were written
}

// findings are the findings with the words for them, in the order of a report.
func (r *Report) findings() []struct {
	name string
	*Finding
} {
	return []struct {
		name string
		*Finding
	}{
		{"missing", &r.Missing},
		{"doubled", &r.Doubled},
		{"foreign", &r.Foreign},
		{"different", &r.Different},
		{"bad buckets", &r.BadBucket},
		{"damaged", &r.Damaged},
	}
}

// OK says whether every expected reading is stored exactly once and nothing
// else is.
func (r Report) OK() bool {
	for _, f := range r.findings() {
		if f.Count > 0 {
			return false
		}
	}
	return true
}

// WriteText prints the report for people.
func (r Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %d readings in %d manifest(s)\n", "expected", r.Expected, r.Manifests)
	fmt.Fprintf(&b, "%-12s %d readings in %d buckets\n", "stored", r.Stored, r.Buckets)
	fmt.Fprintf(&b, "%-12s %d\n", "found", r.Found)
	for _, f := range r.findings() {
		fmt.Fprintf(&b, "%-12s %d\n", f.name, f.Count)
		for _, e := range f.Examples {
			fmt.Fprintf(&b, "    %s\n", e)
		}
		if n := f.Count - int64(len(f.Examples)); n > 0 {
			fmt.Fprintf(&b, "    and %d more\n", n)
		}
	}
	if r.OK() {
		b.WriteString("exact: every reading is stored once, and nothing else is\n")
	} else {
		b.WriteString("NOT exact\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// expectations is what the manifests say of one series, sorted by time. A
// reading costs 17 bytes (measured with the slack of growing slices: about
// 22), so that ten million of them fit in 220 MB; a map would take 60 each.
type expectations struct {
	points []reading.Point
	seen   []uint8 // how often each was found stored; more than twice is twice
	starts []int64 // of the series' buckets
}

// Verify reads the manifests, then every stored bucket, and compares. An error
// means that one of them cannot be read; everything else is in the report.
func Verify(ctx context.Context, store Scanner, manifests ...io.Reader) (Report, error) {
	v := verifier{series: make(map[reading.Series]*expectations)}
	v.report.Manifests = len(manifests)
	for i, m := range manifests {
		if err := v.expect(ctx, m); err != nil {
			return v.report, fmt.Errorf("manifest %d of %d: %w", i+1, len(manifests), err)
		}
	}
	if err := v.settle(); err != nil {
		return v.report, err
	}
	if err := store.Scan(ctx, v.bucket); err != nil {
		return v.report, fmt.Errorf("cannot read the stored buckets: %w", err)
	}
	v.missing()
	return v.report, nil
}

type verifier struct {
	report Report
	whole  contents // of the bucket that is coming in
	series map[reading.Series]*expectations
}

func (v *verifier) of(s reading.Series) *expectations {
	e := v.series[s]
	if e == nil {
		e = &expectations{}
		v.series[s] = e
	}
	return e
}

func (v *verifier) expect(ctx context.Context, m io.Reader) error {
	var last reading.Series
	var e *expectations
	n := 0
	_, err := manifest.Read(m, func(entry manifest.Entry) error {
		if n++; n%10000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if e == nil || entry.Series != last {
			last, e = entry.Series, v.of(entry.Series)
		}
		e.points = append(e.points, reading.Point{Time: entry.Time, Value: entry.Value})
		return nil
	})
	if errors.Is(err, manifest.ErrChecksum) {
		v.report.Damaged.add("%v", err)
		return nil
	}
	return err
}

// settle sorts what is expected. Two manifests may have a reading in common,
// but not with two values.
func (v *verifier) settle() error {
	for s, e := range v.series {
		slices.SortFunc(e.points, func(a, b reading.Point) int { return cmp.Compare(a.Time, b.Time) })
		for i := 1; i < len(e.points); i++ {
			if a, b := e.points[i-1], e.points[i]; a.Time == b.Time && a.Value != b.Value {
				return fmt.Errorf("the manifests contradict each other: %s is %v and %v", at(s, a.Time), a.Value, b.Value)
			}
		}
		e.points = slices.CompactFunc(e.points, func(a, b reading.Point) bool { return a.Time == b.Time })
		e.seen = make([]uint8, len(e.points))
		v.report.Expected += int64(len(e.points))
	}
	return nil
}

// bucket checks one stored bucket against itself and against the manifests. An
// outlier comes in pieces, which are one bucket.
func (v *verifier) bucket(b *Stored) error {
	v.whole.add(b)
	e := v.of(b.Series)
	for i, off := range b.Offsets[:min(len(b.Offsets), len(b.Values))] {
		v.stored(e, b.Series, b.Start+int64(off), b.Values[i])
	}
	if b.More {
		return nil
	}
	v.report.Buckets++
	for _, problem := range v.whole.contradictions(b) {
		v.report.BadBucket.add("bucket %s: %s", at(b.Series, b.Start), problem)
	}
	v.whole = contents{}
	if i, again := slices.BinarySearch(e.starts, b.Start); again {
		v.report.BadBucket.add("bucket %s: stored in two documents", at(b.Series, b.Start))
	} else {
		e.starts = slices.Insert(e.starts, i, b.Start)
	}
	return nil
}

func (v *verifier) stored(e *expectations, s reading.Series, t int64, value float64) {
	v.report.Stored++
	i, ok := slices.BinarySearchFunc(e.points, t, func(p reading.Point, t int64) int { return cmp.Compare(p.Time, t) })
	switch {
	case !ok:
		v.report.Foreign.add("%s = %v: no manifest has it", at(s, t), value)
		return
	case e.seen[i] > 0:
		if e.seen[i] == 1 { // told once, however often it is there
			v.report.Doubled.add("%s = %v", at(s, t), value)
		}
		e.seen[i] = 2
		return
	case e.points[i].Value != value:
		v.report.Different.add("%s: expected %v, stored %v", at(s, t), e.points[i].Value, value)
	default:
		v.report.Found++
	}
	e.seen[i] = 1
}

// missing tells what was never seen, in order of series and time.
func (v *verifier) missing() {
	names := make([]reading.Series, 0, len(v.series))
	for s := range v.series {
		names = append(names, s)
	}
	slices.SortFunc(names, reading.Series.Compare)
	for _, s := range names {
		e := v.series[s]
		for i, n := range e.seen {
			if n == 0 {
				v.report.Missing.add("%s = %v", at(s, e.points[i].Time), e.points[i].Value)
			}
		}
	}
}

// contents is what a bucket was found to hold.
type contents struct {
	count       int64
	sum, size   float64 // size is the sum without signs
	least, most float64
	problems    []string
}

func (c *contents) say(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// add takes in a bucket, or a piece of one.
func (c *contents) add(b *Stored) {
	if len(b.Offsets) != len(b.Values) {
		c.say("%d offsets, but %d values", len(b.Offsets), len(b.Values))
		return
	}
	for _, v := range b.Values {
		if c.count == 0 {
			c.least, c.most = v, v
		}
		c.count++
		c.sum += v
		c.size += math.Abs(v)
		c.least, c.most = min(c.least, v), max(c.most, v)
	}
	offsets := slices.Sorted(slices.Values(b.Offsets))
	if len(offsets) > 0 && offsets[0] < 0 {
		c.say("offset %d lies before its start", offsets[0])
	}
	for i := 1; i < len(offsets); i++ {
		if offsets[i] == offsets[i-1] {
			c.say("offset %d stands in it twice", offsets[i])
			break
		}
	}
}

// contradictions are the ways in which a bucket's summary, id or arrays do not
// agree with each other.
func (c *contents) contradictions(b *Stored) []string {
	if want := b.Series.ID(b.Start); b.ID != want {
		c.say("its _id is %x, not %x", b.ID, want)
	}
	if len(b.Offsets) != len(b.Values) {
		return c.problems
	}
	if b.Count != c.count {
		c.say("count is %d, but it holds %d readings", b.Count, c.count)
	}
	if c.count == 0 {
		c.say("it holds no readings")
		return c.problems
	}
	if b.Min != c.least || b.Max != c.most {
		c.say("min and max are %v and %v, but the values' are %v and %v", b.Min, b.Max, c.least, c.most)
	}
	if !(math.Abs(b.Sum-c.sum) <= sumTolerance*c.size) { // in this form also false for NaN
		c.say("sum is %v, but the values' is %v", b.Sum, c.sum)
	}
	return c.problems
}

// at names a reading or a bucket.
func at(s reading.Series, ms int64) string {
	return fmt.Sprintf("%q %s at %s", s.Sensor, s.Metric, time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z"))
}
