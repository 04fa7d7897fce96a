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
	at        time.Time
	stored    float64
	fillSum   float64
	fillCount uint64
	lag       histogram
	journal   float64 // bytes; negative: there is none
	unacked   float64
}

// histogram is one of Prometheus': readings at or below each bound.
type histogram struct {
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
			s.fillSum, s.fillCount = m.GetHistogram().GetSampleSum(), m.GetHistogram().GetSampleCount()
		case "gudang_store_lag_seconds":
			s.lag.count = m.GetHistogram().GetSampleCount()
			for _, b := range m.GetHistogram().GetBucket() {
				s.lag.bounds = append(s.lag.bounds, b.GetUpperBound())
				s.lag.counts = append(s.lag.counts, b.GetCumulativeCount())
			}
		case "gudang_journal_bytes":
			s.journal = m.GetGauge().GetValue()
		case "gudang_unacked_messages":
			s.unacked = m.GetGauge().GetValue()
		}
	}
	return s
}

// vitals are the service's numbers over the last minutes. NaN is one that
// there is nothing to tell of.
type vitals struct {
	rate    float64   // readings stored a second
	rates   []float64 // oldest first
	fill    float64   // of the buckets whose span has passed
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
	if n := last.fillCount - first.fillCount; n > 0 {
		v.fill = (last.fillSum - first.fillSum) / float64(n)
	}
	before := p.samples[max(0, len(p.samples)-1-pulseLag)].lag
	v.median, v.most = last.lag.since(before, 0.5), last.lag.since(before, 0.95)
	return v
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
