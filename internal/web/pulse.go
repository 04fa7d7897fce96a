package web

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	pulsePeriod  = 2 * time.Second
	pulseSamples = 150 // five minutes of them
	pulseRate    = 6   // periods that the rate shown is of
	pulseLag     = 30  // and the lag: so soon is an old backlog forgotten
)

// pulse watches the service by its own metrics, the ones that /metrics shows,
// so that a page can say how it is now and how it was in the last minutes.
type pulse struct {
	gatherer prometheus.Gatherer

	mu      sync.Mutex
	samples []sample // oldest first, at most pulseSamples
}

// sample is what the metrics said at a time.
type sample struct {
	at      time.Time
	stored  float64
	fill    histogram
	lag     histogram
	journal float64 // bytes; negative: there is none
	unacked float64
}

// histogram is one of Prometheus': readings at or below each bound.
type histogram struct {
	sum    float64
	count  uint64
	bounds []float64
	counts []uint64 // cumulative
}

// watch takes samples until ctx ends.
func (p *pulse) watch(ctx context.Context) {
	tick := time.NewTicker(pulsePeriod)
	defer tick.Stop()
	for {
		p.add(p.sample())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (p *pulse) add(s sample) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.samples) == pulseSamples {
		p.samples = append(p.samples[:0], p.samples[1:]...)
	}
	p.samples = append(p.samples, s)
}

// sample reads the metrics. What a broken collector leaves out stays zero.
func (p *pulse) sample() sample {
	s := sample{at: time.Now(), journal: -1}
	families, _ := p.gatherer.Gather() // what could be gathered is there
	for _, f := range families {
		if len(f.GetMetric()) == 0 {
			continue
		}
		m := f.GetMetric()[0]
		switch f.GetName() {
		case "gudang_readings_stored_total":
			s.stored = m.GetCounter().GetValue()
		case "gudang_bucket_fill_ratio":
			s.fill = newHistogram(m.GetHistogram())
		case "gudang_store_lag_seconds":
			s.lag = newHistogram(m.GetHistogram())
		case "gudang_journal_bytes":
			s.journal = m.GetGauge().GetValue()
		case "gudang_unacked_messages":
			s.unacked = m.GetGauge().GetValue()
		}
	}
	return s
}

// newHistogram copies what is used of a histogram.
func newHistogram[B interface {
	GetUpperBound() float64
	GetCumulativeCount() uint64
}](m interface {
	GetSampleSum() float64
	GetSampleCount() uint64
	GetBucket() []B
},
) histogram {
	h := histogram{sum: m.GetSampleSum(), count: m.GetSampleCount()}
	for _, b := range m.GetBucket() {
		h.bounds, h.counts = append(h.bounds, b.GetUpperBound()), append(h.counts, b.GetCumulativeCount())
	}
	return h
}

// vitals are the service's numbers over the last minutes. NaN is one that
// there is nothing to tell of.
type vitals struct {
	rate    float64   // readings stored a second
	rates   []float64 // oldest first
	fill    float64   // mean of the buckets whose span has passed, or their median
	wild    bool      // it is the median: some are so full that the mean says nothing
	median  float64   // of the lag, in seconds
	most    float64   // the lag that 95 % of the readings stay below
	journal float64   // bytes; negative: there is none
	unacked float64
}

func (p *pulse) vitals() vitals {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := vitals{rate: math.NaN(), fill: math.NaN(), median: math.NaN(), most: math.NaN(), journal: -1}
	if len(p.samples) == 0 {
		return v
	}
	first, last := p.samples[0], p.samples[len(p.samples)-1]
	v.journal, v.unacked = last.journal, last.unacked
	if len(p.samples) == 1 {
		return v
	}
	v.rate = rate(p.samples[max(0, len(p.samples)-1-pulseRate)], last)
	for i := 1; i < len(p.samples); i++ {
		v.rates = append(v.rates, rate(p.samples[max(0, i-pulseRate)], p.samples[i]))
	}
	v.fill, v.wild = fill(first.fill, last.fill)
	before := p.samples[max(0, len(p.samples)-1-pulseLag)].lag
	v.median, v.most = last.lag.since(before, 0.5), last.lag.since(before, 0.95)
	return v
}

// overfull is where a bucket's sensor is taken for an outlier.
const overfull = 1.5

// fill is the mean of what was counted between a and b. A single sensor gone
// wild would make it thousands of percent, so where there is one it is the
// median, to the bound above it.
func fill(a, b histogram) (ratio float64, wild bool) {
	if b.count <= a.count || len(a.counts) != len(b.counts) {
		return math.NaN(), false
	}
	n := float64(b.count - a.count)
	median := math.NaN()
	for i, bound := range b.bounds {
		upTo := float64(b.counts[i] - a.counts[i])
		if math.IsNaN(median) && upTo >= n/2 {
			median = bound
		}
		if bound >= overfull && upTo < n {
			return median, true
		}
		if bound >= overfull {
			break
		}
	}
	return (b.sum - a.sum) / n, false
}

func rate(a, b sample) float64 {
	seconds := b.at.Sub(a.at).Seconds()
	if seconds <= 0 {
		return 0
	}
	return max(0, (b.stored-a.stored)/seconds)
}

// since is the q-quantile of what h counted after before, as
// histogram_quantile of Prometheus would say it.
func (h histogram) since(before histogram, q float64) float64 {
	n := h.count - before.count
	if h.count <= before.count || len(h.counts) != len(before.counts) {
		return math.NaN()
	}
	rank := q * float64(n)
	lower, below := 0.0, 0.0
	for i, bound := range h.bounds {
		upTo := float64(h.counts[i] - before.counts[i])
		if upTo >= rank && !math.IsInf(bound, 0) {
			if upTo == below {
				return bound
			}
			return lower + (bound-lower)*(rank-below)/(upTo-below)
		}
		lower, below = bound, upTo
	}
	return lower // beyond the last bound: at least that
}
