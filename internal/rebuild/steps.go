package rebuild

import (
	"context"
	"maps"
	"slices"

	"gudang/internal/reading"
)

const (
	// A write is bounded, so that ingestion gets its turn in between.
	bucketsAtOnce  = 1000
	readingsAtOnce = 20_000
)

// carryOut puts each reading into its own bucket first, and only then takes it
// out of those that it does not belong to. At every moment it is in one.
func (p *plan) carryOut(ctx context.Context) error {
	if err := p.mend(ctx); err != nil {
		return err
	}
	var missing []*reading.Bucket
	for _, start := range p.starts() {
		if w := p.windows[start]; !w.outlier && !w.mended {
			if lacking := w.lacking(p.placed); lacking.Count() > 0 {
				missing = append(missing, lacking)
			}
		}
	}
	if err := p.add(ctx, missing); err != nil {
		return err
	}
	return p.shrink(ctx)
}

// lacking is what the window's bucket does not have yet. What it has is
// placed.
func (w *window) lacking(placed map[int64]bool) *reading.Bucket {
	b := &reading.Bucket{Series: w.want.Series, Start: w.want.Start}
	for i, off := range w.want.Offsets {
		t := w.want.Start + int64(off)
		if _, there := w.have[t]; there {
			placed[t] = true
		} else {
			b.Add(t, w.want.Values[i])
		}
	}
	return b
}

// mend replaces the buckets that are wrong.
func (p *plan) mend(ctx context.Context) error {
	var keys []reading.Key
	for _, start := range p.starts() {
		if w := p.windows[start]; w.there && w.wrong && !w.outlier {
			keys = append(keys, w.want.Key())
		}
	}
	replaced := map[int64]bool{}
	err := p.target.FixBuckets(ctx, keys, func(have *reading.Record) *reading.Bucket {
		w := p.windows[have.Start]
		w.mended = true
		want, right := p.corrected(have, w)
		if right {
			return nil
		}
		replaced[have.Start] = true
		return want
	})
	if err != nil {
		return err
	}
	p.sum.Mended += int64(len(replaced))
	for _, key := range keys {
		w := p.windows[key.Start]
		if !w.mended { // it was removed, or has become an outlier
			clear(w.have)
			continue
		}
		for _, off := range w.want.Offsets {
			p.placed[w.want.Start+int64(off)] = true
		}
	}
	return nil
}

// corrected is the bucket as it should be: with raw's values, and with what it
// has beside raw, readings of other windows included, which leave it later.
func (p *plan) corrected(have *reading.Record, w *window) (want *reading.Bucket, right bool) {
	right = have.Sound()
	want = &reading.Bucket{Series: have.Series, Start: have.Start}
	for i, off := range have.Offsets[:min(len(have.Offsets), len(have.Values))] {
		t, v := have.Start+int64(off), have.Values[i]
		if inRaw, ok := p.raw[t]; ok && inRaw != v {
			v, right = inRaw, false
		}
		if v-v == 0 { // neither NaN nor an infinity
			want.Add(t, v)
		}
	}
	return want, want.Merge(w.want) == 0 && right
}

// add writes what buckets lack.
func (p *plan) add(ctx context.Context, missing []*reading.Bucket) error {
	for len(missing) > 0 {
		n, readings := 0, 0
		for n < len(missing) && n < bucketsAtOnce && (n == 0 || readings+missing[n].Count() <= readingsAtOnce) {
			readings += missing[n].Count()
			n++
		}
		refused, err := p.target.Write(ctx, slices.Clone(missing[:n]))
		if err != nil {
			return err
		}
		for _, b := range missing[:n] {
			for _, off := range b.Offsets {
				p.placed[b.Start+int64(off)] = true
			}
		}
		p.sum.Added += int64(readings - len(refused))
		for _, r := range refused {
			if r.Verdict == reading.Added { // refused for good: it must stay where it is
				p.sum.Refused++
				delete(p.placed, r.Bucket.Start+int64(r.Offset))
			}
		}
		missing = missing[n:]
	}
	return nil
}

// shrink takes out of buckets what is in its own bucket by now.
func (p *plan) shrink(ctx context.Context) error {
	keys := make([]reading.Key, 0, len(p.strays))
	for _, start := range slices.Sorted(maps.Keys(p.strays)) {
		keys = append(keys, reading.Key{Series: p.series, Start: start})
	}
	moved, removed := map[int64]int{}, map[int64]bool{}
	err := p.target.FixBuckets(ctx, keys, func(have *reading.Record) *reading.Bucket {
		rest, n := p.without(have)
		if n == 0 {
			return nil
		}
		moved[have.Start], removed[have.Start] = n, rest.Count() == 0
		return rest
	})
	if err != nil {
		return err
	}
	for start, n := range moved {
		p.sum.Moved += int64(n)
		if removed[start] {
			p.sum.Removed++
		}
	}
	return nil
}

// without is a bucket without those of its strays that are placed, and how many
// these are.
func (p *plan) without(have *reading.Record) (rest *reading.Bucket, gone int) {
	rest = &reading.Bucket{Series: have.Series, Start: have.Start}
	strays := p.strays[have.Start]
	for i, off := range have.Offsets[:min(len(have.Offsets), len(have.Values))] {
		t, v := have.Start+int64(off), have.Values[i]
		if _, stray := slices.BinarySearch(strays, t); stray && p.placed[t] {
			gone++
		} else if v-v == 0 { // neither NaN nor an infinity
			rest.Add(t, v)
		}
	}
	return rest, gone
}
