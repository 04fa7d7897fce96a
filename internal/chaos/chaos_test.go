//go:build unix

package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gudang/internal/fleet"
	"gudang/internal/manifest"
)

var (
	seeds    = flag.Int("seeds", 4, "how many runs")
	first    = flag.Uint64("first", 1, "the seed of the first run; the others count up from it")
	duration = flag.Duration("duration", 6*time.Second, "for how long faults happen in a run")
	storeOf  = flag.String("store", "both", "sqlite, ferretdb or both")
)

// What is broken on a schedule ends exact. By default these are a few short
// runs; make chaos asks for more.
func TestScheduledFaults(t *testing.T) {
	if !slices.Contains([]string{"sqlite", "ferretdb", "both"}, *storeOf) {
		t.Fatalf("-store %q: must be sqlite, ferretdb or both", *storeOf)
	}
	for i := range *seeds {
		seed := *first + uint64(i)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			r := newRun(t, draw(t, seed, *duration, *storeOf))
			r.play()
			verdict := "exact"
			if len(r.problems) > 0 {
				verdict = "FAILED"
				t.Errorf("%s\nfailed: %s\nthe same schedule again: make chaos SEED=%d DURATION=%v STORE=%s",
					r.describe(), strings.Join(r.problems, "\n"), seed, *duration, *storeOf)
			}
			fmt.Printf("seed %d: %s; %d messages, %d readings, %v; %s; %s\n", seed, verdict, r.published.Published, r.published.Readings,
				time.Since(begun).Round(time.Second), r.tally(), r.describe())
		})
	}
}

// tally counts the faults by kind.
func (r *run) tally() string {
	n := map[string]int{}
	for _, e := range r.events {
		n[fmt.Sprintf("%s %s", e.lane, e.name)]++
	}
	var said []string
	for _, name := range slices.Sorted(maps.Keys(n)) {
		said = append(said, fmt.Sprintf("%d × %s", n[name], name))
	}
	return strings.Join(said, ", ")
}

// runFleet publishes until all is acknowledged, in the background.
func runFleet(t *testing.T, f *fleet.Fleet, m *fleet.MQTT, w *manifest.Writer, files ...*os.File) *publishing {
	ctx, stop := context.WithCancel(t.Context())
	p := &publishing{progress: func() string { return fmt.Sprint(f.Summary().Acked) }, done: make(chan fleetEnd, 1), stop: stop}
	go func() {
		sum, err := f.RunMQTT(ctx, m, w)
		err = errors.Join(err, w.Close())
		for _, c := range files {
			err = errors.Join(err, io.Closer(c).Close())
		}
		p.done <- fleetEnd{sum, err}
	}()
	return p
}
