package main

import (
	"context"

	"gudang/internal/decode"
	"gudang/internal/prom"
	"gudang/internal/reading"
)

// promql answers PromQL over the store that is read.
func (s *service) promql() *prom.API {
	units := make(map[string]string)
	for _, m := range decode.NewReference().Metrics {
		units[m.Name] = m.Unit
	}
	summaries := []prom.Summaries{{Span: s.cfg.span, Read: s.read.Summaries}}
	for _, span := range s.cfg.rolled {
		if span != s.cfg.span {
			summaries = append(summaries, prom.Summaries{Span: span, Read: func(ctx context.Context, q reading.Query) ([]reading.Summary, error) {
				return s.read.Rollups(ctx, q, span)
			}})
		}
	}
	return prom.New(prom.Config{
		Reader:    s.read,
		Summaries: summaries,
		Unit:      func(metric string) string { return units[metric] },
		Log:       s.log,
	})
}
