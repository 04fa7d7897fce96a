package query

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"

	"gudang/internal/reading"
)

// RawCheck is how buckets are compared with raw.
type RawCheck struct {
	Span reading.Span
	// RawSince and BucketsSince are the times, in ms, before which raw and
	// buckets have been deleted for their age; 0: they have not.
	RawSince     int64
	BucketsSince int64
	// Ended says that raw readings are not kept any longer: what came after the
	// last of a series is in its buckets alone.
	Ended bool
}

// RawReport is what VerifyRaw found.
type RawReport struct {
	Series    int64   `json:"series"`
	Raw       int64   `json:"raw"`       // raw readings
	Stored    int64   `json:"stored"`    // readings in buckets, each time once
	Same      int64   `json:"same"`      // of these, in raw with the same value
	Buckets   int64   `json:"buckets"`   // buckets
	Grouped   int64   `json:"grouped"`   // of these, compared with raw grouped by the span
	Outside   int64   `json:"outside"`   // readings from before raw began, or after it ended
	Expired   int64   `json:"expired"`   // raw readings whose buckets were deleted for their age
	Missing   Finding `json:"missing"`   // in raw, in no bucket
	Foreign   Finding `json:"foreign"`   // in a bucket, not in raw
	Different Finding `json:"different"` // in both, with two values
	Doubled   Finding `json:"doubled"`   // in two buckets
	Unequal   Finding `json:"unequal"`   // buckets that say otherwise than raw does, grouped
	BadBucket Finding `json:"badBucket"` // buckets that contradict themselves
}

func (r *RawReport) findings() []namedFinding {
	return []namedFinding{
		{"missing", &r.Missing},
		{"foreign", &r.Foreign},
		{"different", &r.Different},
		{"doubled", &r.Doubled},
		{"unequal", &r.Unequal},
		{"bad buckets", &r.BadBucket},
	}
}

type namedFinding struct {
	name string
	*Finding
}

// OK says whether raw and buckets say the same.
func (r RawReport) OK() bool {
	return !slices.ContainsFunc(r.findings(), func(f namedFinding) bool { return f.Count > 0 })
}

// WriteText prints the report for people.
func (r RawReport) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %d readings of %d series\n", "raw", r.Raw, r.Series)
	fmt.Fprintf(&b, "%-12s %d readings in %d buckets, %d of them compared with raw grouped by their span\n", "stored", r.Stored, r.Buckets, r.Grouped)
	fmt.Fprintf(&b, "%-12s %d\n", "same", r.Same)
	if r.Outside > 0 {
		fmt.Fprintf(&b, "%-12s %d readings in buckets, from where raw has none\n", "not compared", r.Outside)
	}
	if r.Expired > 0 {
		fmt.Fprintf(&b, "%-12s %d raw readings whose buckets were deleted for their age\n", "expired", r.Expired)
	}
	for _, f := range r.findings() {
		fmt.Fprintf(&b, "%-12s %d\n", f.name, f.Count)
		for _, e := range f.Examples {
			fmt.Fprintf(&b, "    %s\n", e)
		}
		if n := f.Count - int64(len(f.Examples)); n > 0 {
			fmt.Fprintf(&b, "    and %d more\n", n)
		}
	}
	switch {
	case r.OK() && r.Raw == 0:
		b.WriteString("nothing to compare with: raw is empty\n")
	case r.OK():
		b.WriteString("exact: raw and buckets say the same\n")
	default:
		b.WriteString("NOT exact\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// VerifyRaw compares every bucket with raw: its count, sum, min and max with
// raw's readings grouped by the span, and each of its readings. Its memory does
// not depend on how much is stored.
func VerifyRaw(ctx context.Context, store SeriesReader, check RawCheck) (RawReport, error) {
	v := rawVerifier{store: store, check: check}
	next, stop := iter.Pull2(func(yield func(reading.Summary, error) bool) {
		err := store.RawGroups(ctx, check.Span, func(g reading.Summary) error {
			if !yield(g, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(reading.Summary{}, err)
		}
	})
	defer stop()
	v.nextGroup = func() (err error) {
		v.group, err, v.grouped = next()
		return err
	}
	if err := v.all(ctx); err != nil {
		return v.report, fmt.Errorf("cannot compare buckets with raw: %w", err)
	}
	return v.report, nil
}

func (v *rawVerifier) all(ctx context.Context) error {
	if err := v.nextGroup(); err != nil {
		return err
	}
	for series := (reading.Series{}); ; {
		next, more, err := v.store.NextSeries(ctx, series)
		if err != nil || !more {
			return err
		}
		series = next
		if err := v.oneSeries(ctx, series); err != nil {
			return err
		}
	}
}

type rawVerifier struct {
	store     SeriesReader
	check     RawCheck
	report    RawReport
	group     reading.Summary // the next of raw's groups
	grouped   bool            // there is one
	nextGroup func() error

	// Of the series in hand.
	first   int64            // the time of its first raw reading
	mixedTo int64            // so far buckets of another span reach
	pending *reading.Summary // a bucket to be compared with its group, once its readings are seen
	with    reading.Summary  // that group
}

// oneSeries goes through raw and buckets of a series side by side.
func (v *rawVerifier) oneSeries(ctx context.Context, series reading.Series) error {
	q := reading.Query{Sensor: series.Sensor, Metric: series.Metric, Limit: rawPage}
	raw := pages{ask: v.store.RawReadings, q: q}
	stored := newStream(v.store, q, v.record, func(p reading.Point) { v.report.Doubled.add("%s = %v", at(series, p.Time), p.Value) })
	v.first, v.mixedTo = math.MaxInt64, math.MinInt64
	v.report.Series++
	for {
		a, inRaw, err := raw.peek(ctx)
		if err != nil {
			return err
		}
		if inRaw {
			v.first = min(v.first, a.Time)
		}
		b, inBucket, err := stored.peek(ctx)
		if err != nil {
			return err
		}
		onlyRaw, onlyBucket := inRaw && (!inBucket || a.Time < b.Time), inBucket && (!inRaw || b.Time < a.Time)
		if inRaw && !onlyBucket {
			raw.ready = raw.ready[1:]
			v.report.Raw++
		}
		if inBucket && !onlyRaw {
			stored.drop()
			v.report.Stored++
		}
		switch {
		case !inRaw && !inBucket:
			v.settle()
			return nil
		case onlyRaw && v.expired(a.Time):
			v.report.Expired++
		case onlyRaw:
			v.report.Missing.add("%s = %v", at(series, a.Time), a.Value)
		case onlyBucket && (b.Time < v.first || b.Time < v.check.RawSince || v.check.Ended && !inRaw):
			v.report.Outside++
			v.pending = nil // its group lacks this reading
		case onlyBucket:
			v.report.Foreign.add("%s = %v: raw does not have it", at(series, b.Time), b.Value)
		case a.Value != b.Value:
			v.report.Different.add("%s: raw has %v, the bucket %v", at(series, a.Time), a.Value, b.Value)
		default:
			v.report.Same++
		}
	}
}

// expired says whether the bucket of a raw reading was deleted for its age. A
// bucket goes by its start.
func (v *rawVerifier) expired(ms int64) bool {
	return v.check.BucketsSince > 0 && ms < v.check.BucketsSince+int64(v.check.Span)
}

// record checks a bucket against itself, and has it compared with raw's group
// of its span, unless buckets of other spans share that time.
func (v *rawVerifier) record(r *reading.Record, nextStart int64) error {
	v.settle()
	v.report.Buckets++
	for _, problem := range r.Problems() {
		v.report.BadBucket.add("bucket %s: %s", at(r.Series, r.Start), problem)
	}
	span := int64(v.check.Span)
	end, fits := r.Until, v.check.Span.Start(r.Start) == r.Start
	if r.Outlier {
		fits = fits && (r.Until == 0 || r.Until == r.Start+span)
	} else {
		for _, off := range r.Offsets {
			end = max(end, r.Start+int64(off)+1)
			fits = fits && off >= 0 && int64(off) < span
		}
	}
	if !fits {
		v.mixedTo = max(v.mixedTo, end)
	}
	if !fits || r.Start < v.mixedTo || nextStart < r.Start+span {
		return nil
	}
	for v.grouped && ahead(v.group.Key, r.Key) {
		if err := v.nextGroup(); err != nil {
			return err
		}
	}
	if v.grouped && v.group.Key == r.Key {
		summary := r.Summary
		v.pending, v.with = &summary, v.group
	}
	return nil
}

// ahead says whether a comes before b in the order of series, then start.
func ahead(a, b reading.Key) bool {
	if c := a.Series.Compare(b.Series); c != 0 {
		return c < 0
	}
	return a.Start < b.Start
}

// settle compares the bucket that is pending with its group.
func (v *rawVerifier) settle() {
	have, want := v.pending, v.with
	if have == nil {
		return
	}
	v.pending = nil
	v.report.Grouped++
	var parts []string
	if have.Count != want.Count {
		parts = append(parts, fmt.Sprintf("count %d, raw gives %d", have.Count, want.Count))
	}
	size := float64(want.Count) * max(math.Abs(want.Min), math.Abs(want.Max))
	if !reading.SumsAgree(have.Sum, want.Sum, size) {
		parts = append(parts, fmt.Sprintf("sum %v, raw gives %v", have.Sum, want.Sum))
	}
	if have.Min != want.Min {
		parts = append(parts, fmt.Sprintf("min %v, raw gives %v", have.Min, want.Min))
	}
	if have.Max != want.Max {
		parts = append(parts, fmt.Sprintf("max %v, raw gives %v", have.Max, want.Max))
	}
	if len(parts) > 0 {
		v.report.Unequal.add("bucket %s: %s", at(have.Series, have.Start), strings.Join(parts, "; "))
	}
}
