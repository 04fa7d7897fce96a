package query

import (
	"context"
	"fmt"
	"testing"
	"time"

	"gudang/internal/reading"
)

// regular is a fleet that sends every ten seconds, from a start on.
type regular struct {
	sensors, readings int
	start             int64
}

func (r regular) Sensors(_ context.Context, after string, limit int) (page []reading.Sensor, err error) {
	for i := range r.sensors {
		id := fmt.Sprintf("S-%05d", i)
		if id > after && len(page) < limit {
			page = append(page, reading.Sensor{ID: id, Metrics: map[string][]reading.Point{"t": nil}})
		}
	}
	return page, nil
}

func (r regular) Readings(_ context.Context, q reading.Query) (page []reading.Reading, err error) {
	from := 0
	if !q.After.IsZero() {
		from = int((q.After.Time-r.start)/10_000) + 1
	}
	for i := from; i < r.readings && len(page) < q.Limit; i++ {
		page = append(page, reading.Reading{Series: reading.Series{Sensor: q.Sensor, Metric: q.Metric}, Time: r.start + int64(i)*10_000})
	}
	return page, nil
}

const (
	testMinute = reading.Span(60_000)
	testHour   = 60 * testMinute
	testDay    = 24 * testHour
)

func TestSimulateSmall(t *testing.T) {
	s := reading.Series{Sensor: "S-00000", Metric: "t"}
	// 20 minutes from 09:05:10 on: the first and the last minute are cut.
	from := regular{sensors: 2, readings: 120, start: exampleStart + 10_000}
	costs, err := Simulate(t.Context(), from, 240, 60, 10_000, testMinute, testHour)
	if err != nil {
		t.Fatal(err)
	}
	if costs.Sampled || costs.Series != 2 || costs.AllSeries != 2 || costs.Readings != 240 {
		t.Errorf("%+v", costs)
	}
	for i, want := range []Measure{
		{240, 240 * BucketSize(s, 1)},
		{42, 2 * (BucketSize(s, 5) + 19*BucketSize(s, 6) + BucketSize(s, 1))},
		// An hour has more than 60 readings: an outlier, and its readings one by one.
		{242, 2 * (outlierSize(len("S-00000t")) + 120*RawSize(s))},
	} {
		if have := costs.Spans[i]; have.Buckets != want || have.Readings != 240 || have.Raw != 240*RawSize(s) {
			t.Errorf("span %v: %+v, want %+v", have.Span.Duration(), have, want)
		}
	}
	if costs.Spans[1].Largest != 6 || costs.Spans[2].Largest != 120 {
		t.Errorf("the fullest have %d and %d", costs.Spans[1].Largest, costs.Spans[2].Largest)
	}
}

func TestSimulateTakesASampleOfALargeStore(t *testing.T) {
	perDay := int((24 * time.Hour) / (10 * time.Second))
	from := regular{sensors: 2000, readings: 10 * perDay, start: exampleStart - exampleStart%int64(testDay)}
	costs, err := Simulate(t.Context(), from, int64(2000*10*perDay), 1000, testMinute, testDay)
	if err != nil {
		t.Fatal(err)
	}
	if !costs.Sampled || costs.Series != sampleSeries || costs.AllSeries != 2000 {
		t.Errorf("sampled %v, %d of %d series", costs.Sampled, costs.Series, costs.AllSeries)
	}
	if most := int64(sampleReadings + sampleSeries*samplePage); costs.Readings > most || costs.Readings%int64(perDay) != 0 || costs.Readings == 0 {
		t.Errorf("%d readings were read, want whole days of %d and at most %d", costs.Readings, perDay, most)
	}
	if full := costs.Spans[0]; full.Buckets.Documents*6 != full.Readings {
		t.Errorf("the minutes are not full: %+v", full)
	}
}
