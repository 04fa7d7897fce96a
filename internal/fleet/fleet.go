// Package fleet is a simulated warehouse of sensors that publishes over MQTT:
// with daily curves and noise, and with the faults that real fleets have. What
// it says depends on its seed and its start alone, so that a run can be
// repeated, and it records what must be stored (see package manifest).
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gudang/internal/reading"
)

// Message is what a Publisher sends.
type Message struct {
	Sensor  int // messages of one sensor keep their order
	Topic   string
	Payload []byte
	// Done is called once, from any goroutine: with nil when the message was
	// acknowledged, with an error when nobody will try any longer.
	Done func(error)
}

// Publisher sends messages. Publish waits while too many are unacknowledged;
// if it returns an error the message is not taken and Done not called.
type Publisher interface {
	Publish(ctx context.Context, m Message) error
}

// Recorder keeps what was acknowledged, such as a manifest.Writer.
type Recorder interface {
	Write(seq int64, readings ...reading.Reading) error
}

// Summary counts what a fleet did.
type Summary struct {
	Messages   int64   `json:"messages"`   // distinct messages published
	Readings   int64   `json:"readings"`   // distinct readings in them that were acknowledged
	Published  int64   `json:"published"`  // messages published, duplicates included
	Acked      int64   `json:"acked"`      // of these, acknowledged
	Duplicates int64   `json:"duplicates"` // second copies
	Late       int64   `json:"late"`       // held back and published out of order
	NaN        int64   `json:"nan"`        // with a metric that is no number
	Backlog    int64   `json:"backlog"`    // kept by a sensor that was away
	Errors     int64   `json:"errors"`     // given up
	Seconds    float64 `json:"seconds"`
	Rate       float64 `json:"rate"` // acknowledged messages a second
}

// Unacked is how many published messages nobody acknowledged.
func (s Summary) Unacked() int64 { return s.Published - s.Acked }

type kind uint8

const (
	first kind = iota
	again      // a second copy
	late
	backlog
)

// message is a message and what must be stored of it.
type message struct {
	Message
	seq      int64
	time     int64
	readings []reading.Reading
	recorded atomic.Bool // by whichever copy was acknowledged first
}

// slot is a sensor's turn within each interval.
type slot struct {
	offset int64 // ms
	sensor int
	metric int // -1: all in one message
}

// Fleet is a simulated fleet. It runs once.
type Fleet struct {
	cfg      Config
	format   format
	slots    []slot
	sensors  []sensor
	ids      []string
	topics   [][]string // by sensor, then metric
	away     []absence
	backlogs [][]*message
	samples  [][3]float64
	columns  []int      // where the metrics stand in a sample
	rng      *rand.Rand // for faults

	duplicate, late, nan picker
	held                 heldBack

	begun                                                                            time.Time
	messages, readings, published, acked, duplicates, lates, nans, backlogged, fails atomic.Int64
	ended                                                                            atomic.Int64 // ns since begun
	outstanding                                                                      sync.WaitGroup
	recordErr                                                                        atomic.Pointer[error]
}

// New checks the settings and makes the fleet.
func New(cfg Config) (*Fleet, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	f := &Fleet{format: formats()[cfg.Format], rng: rand.New(rand.NewPCG(cfg.Seed, 1<<63))}
	order := f.rng.Perm(cfg.Sensors)
	f.slots = schedule(cfg, f.format.single, order[:cfg.ofSensors(cfg.Outlier)], f.rng)
	if err := cfg.setStart(len(f.slots)); err != nil {
		return nil, err
	}
	f.cfg = cfg
	for _, m := range cfg.Metrics {
		f.columns = append(f.columns, metricIndex(m))
	}
	f.duplicate, f.late, f.nan = newPicker(cfg.Duplicate, cfg.Count), newPicker(cfg.Late, cfg.Count), newPicker(cfg.NaN, cfg.Count)
	f.away = make([]absence, cfg.Sensors)
	f.backlogs = make([][]*message, cfg.Sensors)
	f.samples = make([][3]float64, cfg.Sensors)
	for _, i := range order[cfg.Sensors-cfg.ofSensors(cfg.Offline):] {
		f.away[i] = newAbsence(f.rng, cfg.Count/int64(len(f.slots)))
	}
	for i := range cfg.Sensors {
		id := fmt.Sprintf("S-%04d", i+1)
		f.sensors = append(f.sensors, newSensor(cfg.Seed, i))
		f.ids = append(f.ids, id)
		var topics []string
		for _, m := range cfg.Metrics {
			topics = append(topics, expandTopic(cfg.Topic, id, m))
		}
		f.topics = append(f.topics, topics)
	}
	return f, nil
}

// schedule spreads the sensors over the interval. It is the same in every
// interval, so that a sensor's readings are that far apart exactly.
func schedule(cfg Config, single bool, outliers []int, rng *rand.Rand) []slot {
	interval := cfg.Interval.Milliseconds()
	wild := make([]bool, cfg.Sensors)
	for _, i := range outliers {
		wild[i] = true
	}
	var slots []slot
	for i := range cfg.Sensors {
		room := interval / int64(cfg.Sensors)
		phase := interval * int64(i) / int64(cfg.Sensors)
		if room > 1 {
			phase += rng.Int64N(room)
		}
		turns := int64(1)
		if wild[i] {
			turns = outlierFactor
		}
		for j := range turns {
			at := slot{offset: (phase + interval*j/turns) % interval, sensor: i, metric: -1}
			if !single {
				slots = append(slots, at)
				continue
			}
			for m := range cfg.Metrics {
				at.metric = m
				slots = append(slots, at)
			}
		}
	}
	slices.SortStableFunc(slots, func(a, b slot) int { return cmp.Compare(a.offset, b.offset) })
	return slots
}

// Timed says whether the messages say when they were measured. Only then is
// it known what must be stored.
func (f *Fleet) Timed() bool { return f.format.timed }

// Start is the beginning of simulated time.
func (f *Fleet) Start() time.Time { return f.cfg.Start }

// Total is how many distinct messages there will be, 0 if that is open.
func (f *Fleet) Total() int64 { return f.cfg.Count }

// Summary is what was done until now. It may be called at any time.
func (f *Fleet) Summary() Summary {
	s := Summary{
		Messages: f.messages.Load(), Readings: f.readings.Load(), Acked: f.acked.Load(), Duplicates: f.duplicates.Load(),
		Late: f.lates.Load(), NaN: f.nans.Load(), Backlog: f.backlogged.Load(), Errors: f.fails.Load(),
	}
	s.Published = f.published.Load() // after Acked: never fewer
	if ns := f.ended.Load(); ns > 0 {
		s.Seconds = time.Duration(ns).Seconds()
	}
	if s.Seconds > 0 {
		s.Rate = float64(s.Acked) / s.Seconds
	}
	return s
}

// Run publishes until all is done or ctx ends, and waits for what is still to
// be acknowledged: for as long as it takes, but only Grace once ctx has ended.
// rec may be nil. Only what was acknowledged is recorded.
func (f *Fleet) Run(ctx context.Context, pub Publisher, rec Recorder) (Summary, error) {
	if rec != nil && !f.Timed() {
		return Summary{}, fmt.Errorf("format %q has no time in its messages: nobody can know what must be stored, so there is no manifest", f.cfg.Format)
	}
	f.begun = f.cfg.Now()
	r := run{Fleet: f, pub: pub, rec: rec}
	err := r.generate(ctx)
	f.await(ctx)
	f.ended.Store(int64(f.cfg.Now().Sub(f.begun)))
	if failed := f.recordErr.Load(); failed != nil {
		err = *failed
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil // to be stopped is a way to end
	}
	return f.Summary(), err
}

// await waits until nothing is outstanding.
func (f *Fleet) await(ctx context.Context) {
	idle := make(chan struct{})
	go func() { f.outstanding.Wait(); close(idle) }()
	select {
	case <-idle:
		return
	case <-ctx.Done():
	}
	grace := time.NewTimer(f.cfg.Grace)
	defer grace.Stop()
	select {
	case <-idle:
	case <-grace.C:
	}
}
