package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"gudang/internal/query"
	"gudang/internal/reading"
)

const (
	day = 24 * 60 * 60 * 1000 // ms
	// fewSpans is how many spans the newest buckets have to cover for a rate
	// to be told from them.
	fewSpans = 3
)

// Growth is how fast the store grows.
type Growth struct {
	Buckets, Readings, Bytes float64 // a day; bytes of BSON
	Over                     int64   // ms that it was seen over
}

// growthOf tells the rate from the newest buckets, by the times that they are
// of. What is far off those of the others, late or ahead, is left out. Where
// they are all of one moment, it goes by how far back older ones lie.
func growthOf(e *Examination, span reading.Span, now int64) (Growth, bool) {
	recent := e.Recent
	starts := make([]int64, 0, len(recent))
	for _, b := range recent {
		if b.Key.Start <= now {
			starts = append(starts, b.Key.Start)
		}
	}
	if len(starts) == 0 {
		return Growth{}, false
	}
	slices.Sort(starts)
	from, to := starts[len(starts)/20], starts[len(starts)-1-len(starts)/20]
	g := Growth{Over: to - from + int64(span)}
	for _, b := range recent {
		if b.Key.Start >= from && b.Key.Start <= to {
			g.Buckets++
			g.Readings += float64(b.Count)
			g.Bytes += float64(b.Bytes)
		}
	}
	scale := day / float64(g.Over)
	if g.Over < fewSpans*int64(span) {
		i := slices.IndexFunc(e.Marks, func(m query.Mark) bool { return m.Start <= to-fewSpans*int64(span) })
		if i < 0 {
			return g, false
		}
		g.Over = to - e.Marks[i].Start
		scale = float64(e.Marks[i].Newer) / g.Buckets * day / float64(g.Over)
	}
	g.Buckets, g.Readings, g.Bytes = g.Buckets*scale, g.Readings*scale, g.Bytes*scale
	return g, true
}

// onDisk is what the store takes on the disk, if that is known.
func onDisk(e query.Examination) (bytes int64, known bool) {
	if e.Disk != nil {
		return e.Disk.Bytes, true
	}
	for _, c := range e.Collections {
		if c.Disk != nil {
			bytes, known = bytes+*c.Disk, true
		}
		for _, i := range c.Indexes {
			if i.Bytes != nil {
				bytes += *i.Bytes
			}
		}
	}
	return bytes, known
}

// room judges whether DATA_DIR has room for what may come.
func (r *Report) room(in Input) {
	const check = "disk"
	s := in.Settings
	switch {
	case in.Free < 0:
		r.fact(check, "how much is free in DATA_DIR is not known here")
	case s.Journal && in.Free < s.JournalMaxBytes:
		r.find(Warning, check, "the disk may be full before the journal is", fmt.Sprintf("%s are free in DATA_DIR, JOURNAL_MAX_BYTES is %s", kib(in.Free), kib(s.JournalMaxBytes)),
			"lower JOURNAL_MAX_BYTES, or make room")
	default:
		r.fact(check, "%s are free in DATA_DIR", kib(in.Free))
	}
}

// growth judges how long the disk lasts.
func (r *Report) growth(in Input) {
	const check = "growth"
	s, e := in.Settings, in.Store
	g, ok := growthOf(&e, s.Span, in.Now.UnixMilli())
	if !ok {
		if len(e.Recent) > 0 {
			r.fact(check, "the newest %d buckets cover too little time to tell", len(e.Recent))
		}
		return
	}
	perDay, unit := g.Bytes, "BSON"
	taken, known := onDisk(e)
	if known && e.Buckets > 0 && taken > 0 {
		perDay, unit = g.Buckets*float64(taken)/float64(e.Buckets), "disk"
	} else {
		taken = int64(float64(e.Buckets) * g.Bytes / g.Buckets)
	}
	text := fmt.Sprintf("%s readings and %s of %s a day, as seen over %s", humanize.Comma(int64(g.Readings)), kib(int64(perDay)), unit, ago(g.Over))
	free := in.Free
	if !s.EmbeddedStore {
		free = -1
	}
	if in.Disk > 0 {
		free = max(in.Disk-taken, 0)
	}
	most := perDay * s.Retention.Hours() / 24 // that the store will ever take, once it deletes
	switch {
	case free < 0:
		r.fact(check, "%s; -disk SIZE says when a disk of that size is full", text)
	case s.Retention > 0 && most < float64(free+taken):
		r.fact(check, "%s; RETENTION keeps it at about %s, which fits", text, kib(int64(most)))
	default:
		days := float64(free) / perDay
		r.fact(check, "%s; the disk is full in %s", text, span(days))
		r.full(days, free)
	}
}

// span is a number of days as people say it.
func span(days float64) string {
	if days >= 2*365 {
		return fmt.Sprintf("%.0f years", days/365)
	}
	return fmt.Sprintf("%.0f days", days)
}

func (r *Report) full(days float64, free int64) {
	level, soon := Note, days < 90
	switch {
	case days < 7:
		level = Serious
	case days < 30:
		level = Warning
	}
	if soon {
		r.find(level, "growth", fmt.Sprintf("the disk is full in %.0f days", days), kib(free)+" are left", "set RETENTION, lengthen BUCKET_SPAN (ingest storage says what that saves), or get a larger disk")
	}
}

// retention says who deletes what.
func (r *Report) retention(in Input) {
	const check = "retention"
	kept := map[string][]string{} // by who deletes
	for _, k := range []struct {
		setting, collection, field string
		keep                       time.Duration
	}{
		{"RETENTION", "buckets", "start", in.Settings.Retention},
		{"RETENTION", "overflow", "time", in.Settings.Retention},
		{"RAW_RETENTION", "raw", "time", in.Settings.RawRetention},
	} {
		after := expires(in.Store, k.collection, k.field)
		want := int64(k.keep / time.Second)
		ttl := fmt.Sprintf("MongoDB deletes from %s by the index %s_1", k.collection, k.field)
		switch {
		case after == nil && k.keep == 0:
			kept["nobody deletes from"] = append(kept["nobody deletes from"], k.collection)
		case after == nil:
			who := fmt.Sprintf("the service deletes, by %s=%v, from", k.setting, k.keep)
			kept[who] = append(kept[who], k.collection)
		case k.keep == 0:
			r.find(Serious, check, "MongoDB deletes what should be kept", fmt.Sprintf("%s, after %s; %s is 0", ttl, ago(*after*1000), k.setting), "drop the index, or set "+k.setting)
		case *after != want:
			r.find(Warning, check, "MongoDB does not delete when it should", fmt.Sprintf("%s, after %s; %s=%v", ttl, ago(*after*1000), k.setting, k.keep), "restart the service, which corrects it, or set "+k.setting)
		default:
			r.fact(check, "%s, after %v", ttl, k.keep)
		}
	}
	for _, who := range slices.Sorted(maps.Keys(kept)) {
		r.fact(check, "%s %s", who, strings.Join(kept[who], ", "))
	}
}

// expires is after how many seconds MongoDB deletes by the field, nil if it
// does not.
func expires(e query.Examination, collection, field string) *int64 {
	for _, c := range e.Collections {
		for _, i := range c.Indexes {
			if c.Name == collection && i.ExpireAfter != nil && slices.Equal(i.Fields, []string{field}) {
				return i.ExpireAfter
			}
		}
	}
	return nil
}
