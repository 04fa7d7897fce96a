package upkeep

import "github.com/prometheus/client_golang/prometheus"

// Registerer is where the package's metrics are registered.
type Registerer = prometheus.Registerer

type retentionMetrics struct{ deleted *prometheus.CounterVec }

func newRetentionMetrics(reg Registerer) *retentionMetrics {
	m := &retentionMetrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gudang_retention_deleted_total",
		Help: "Documents that gudang itself has deleted for their age, by kind.",
	}, []string{"kind"})}
	reg.MustRegister(m.deleted)
	for _, kind := range []string{"buckets", "overflow", "raw", "rollups", "sensors"} {
		m.deleted.WithLabelValues(kind)
	}
	return m
}

type rollupMetrics struct {
	written prometheus.Counter
	stale   prometheus.Gauge
	behind  prometheus.Gauge
}

func newRollupMetrics(reg Registerer) *rollupMetrics {
	m := &rollupMetrics{
		written: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gudang_rollups_written_total", Help: "Roll-ups that were stored or corrected.",
		}),
		stale: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gudang_rollups_stale", Help: "Roll-ups that late readings have outdated and that are still to be corrected.",
		}),
		behind: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gudang_rollups_behind_seconds", Help: "How long the earliest window that is not rolled up yet has been due.",
		}),
	}
	reg.MustRegister(m.written, m.stale, m.behind)
	return m
}
