package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"gudang/internal/decode"
	"gudang/internal/reading"
)

// Config is how a file is imported.
type Config struct {
	Span reading.Span
	Rows decode.RowsConfig
	// Admit says whether readings of a sensor may be stored.
	Admit func(sensor string) bool
	// Write adds the readings of the buckets to what is stored, and returns
	// which of them were not.
	Write func(ctx context.Context, buckets []*reading.Bucket) ([]reading.Refusal, error)
	// Gather is how many readings are in memory at once; 0: the default. In a
	// file that is not sorted, it is what makes a bucket be written once and not
	// many times.
	Gather int
	// Progress is told after each write, and Format once, if they are not nil.
	Progress func(Summary)
	Format   func(string)
}

// Summary is what became of a file.
type Summary struct {
	Lines     int64     `json:"lines"`
	Readings  int64     `json:"readings"`  // good ones
	Stored    int64     `json:"stored"`    // new in the store
	Already   int64     `json:"already"`   // there before, or earlier in the file
	Conflicts int64     `json:"conflicts"` // another value is stored, which stays
	Refused   int64     `json:"refused"`   // the store will never take them
	Empty     int64     `json:"empty"`     // cells without a value
	Text      int64     `json:"text"`      // cells of unknown columns with something else than a number
	Bad       int64     `json:"bad"`       // what was no reading
	BadLines  []BadLine `json:"badLines"`  // the first of these
}

// BadLine is a line with something in it that is no reading.
type BadLine struct {
	Line   int64          `json:"line"`
	Reason reading.Reason `json:"reason"`
	Detail string         `json:"detail"`
}

const (
	gathered = 200_000
	// A write is bounded, so that a service beside gets its turn.
	bucketsAtOnce  = 1000
	readingsAtOnce = 20_000

	maxBadLines = 100
)

// Import stores the readings of a file. What cannot be one costs its line.
func Import(ctx context.Context, in io.Reader, cfg Config) (Summary, error) {
	if cfg.Gather == 0 {
		cfg.Gather = gathered
	}
	im := importer{cfg: cfg, buckets: map[reading.Key]*reading.Bucket{}}
	im.sum.BadLines = []BadLine{}
	r, err := NewReader(in, cfg.Rows)
	if err != nil {
		return im.sum, err
	}
	if cfg.Format != nil {
		cfg.Format(r.Format())
	}
	var out decode.RowsResult
	for {
		line, err := r.Next(&out)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return im.sum, errors.Join(fmt.Errorf("cannot read on after line %d: %w", line, err), im.flush(ctx))
		}
		im.line(line, &out)
		if im.held >= cfg.Gather {
			if err := im.flush(ctx); err != nil {
				return im.sum, err
			}
		}
		if err := ctx.Err(); err != nil {
			return im.sum, err
		}
	}
	return im.sum, im.flush(ctx)
}

type importer struct {
	cfg     Config
	sum     Summary
	buckets map[reading.Key]*reading.Bucket
	held    int
}

// line takes over what a line became.
func (im *importer) line(n int64, out *decode.RowsResult) {
	im.sum.Lines++
	im.sum.Empty += int64(out.Empty)
	im.sum.Text += int64(out.Text)
	for _, f := range out.Faults {
		im.bad(n, f)
	}
	for _, r := range out.Readings {
		if !im.cfg.Admit(r.Sensor) {
			im.bad(n, decode.Fault{Reason: reading.TooManySensors, Detail: decode.ReasonText(reading.TooManySensors)})
			continue
		}
		im.sum.Readings++
		key := reading.Key{Series: r.Series, Start: im.cfg.Span.Start(r.Time)}
		b := im.buckets[key]
		if b == nil {
			b = &reading.Bucket{Series: r.Series, Start: key.Start}
			im.buckets[key] = b
		}
		switch b.Add(r.Time, r.Value) {
		case reading.Added:
			im.held++
		case reading.Duplicate:
			im.sum.Already++
		case reading.Conflict:
			im.sum.Conflicts++
		}
	}
}

func (im *importer) bad(line int64, f decode.Fault) {
	im.sum.Bad++
	if len(im.sum.BadLines) < maxBadLines {
		im.sum.BadLines = append(im.sum.BadLines, BadLine{line, f.Reason, f.Detail})
	}
}

// flush writes what is gathered, in order of time.
func (im *importer) flush(ctx context.Context) error {
	list := make([]*reading.Bucket, 0, len(im.buckets))
	for _, b := range im.buckets {
		list = append(list, b)
	}
	clear(im.buckets)
	im.held = 0
	slices.SortFunc(list, func(a, b *reading.Bucket) int { return a.Key().Compare(b.Key()) })
	for len(list) > 0 {
		n, readings := 0, 0
		for n < len(list) && n < bucketsAtOnce && (n == 0 || readings+list[n].Count() <= readingsAtOnce) {
			readings += list[n].Count()
			n++
		}
		refused, err := im.cfg.Write(ctx, list[:n])
		if err != nil {
			return err
		}
		im.sum.Stored += int64(readings - len(refused))
		for _, r := range refused {
			switch r.Verdict {
			case reading.Duplicate:
				im.sum.Already++
			case reading.Conflict:
				im.sum.Conflicts++
			default:
				im.sum.Refused++
			}
		}
		if im.cfg.Progress != nil {
			im.cfg.Progress(im.sum)
		}
		list = list[n:]
	}
	return nil
}
