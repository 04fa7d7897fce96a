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
// and nothing else is; without a manifest, that buckets and raw readings agree.
func runVerify(ctx context.Context, c *config, out io.Writer, args []string) error {
	var manifests files
	set := newFlags("verify")
	set.Var(&manifests, "manifest", "`FILE` that simulate wrote; may be given several times. Without it buckets are compared with raw readings")
	wait := set.Duration("wait", 0, "how long to wait until it holds, while the service is still storing")
	asJSON := set.Bool("json", false, "for programs")
	if err := parse(set, args); err != nil {
		return err
	}
	store, err := openReader(c)
	if err != nil {
		return err
	}
	defer store.Close()
	look := func() (report, error) { return verify(ctx, store, manifests) }
	if len(manifests) == 0 {
		if err := somethingRaw(ctx, store, set.Output()); err != nil {
			return err
		}
		look = func() (report, error) { return query.VerifyRaw(ctx, store, rawCheck(c, time.Now())) }
	}
	if err := store.Ping(ctx); err != nil {
		return fmt.Errorf("cannot verify %s: %w", c.storeName(), err)
	}
	if !*asJSON {
		fmt.Fprintf(out, "store        %s\n", c.storeName())
	}
	found, err := look()
	for deadline := time.Now().Add(*wait); err == nil && !found.OK() && time.Now().Before(deadline); {
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		found, err = look()
	}
	if err != nil {
		return err
	}
	if *asJSON {
		err = printJSON(out, found)
	} else {
		err = found.WriteText(out)
	}
	if err == nil && !found.OK() {
		return errCheck
	}
	return err
}

// somethingRaw says what to give where there is nothing to compare with.
func somethingRaw(ctx context.Context, store query.Store, errOut io.Writer) error {
	raw, err := store.RawExtent(ctx)
	if err == nil && raw.Count == 0 {
		fmt.Fprintln(errOut, "ingest verify: raw is empty, there is nothing to compare with: RAW=true keeps raw readings from now on; "+
			"or give a manifest: -manifest FILE, as written by simulate -manifest FILE")
		return errUsage
	}
	return err
}

// report is what a check found.
type report interface {
	OK() bool
	WriteText(w io.Writer) error
}

func printJSON(out io.Writer, found report) error {
	switch r := found.(type) {
	case query.Report:
		return json.NewEncoder(out).Encode(struct {
			OK bool `json:"ok"`
			query.Report
		}{r.OK(), r})
	case query.RawReport:
		return json.NewEncoder(out).Encode(struct {
			OK bool `json:"ok"`
			query.RawReport
		}{r.OK(), r})
	}
	return fmt.Errorf("BUG: a report of type %T", found)
}

// agingSlack is how long before its time a reading counts as one that may be
// deleted: a check of a large store takes a while.
const agingSlack = time.Hour

// rawCheck is what the settings say of how long raw readings and buckets are
// kept.
func rawCheck(c *config, now time.Time) query.RawCheck {
	check := query.RawCheck{Span: c.span, Ended: !c.Raw}
	if c.RawRetention > 0 {
		check.RawSince = now.Add(agingSlack - c.RawRetention).UnixMilli()
	}
	if c.Retention > 0 {
		check.BucketsSince = now.Add(agingSlack - c.Retention).UnixMilli()
	}
	return check
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
