package main

import (
	"gudang/internal/decode"
	"gudang/internal/prom"
)

// promql answers PromQL over the store that is read.
func (s *service) promql() *prom.API {
	units := make(map[string]string)
	for _, m := range decode.NewReference().Metrics {
		units[m.Name] = m.Unit
	}
	return prom.New(prom.Config{
		Reader:    s.read,
		Summaries: []prom.Summaries{{Span: s.cfg.span, Read: s.read.Summaries}},
		Unit:      func(metric string) string { return units[metric] },
		Log:       s.log,
	})
}
