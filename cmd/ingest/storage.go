package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"gudang/internal/query"
	"gudang/internal/reading"
)

// storageReport is what the command found.
type storageReport struct {
	Store   string    `json:"store"`
	Span    string    `json:"span"`
	Raw     part      `json:"raw"`
	Buckets part      `json:"buckets"`
	Outlier part      `json:"outliers"`
	Saved   float64   `json:"savedPercent"`
	Against string    `json:"against"` // raw documents that are stored, or computed ones
	RawEach float64   `json:"rawBytesPerReading"`
	AddedBy string    `json:"addedUpBy"`
	Spans   spanTable `json:"otherSpans"`

	Disk        *query.Disk        `json:"disk,omitempty"`
	Collections []query.Collection `json:"collections"`
}

type part struct {
	query.Part
	Each float64 `json:"bytesPerReading"`
}

type spanTable struct {
	Sampled   bool      `json:"sampled"`
	Series    int       `json:"series"`
	AllSeries int       `json:"allSeries"`
	Readings  int64     `json:"readings"`
	Spans     []spanRow `json:"spans"`
}

type spanRow struct {
	Span     string  `json:"span"`
	InForce  bool    `json:"inForce"`
	Each     float64 `json:"bytesPerReading"`
	Saved    float64 `json:"savedPercent"`
	Buckets  int64   `json:"documents"`
	Bytes    int64   `json:"bytes"`
	Outliers bool    `json:"outliers"` // some would be too full for a bucket
}

// runStorage says what the store takes, and what it would in other buckets.
func runStorage(ctx context.Context, c *config, out io.Writer, args []string) error {
	set := newFlags("storage")
	ascii := set.Bool("ascii", false, "draw with plain ASCII")
	asJSON := set.Bool("json", false, "for programs")
	if err := parse(set, args); err != nil {
		return err
	}
	store, err := openReader(c)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.Ping(ctx); err != nil {
		return fmt.Errorf("cannot measure %s: %w", c.storeName(), err)
	}
	r, err := measureStorage(ctx, c, store)
	if err != nil {
		return err
	}
	if *asJSON {
		return json.NewEncoder(out).Encode(r)
	}
	_, err = io.WriteString(out, r.text(canvasOf(out, *ascii)))
	return err
}

func measureStorage(ctx context.Context, c *config, store query.Store) (storageReport, error) {
	s, err := store.Storage(ctx)
	if err != nil {
		return storageReport{}, err
	}
	spans := []reading.Span{10_000, 60_000, 600_000, 3_600_000, 86_400_000, c.span}
	slices.Sort(spans)
	costs, err := query.Simulate(ctx, store, s.Bucketed().Readings, int64(c.OutlierReadings), slices.Compact(spans)...)
	if err != nil {
		return storageReport{}, err
	}
	r := storageReport{
		Store: c.storeName(), Span: short(c.BucketSpan), AddedBy: s.By, Saved: percent(s.Saved()), Against: "computed",
		Raw: part{s.Raw, s.Raw.Each()}, Buckets: part{s.Buckets, s.Buckets.Each()}, Outlier: part{s.Outliers, s.Outliers.Each()},
		Disk: s.Disk, Collections: s.Collections,
		Spans: spanTable{Sampled: costs.Sampled, Series: costs.Series, AllSeries: costs.AllSeries, Readings: costs.Readings, Spans: []spanRow{}},
	}
	var stored bool
	if r.RawEach, stored = s.RawEach(); stored {
		r.Against = "stored"
	}
	for _, cost := range costs.Spans {
		r.Spans.Spans = append(r.Spans.Spans, spanRow{
			Span: short(cost.Span.Duration()), InForce: cost.Span == c.span, Each: cost.Each(), Saved: percent(cost.Saved()),
			Buckets: cost.Buckets.Documents, Bytes: cost.Buckets.Bytes, Outliers: cost.Largest > int64(c.OutlierReadings),
		})
	}
	return r, nil
}

// percent is a part in percent, to a tenth.
func percent(part float64) float64 { return math.Round(part*1000) / 10 }

// short is a duration without the zeros that time.Duration ends with.
func short(d time.Duration) string {
	text := d.String()
	if d >= time.Minute && strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if d >= time.Hour && strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func (r *storageReport) text(c canvas) string {
	var b strings.Builder
	fmt.Fprintf(&b, "store      %s\nspan       %s\n\n", r.Store, r.Span)
	fmt.Fprintf(&b, "%-10s %14s %14s %12s %14s\n", "BSON", "documents", "readings", "bytes", "a reading")
	for _, row := range []struct {
		name string
		part
	}{{"raw", r.Raw}, {"buckets", r.Buckets}, {"outliers", r.Outlier}} {
		each := "-"
		if row.Readings > 0 {
			each = fmt.Sprintf("%.1f B", row.Each)
		}
		fmt.Fprintf(&b, "%-10s %14s %14s %12s %14s\n", row.name, humanize.Comma(row.Documents), humanize.Comma(row.Readings), size(row.Bytes), each)
	}
	if r.RawEach > 0 {
		of := "the same readings take, each a raw document"
		if r.Against == "stored" {
			of = "the raw documents in the store take"
		}
		fmt.Fprintf(&b, "\nsaved      %.1f %% of what %s (%.1f B)\n", r.Saved, of, r.RawEach)
	}
	r.disk(&b)
	r.chart(&b, c)
	return b.String()
}

func size(bytes int64) string { return humanize.IBytes(uint64(max(bytes, 0))) }

// known is a size that may not be known.
func known(bytes *int64) string {
	if bytes == nil {
		return "unknown"
	}
	return size(*bytes)
}

func (r *storageReport) disk(b *strings.Builder) {
	fmt.Fprintf(b, "\n%-10s %14s %14s   %s\n", "on disk", "documents", "data", "indexes")
	for _, t := range r.Collections {
		var indexes []string
		for _, i := range t.Indexes {
			indexes = append(indexes, i.Name+" "+known(i.Bytes))
		}
		below := ",\n" + strings.Repeat(" ", 43)
		line := fmt.Sprintf("%-10s %14s %14s   %s", t.Name, humanize.Comma(t.Documents), known(t.Disk), strings.Join(indexes, below))
		fmt.Fprintln(b, strings.TrimRight(line, " "))
	}
	if r.Disk != nil {
		fmt.Fprintf(b, "%-10s %14s %14s   %s of it free for what comes\n", "the file", "", size(r.Disk.Bytes), size(r.Disk.Free))
	}
}

// chart draws what a reading takes, raw and in buckets of each span.
func (r *storageReport) chart(b *strings.Builder, c canvas) {
	t := r.Spans
	if t.Readings == 0 {
		return
	}
	of := "all"
	if t.Sampled {
		of = fmt.Sprintf("a sample, %d of %s series:", t.Series, humanize.Comma(int64(t.AllSeries)))
	}
	fmt.Fprintf(b, "\nbytes a reading by span (%s %s readings)\n", of, humanize.Comma(t.Readings))
	most := r.RawEach
	for _, row := range t.Spans {
		most = max(most, row.Each)
	}
	line := func(name, note string, each float64) {
		head := fmt.Sprintf("%-6s %8.1f B %-10s ", name, each, note)
		fmt.Fprintln(b, head+c.bar(each/most, c.width-len(head)))
	}
	line("raw", "", r.RawEach)
	crowded := false
	for _, row := range t.Spans {
		note := fmt.Sprintf("%+.1f %%", -row.Saved)
		if row.InForce {
			note += " <"
		}
		name := row.Span
		if row.Outliers {
			name, crowded = name+"*", true
		}
		line(name, note, row.Each)
	}
	fmt.Fprintf(b, "< BUCKET_SPAN as it is\n")
	if crowded {
		fmt.Fprintf(b, "* some hold more than OUTLIER_READINGS and would keep their readings one by one\n")
	}
}
