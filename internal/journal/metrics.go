package journal

import "github.com/prometheus/client_golang/prometheus"

// Registerer is where the package's metrics are registered.
type Registerer = prometheus.Registerer

type metrics struct {
	syncSeconds   prometheus.Histogram
	groupMessages prometheus.Histogram
	replayed      prometheus.Counter
	damaged       prometheus.Counter
}

func newMetrics(reg Registerer, bytes func() float64) *metrics {
	m := &metrics{
		syncSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gudang_journal_sync_duration_seconds", Help: "How long the disk took to make a group of messages durable.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
		groupMessages: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gudang_journal_group_messages", Help: "Messages that were made durable together.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 9),
		}),
		replayed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gudang_journal_replayed_readings_total", Help: "Readings from before the start that were given to the store again.",
		}),
		damaged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gudang_journal_damaged_total", Help: "Places in the journal that were damaged or missing; the log has each.",
		}),
	}
	reg.MustRegister(m.syncSeconds, m.groupMessages, m.replayed, m.damaged, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gudang_journal_bytes", Help: "Bytes in the journal that the store has not committed.",
	}, bytes))
	return m
}
