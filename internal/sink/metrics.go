package sink

import "github.com/prometheus/client_golang/prometheus"

// Registerer is where the package's metrics are registered.
type Registerer = prometheus.Registerer

type metrics struct {
	writes *prometheus.CounterVec
	up     prometheus.Gauge

	outliers prometheus.Counter
}

func newMetrics(reg Registerer) *metrics {
	m := &metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gudang_store_writes_total",
			Help: "Bucket writes by result: ok; exists, the bucket had one of the readings and was read; rejected, the store will never take it; failed, sent again.",
		}, []string{"result"}),
		up: prometheus.NewGauge(prometheus.GaugeOpts{Name: "gudang_store_up", Help: "1 while the store takes writes."}),
	}
	m.outliers = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gudang_outlier_buckets_total",
		Help: "Buckets that went over OUTLIER_READINGS, whose readings are stored one by one since.",
	})
	reg.MustRegister(m.writes, m.up, m.outliers)
	for _, r := range []string{"ok", "exists", "rejected", "failed"} {
		m.writes.WithLabelValues(r)
	}
	return m
}

func (m *metrics) wrote(w Writes) {
	for result, n := range map[string]int{"ok": w.OK, "exists": w.Exists, "rejected": w.Rejected, "failed": w.Failed} {
		if n > 0 {
			m.writes.WithLabelValues(result).Add(float64(n))
		}
	}
}
