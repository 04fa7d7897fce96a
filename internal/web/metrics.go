package web

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the server's own. Their path is the route's pattern, never what
// the client asked for, so they can't grow.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	panics   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, cert *Certificate) *metrics {
	f := promauto.With(reg)
	if cert != nil {
		f.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "gudang_http_certificate_expiry_timestamp_seconds",
			Help: "When the certificate that is in use ends.",
		}, func() float64 { return float64(cert.expiry().Unix()) })
	}
	return &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "gudang_http_requests_total",
			Help: "HTTP requests answered, by route and status; 499 is a client that did not wait.",
		}, []string{"path", "code"}),
		duration: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gudang_http_request_duration_seconds",
			Help:    "Time from the request to the end of its answer, by route.",
			Buckets: []float64{0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10},
		}, []string{"path"}),
		panics: f.NewCounter(prometheus.CounterOpts{
			Name: "gudang_http_panics_total",
			Help: "HTTP requests whose handler panicked: each is a bug.",
		}),
	}
}

func (m *metrics) observe(pattern string, code int, d time.Duration) {
	switch pattern {
	case "", "/": // nothing of ours
		pattern = "other"
	case "/{$}":
		pattern = "/"
	case sensorPages + "{$}":
		pattern = sensorPages + "{id}"
	}
	if code == 0 {
		code = 200 // nothing written is what net/http makes a 200 of
	}
	m.requests.WithLabelValues(pattern, strconv.Itoa(code)).Inc()
	if pattern == livePath {
		return // how long somebody listened is not how long an answer took
	}
	m.duration.WithLabelValues(pattern).Observe(d.Seconds())
}
