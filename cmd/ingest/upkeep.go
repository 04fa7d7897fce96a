package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"gudang/internal/reading"
	"gudang/internal/upkeep"
)

// task is something that the service does in the background.
type task interface {
	Run(ctx context.Context) error
}

// upkeepTasks are what is done to the store beside ingestion. Both run with
// all settings at 0 as well: what was set before may have to be undone.
func (s *service) upkeepTasks(reg prometheus.Registerer) []task {
	c := s.cfg
	var longest reading.Span
	for _, span := range c.rolled {
		longest = max(longest, span)
	}
	return []task{
		upkeep.NewRetention(upkeep.RetentionConfig{
			Buckets: c.Retention, Raw: c.RawRetention, Rollups: c.RollupRetention, Span: c.span, Longest: longest,
			Forget: s.sink.Forget, Gone: s.sensors.Forget, Clock: upkeep.RealClock(), Log: s.log,
		}, s.write, reg),
		upkeep.NewRollups(upkeep.RollupsConfig{
			Spans: c.rolled, Buckets: c.Retention, Retention: c.RollupRetention, Clock: upkeep.RealClock(), Log: s.log,
		}, s.write, reg),
	}
}
