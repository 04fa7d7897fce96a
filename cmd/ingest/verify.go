package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"gudang/internal/query"
)

// files is a flag that can be given several times.
type files []string

func (f *files) String() string        { return fmt.Sprint(*f) }
func (f *files) Set(name string) error { *f = append(*f, name); return nil }

// runVerify checks that each reading of the manifests is stored exactly once,
// and nothing else is.
func runVerify(ctx context.Context, c *config, out io.Writer, args []string) error {
	var manifests files
	set := newFlags("verify")
	set.Var(&manifests, "manifest", "`FILE` that simulate wrote; may be given several times")
	wait := set.Duration("wait", 0, "how long to wait until it holds, while the service is still storing")
	asJSON := set.Bool("json", false, "for programs")
	if err := parse(set, args); err != nil {
		return err
	}
	if len(manifests) == 0 {
		fmt.Fprintln(set.Output(), "ingest verify: give a manifest: -manifest FILE, as written by simulate -manifest FILE")
		return errUsage
	}
	store, err := openReader(c)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.Ping(ctx); err != nil {
		return fmt.Errorf("cannot verify %s: %w", c.storeName(), err)
	}
	if !*asJSON {
		fmt.Fprintf(out, "store        %s\n", c.storeName())
	}
	report, err := verify(ctx, store, manifests)
	for deadline := time.Now().Add(*wait); err == nil && !report.OK() && time.Now().Before(deadline); {
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		report, err = verify(ctx, store, manifests)
	}
	if err != nil {
		return err
	}
	if *asJSON {
		err = json.NewEncoder(out).Encode(struct {
			OK bool `json:"ok"`
			query.Report
		}{report.OK(), report})
	} else {
		err = report.WriteText(out)
	}
	if err == nil && !report.OK() {
		return errCheck
	}
	return err
}

func verify(ctx context.Context, store query.Store, names []string) (query.Report, error) {
	var readers []io.Reader
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return query.Report{}, fmt.Errorf("cannot open the manifest: %w", err)
		}
		defer f.Close()
		readers = append(readers, f)
	}
	return query.Verify(ctx, store, readers...)
}
