package sink

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gudang/internal/reading"
)

// documents counts the writes of sensors' documents, and how far behind their
// readings they come.
type documents struct {
	script
	writes, commands int
	latest           time.Duration
}

func (d *documents) MergeSensors(_ context.Context, sensors []reading.Sensor, _ int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes += len(sensors)
	d.commands++
	for _, s := range sensors {
		d.latest = max(d.latest, time.Since(time.UnixMilli(s.FirstSeen)))
	}
	return nil
}

func (d *documents) CreateSensors(ctx context.Context, sensors []reading.Sensor, keep int) error {
	return d.MergeSensors(ctx, sensors, keep)
}

// fleet has sensors send for a while, spread over their interval, flushed each
// second.
func runFleet(t *testing.T, d *documents, sensors, metrics int, interval, during time.Duration) (readings int) {
	t.Helper()
	s := newSink(d)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx, t.Context()); err != nil {
			t.Error(err)
		}
	})
	for second := range int(during / time.Second) {
		var flush []*reading.Bucket
		for i := range sensors {
			if (time.Duration(second)*time.Second)%interval != time.Duration(i)%(interval/time.Second)*time.Second {
				continue
			}
			for m := range metrics {
				now := time.Now().UnixMilli()
				b := &reading.Bucket{Series: reading.Series{Sensor: fmt.Sprint("s", i), Metric: fmt.Sprint("m", m)}, Start: now - now%60_000}
				b.Add(now, 1)
				flush = append(flush, b)
				readings++
			}
		}
		if _, err := s.Write(t.Context(), flush); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	stop()
	running.Wait()
	return readings
}

// A document costs far less than one write for each reading, and is not much
// behind.
func TestSensorsDocumentsAreCoalesced(t *testing.T) {
	for _, c := range []struct {
		sensors, metrics int
		interval         time.Duration
		most             float64 // writes for each reading
		commands         int
		behind           time.Duration
	}{
		{50, 2, time.Second, 0.14, 80, latestEvery},
		{100, 1, 10 * time.Second, 1.01, 80, latestEvery}, // one command in five seconds
		{800, 1, 10 * time.Second, 0.34, 80, latestWait + latestEvery},
		{800, 4, 10 * time.Second, 0.10, 80, latestWait + latestEvery},
		{800, 2, time.Second, 0.14, 80, latestWait + latestEvery},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := &documents{script: script{answer: ok}}
			readings := runFleet(t, d, c.sensors, c.metrics, c.interval, 5*time.Minute)
			have := float64(d.writes) / float64(readings)
			t.Logf("%d sensors with %d metrics each %v: %.3f writes of documents for each reading, %d commands, at most %v behind", c.sensors, c.metrics, c.interval, have, d.commands, d.latest)
			if have > c.most || d.commands > c.commands || d.latest > c.behind {
				t.Errorf("more than %v writes, %d commands or %v", c.most, c.commands, c.behind)
			}
		})
	}
}

// What could not be written has waited long enough.
func TestADocumentThatCouldNotBeWrittenIsDueAtOnce(t *testing.T) {
	l := newLatest(3)
	l.introduced([]reading.Sensor{{ID: "a"}, {ID: "b"}})
	l.note([]*reading.Bucket{bucket("a", 1), bucket("b", 1)})
	if due := l.take(9, false); len(due) != 0 {
		t.Errorf("due at once: %+v", due)
	}
	l.giveBack(l.take(1, true))
	for _, b := range []string{"a", "b"} {
		l.note([]*reading.Bucket{bucket(b, 1, 2)})
	}
	if due := l.take(9, false); len(due) != 1 {
		t.Errorf("due again: %+v, want the one that was given back", due)
	}
	if rest := l.take(9, true); len(rest) != 1 || len(l.dirty) != 0 {
		t.Errorf("left: %+v, %v", rest, l.dirty)
	}
	var errs []error
	for range latestReadings {
		l.note([]*reading.Bucket{bucket("a", 1)})
		if len(l.take(9, false)) > 0 {
			errs = append(errs, errors.New("taken"))
		}
	}
	if len(errs) != 1 {
		t.Errorf("taken %d times while %d readings came", len(errs), latestReadings)
	}
}
