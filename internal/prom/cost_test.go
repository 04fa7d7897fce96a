package prom_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gudang/internal/prom"
	"gudang/internal/query"
	"gudang/internal/reading"
)

const dayMS = 86_400_000

// counter counts what is read from a store.
type counter struct {
	query.Store
	documents, lists atomic.Int64
}

func (c *counter) NewestAt(ctx context.Context, s reading.Series, from, at int64) (reading.Stretch, error) {
	found, err := c.Store.NewestAt(ctx, s, from, at)
	c.documents.Add(int64(found.Documents))
	return found, err
}

func (c *counter) Stretch(ctx context.Context, s reading.Series, from, until int64, limit int) (reading.Stretch, error) {
	found, err := c.Store.Stretch(ctx, s, from, until, limit)
	c.documents.Add(int64(found.Documents))
	return found, err
}

func (c *counter) Summaries(ctx context.Context, q reading.Query) ([]reading.Summary, error) {
	found, err := c.Store.Summaries(ctx, q)
	c.documents.Add(int64(len(found)))
	return found, err
}

func (c *counter) Sensors(ctx context.Context, after string, limit int) ([]reading.Sensor, error) {
	c.lists.Add(1)
	return c.Store.Sensors(ctx, after, limit)
}

func (c *counter) Sensor(ctx context.Context, id string) (reading.Sensor, error) {
	c.documents.Add(1)
	return c.Store.Sensor(ctx, id)
}

// month is 30 days of one sensor, a reading every 10 s.
func month(t testing.TB) *counter {
	w := make(world)
	w.every("S-01", "temperature", 417, 30*dayMS, 10_000, wave(21, 4, 400))
	return &counter{Store: w.sqlite(t)}
}

func TestACostOfPointsAndNotOfReadings(t *testing.T) {
	t.Parallel()
	store := month(t)
	url := serve(t, api(store))
	// cost is how many documents are read for an answer of n points, and over
	// how long.
	cost := func(expression string, n, length int64) int64 {
		t.Helper()
		store.documents.Store(0)
		step := length / n
		a := ask(t, url, expression, times{step, n * step, step})
		points := 0
		for _, s := range a.series {
			points += len(s)
		}
		if int64(points) < n-1 {
			t.Fatalf("%s: %d points, want %d (%s)", expression, points, n, a.errorType)
		}
		return store.documents.Load()
	}
	for _, tt := range []struct {
		expression string
		most       int64 // documents a point
	}{
		{`temperature{sensor="S-01"}`, 3},
		{`temperature{sensor="S-01"} offset 3d`, 3},
		{`temperature:avg{sensor="S-01",span="1m"}`, 2},
		{`temperature:min{sensor="S-01",span="1m"}`, 2},
		{`temperature:max{sensor="S-01",span="1m"}`, 2},
		{`timestamp(temperature{sensor="S-01"})`, 3},
		{`max_over_time(temperature{sensor="S-01"}[1m])`, 4},
		{`max_over_time(temperature:max{sensor="S-01"}[5m])`, 7},
	} {
		const points = 1000
		if tt.expression == `temperature{sensor="S-01"} offset 3d` {
			store.documents.Store(0)
			ask(t, url, tt.expression, times{4 * dayMS, 30 * dayMS, 26 * dayMS / points})
		} else {
			cost(tt.expression, points, 30*dayMS)
		}
		n := store.documents.Load()
		t.Logf("%s: %d documents for %d points", tt.expression, n, points)
		if n > tt.most*points+10 || n < points/2 {
			t.Errorf("%s reads %d documents for %d points, want %d a point at most", tt.expression, n, points, tt.most)
		}
	}
	selector := `temperature{sensor="S-01"}`
	if long, short := cost(selector, 250, 30*dayMS), cost(selector, 250, 3*dayMS); long > short*11/10 {
		t.Errorf("250 points cost %d documents over 30 days and %d over 3", long, short)
	}
	if many, few := cost(selector, 1000, 30*dayMS), cost(selector, 100, 30*dayMS); many > 11*few {
		t.Errorf("1000 points cost %d documents, 100 cost %d", many, few)
	}
	if n := store.lists.Load(); n != 0 {
		t.Errorf("a selector with a sensor lists the fleet, %d times", n)
	}
	// Steps shorter than a bucket read each bucket once.
	if n := cost(selector, 720, dayMS/12); n > 120+2+10 {
		t.Errorf("two hours at 10 s cost %d documents, of 120 that there are", n)
	}
}

func TestAFleetIsListedOnceForADashboard(t *testing.T) {
	t.Parallel()
	w := make(world)
	for i := range 30 {
		w.every(fmt.Sprintf("S-%02d", i), "temperature", 0, 60_000, 10_000, wave(21, 4, 4))
	}
	store := &counter{Store: w.sqlite(t)}
	a := api(store)
	url := serve(t, a)
	now := time.UnixMilli(base)
	prom.SetNow(a, func() time.Time { return now })
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			got := ask(t, url, `temperature{sensor=~"S-0.*"} + on(sensor) temperature:avg or temperature`, times{start: 61_000})
			if len(got.series) != 30 {
				t.Errorf("%d series, want 30", len(got.series))
			}
		})
	}
	group.Wait()
	// One bucket or one summary for each of the series that are selected.
	if lists, documents := store.lists.Load(), store.documents.Load(); lists != 1 || documents > 8*70 {
		t.Errorf("the fleet is listed %d times, %d documents are read for 8 times 70 series", lists, documents)
	}
	now = now.Add(6 * time.Second)
	ask(t, url, `temperature`, times{start: 61_000})
	if lists := store.lists.Load(); lists != 2 {
		t.Errorf("6 seconds later it has been listed %d times, want 2", lists)
	}
}
