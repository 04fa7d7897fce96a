package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"gudang/internal/bucketer"
	"gudang/internal/decode"
	"gudang/internal/history"
)

const importUsage = `usage: ingest import [flags] FILE|-

FILE has readings as CSV with a header, or as JSON by the line; it may be compressed by gzip. The columns,
in any order: sensor, time, metric and value, or a column for each metric. The objects are as /api/v1/readings
answers them, one a line or the whole answer.

`

// runImport stores the readings of a file.
func runImport(ctx context.Context, c *config, out io.Writer, args []string) error {
	return importFrom(ctx, c, os.Stdin, out, args)
}

func importFrom(ctx context.Context, c *config, in io.Reader, out io.Writer, args []string) error {
	set := newFlags("import")
	set.Usage = func() {
		fmt.Fprint(set.Output(), importUsage)
		set.PrintDefaults()
	}
	rows := decode.RowsConfig{Zone: c.zone, Ranges: c.ranges}
	set.StringVar(&rows.Sensor, "sensor", "", "`ID` of the sensor, where the file names none")
	set.StringVar(&rows.Metric, "metric", "", "`NAME` of the metric, where the file names none")
	asJSON := set.Bool("json", false, "for programs")
	names, err := parseMixed(set, args)
	if err != nil {
		return err
	}
	if len(names) != 1 {
		fmt.Fprintln(set.Output(), "ingest import: give one file, or - for the standard input")
		return errUsage
	}
	size := int64(0)
	if names[0] != "-" {
		f, err := os.Open(names[0])
		if err != nil {
			fmt.Fprintf(set.Output(), "ingest import: cannot read the file: %v\n", err)
			return errUsage
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		in = f
	}
	sum, err := importInto(ctx, c, &counted{Reader: in}, size, rows)
	if werr := printImported(out, sum, err, *asJSON); werr != nil {
		return werr
	}
	if err == nil && sum.Bad+sum.Refused > 0 {
		return errCheck
	}
	return err
}

// importInto imports what is read into the store.
func importInto(ctx context.Context, c *config, in *counted, size int64, rows decode.RowsConfig) (sum history.Summary, err error) {
	w, err := newWriter(ctx, c, c.Raw)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	sensors, err := knownSensors(ctx, c)
	if err != nil {
		return sum, err
	}
	shown := newProgress(logOutput)
	defer shown.end()
	sum, err = history.Import(ctx, in, history.Config{
		Span: c.span, Rows: rows, Admit: sensors.Admit, Write: w.Write,
		Format: func(what string) { fmt.Fprintln(logOutput, "reading", what) },
		Progress: func(s history.Summary) {
			part := -1.0
			if size > 0 {
				part = float64(in.n.Load()) / float64(size)
			}
			shown.show(part, "%d readings, %.0f/s, %d bad", s.Readings, shown.rate(s.Readings), s.Bad)
		},
	})
	if err != nil {
		err = fmt.Errorf("cannot import: %w", err)
	}
	return sum, err
}

// knownSensors are those of the store, for the limit on their number.
func knownSensors(ctx context.Context, c *config) (*bucketer.Sensors, error) {
	store, err := openReader(c)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	sensors := bucketer.NewSensors(c.MaxSensors)
	return sensors, store.SensorIDs(ctx, func(id string) error {
		sensors.Know(id)
		return nil
	})
}

// shownBadLines is how many bad lines a person wants to see.
const shownBadLines = 20

func printImported(out io.Writer, sum history.Summary, failed error, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(struct {
			OK bool `json:"ok"`
			history.Summary
		}{failed == nil && sum.Bad+sum.Refused == 0, sum})
	}
	if failed != nil && sum.Lines == 0 {
		return nil
	}
	for i, bad := range sum.BadLines {
		if i == shownBadLines {
			break
		}
		fmt.Fprintf(out, "line %d  %s: %s\n", bad.Line, bad.Reason, bad.Detail)
	}
	if n := sum.Bad - int64(min(len(sum.BadLines), shownBadLines)); n > 0 {
		fmt.Fprintf(out, "and %d more\n", n)
	}
	fmt.Fprintf(out, "lines          %d\nreadings       %d\nstored         %d\nalready there  %d\nconflicts      %d\nbad            %d\n",
		sum.Lines, sum.Readings, sum.Stored, sum.Already, sum.Conflicts, sum.Bad)
	if sum.Empty > 0 {
		fmt.Fprintf(out, "empty          %d cells\n", sum.Empty)
	}
	if sum.Text > 0 {
		fmt.Fprintf(out, "no number      %d cells of columns that are no known metric\n", sum.Text)
	}
	if sum.Conflicts > 0 {
		fmt.Fprintln(out, "a conflict is a reading whose series has another value at that time, which stays")
	}
	if sum.Refused > 0 {
		fmt.Fprintf(out, "refused        %d: the collection rejected says why\n", sum.Refused)
	}
	if failed != nil {
		fmt.Fprintln(out, "stopped: import the file again to get the rest; what is stored stays as it is")
	}
	return nil
}
