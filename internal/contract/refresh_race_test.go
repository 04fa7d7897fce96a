package contract

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"gudang/internal/reading"
	"gudang/internal/sink"
)

// Two processes refresh all the time while a third stores readings and merges
// them into the document: at the end it is what the buckets say, though nothing
// has refreshed it since.
func TestSQLiteRefreshLosesNothingUnderWrites(t *testing.T) {
	dir := t.TempDir()
	w, r := openSQLite(t, dir)
	const keep, flushes = 5, 300
	ctx, done := context.WithCancel(t.Context())
	var refreshing sync.WaitGroup
	counts := make([]map[sink.Refreshed]int, 2)
	for i := range counts {
		beside, err := sink.OpenSQLite(dir, minute, sink.SQLiteBeside())
		if err != nil {
			t.Fatal(err)
		}
		defer beside.Close()
		counts[i] = map[sink.Refreshed]int{}
		refreshing.Go(func() {
			for ctx.Err() == nil {
				result, err := beside.RefreshSensor(t.Context(), "busy", keep, func(ctx context.Context) (reading.Sensor, error) {
					return r.Truth(ctx, "busy", keep)
				})
				if err != nil {
					t.Errorf("refresh: %v", err)
					return
				}
				counts[i][result]++
			}
		})
	}
	for i := range int64(flushes) {
		metric := fmt.Sprint("m", i%3)
		at := i * 700
		if i%10 == 0 {
			at = i * 300 // late
		}
		b := bucketOf(series("busy", metric), minute.Start(base+at), point{int32(base + at - minute.Start(base+at)), float64(at) + 0.5})
		writeTo(t, w, b)
		if err := w.MergeSensors(t.Context(), []reading.Sensor{sensorOf("busy", metric, at)}, keep); err != nil {
			t.Fatal(err)
		}
	}
	done()
	refreshing.Wait()
	truth, err := r.Truth(t.Context(), "busy", keep)
	if err != nil {
		t.Fatal(err)
	}
	have, err := r.Sensor(t.Context(), "busy")
	if err != nil {
		t.Fatal(err)
	}
	wantSensor(t, have, truth)
	t.Logf("refreshed %v", counts)
}
