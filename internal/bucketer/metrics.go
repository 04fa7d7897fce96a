package bucketer

import (
	"github.com/prometheus/client_golang/prometheus"

	"gudang/internal/reading"
)

// Registerer is where the package's metrics are registered.
type Registerer = prometheus.Registerer

type metrics struct {
	messages      map[reading.Outcome]prometheus.Counter
	rejected      byReason
	ignored       byReason
	stored        prometheus.Counter
	duplicate     prometheus.Counter
	late          prometheus.Counter
	fill          prometheus.Histogram
	lag           prometheus.Histogram
	flushSeconds  prometheus.Histogram
	flushReadings prometheus.Histogram
}

func newMetrics(reg Registerer, open func() float64) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
		reg.MustRegister(h)
		return h
	}
	m := &metrics{
		stored:    counter("gudang_readings_stored_total", "Readings that are new and committed to the store."),
		duplicate: counter("gudang_readings_duplicate_total", "Readings that were there already with the same value, and changed nothing."),
		late:      counter("gudang_readings_late_total", "Readings that arrived after their bucket's span had passed."),
		fill: histogram("gudang_bucket_fill_ratio", "Readings in a bucket by what was expected, once its span has passed.",
			[]float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.5, 2, 10, 100}),
		lag: histogram("gudang_store_lag_seconds", "From a reading's time to its commit.",
			[]float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 1.5, 2, 5, 10, 30, 60, 120, 600, 3600, 86400}),
		flushSeconds: histogram("gudang_flush_duration_seconds", "How long a flush took to be committed.",
			prometheus.ExponentialBuckets(0.001, 2, 16)),
		flushReadings: histogram("gudang_flush_readings", "Readings in a flush.", prometheus.ExponentialBuckets(1, 4, 10)),
		messages:      map[reading.Outcome]prometheus.Counter{},
	}
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gudang_open_buckets", Help: "Buckets whose span has not passed, or whose readings have not settled.",
	}, open))
	messages := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gudang_messages_total", Help: "Messages by what they ended as; each is acknowledged then.",
	}, []string{"outcome"})
	reg.MustRegister(messages)
	for o := reading.Stored; o <= reading.Rejected; o++ {
		m.messages[o] = messages.WithLabelValues(o.String())
	}
	m.rejected = newByReason(reg, "gudang_rejected_total", "Messages and single readings that were refused.", reading.RejectReasons)
	m.ignored = newByReason(reg, "gudang_ignored_total", "Messages that are no readings and need not be.", reading.IgnoreReasons)
	return m
}

// byReason is a counter for each reason of a closed list: all are there from
// the start, and none can be added by what arrives.
type byReason map[reading.Reason]prometheus.Counter

func newByReason(reg Registerer, name, help string, reasons []reading.Reason) byReason {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"reason"})
	reg.MustRegister(vec)
	counters := make(byReason, len(reasons))
	for _, r := range reasons {
		counters[r] = vec.WithLabelValues(string(r))
	}
	return counters
}

// inc counts one. A reason that is not on the list is a fault of ours, but
// none that may stop the flow.
func (c byReason) inc(r reading.Reason) {
	if counter, ok := c[r]; ok {
		counter.Inc()
	}
}

// dropped counts what the decoder left out of a batch.
func (m *metrics) dropped(b *reading.Batch) {
	for _, r := range b.Dropped {
		m.rejected.inc(r)
	}
	if b.Overflow > 0 {
		m.rejected[reading.QueueFull].Add(float64(b.Overflow))
		m.messages[reading.Rejected].Add(float64(b.Overflow))
	}
	for i := range b.Deliveries {
		switch d := &b.Deliveries[i]; d.Outcome {
		case reading.Rejected:
			m.rejected.inc(d.Reason)
		case reading.Ignored:
			m.ignored.inc(d.Reason)
		}
	}
}
