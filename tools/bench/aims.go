package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// aim is a figure that the service is to reach.
type aim struct {
	what, aim, measured string
	met                 bool
}

// aims compares what was measured with what is aimed at. What was not measured
// is left out.
func (r *report) aims() (all []aim) {
	for _, c := range []struct {
		journal   string
		rate, cpu float64
	}{{"off", 0.90, 1.25}, {"on", 0.85, 1.4}} {
		rate, cpu, doubled := math.Inf(1), 0.0, 0
		for _, t := range r.throughput {
			if t.journal == c.journal {
				rate, cpu, doubled = min(rate, t.rate/t.base.rate), max(cpu, t.cpu/t.base.cpu), doubled+t.doubled
			}
		}
		if cpu == 0 {
			continue
		}
		all = append(all,
			aim{"rate of the bare subscriber, journal " + c.journal, fmt.Sprintf("≥ %.0f %%", 100*c.rate), fmt.Sprintf("%.0f %% and more", 100*rate), rate >= c.rate},
			aim{"its processor time, journal " + c.journal, fmt.Sprintf("≤ %.2f ×", c.cpu), fmt.Sprintf("%.2f × at most", cpu), cpu <= c.cpu},
			aim{"readings written twice, journal " + c.journal, "0", fmt.Sprint(doubled), doubled == 0})
	}
	for _, l := range r.latency {
		interval := 1000.0
		if strings.HasSuffix(l.flush, "ms") {
			interval = 100
		}
		most := 1.2*interval + 50
		all = append(all, aim{fmt.Sprintf("p99 from publish to stored, journal %s, `FLUSH_INTERVAL=%s`", l.journal, l.flush), fmt.Sprintf("< %.0f ms", most), fmt.Sprintf("%d ms", l.p99), float64(l.p99) < most})
	}
	if r.steady.messages > 0 {
		all = append(all, aim{"store writes for each reading at 60 s", "≤ 0.2", fmt.Sprintf("%.3f", r.steady.writes), r.steady.writes <= 0.2})
	}
	if r.memory.minutes > 1 {
		all = append(all, aim{"live heap after an hour more of a constant load", "no more", fmt.Sprintf("%+.1f MB (%.1f live, %.0f resident)", r.memory.liveHour, r.memory.live, r.memory.rss), r.memory.liveHour < r.memory.rss/20})
	}
	if n := len(r.sensors); n > 0 {
		last := r.sensors[n-1]
		all = append(all, aim{fmt.Sprintf("memory of %s sensors", thousands(last.sensors)), "< 1,024 MB", fmt.Sprintf("%.0f MB", last.peakMB), last.peakMB < 1024})
		var cpu []float64
		for _, s := range r.sensors {
			cpu = append(cpu, s.cpu)
		}
		all = append(all, flat("a reading's cost from 1,000 sensors to "+thousands(last.sensors), cpu))
	}
	if n := len(r.store); n > 0 {
		var cpu []float64
		least, seconds := math.Inf(1), 0.0
		for _, s := range r.store {
			cpu, least = append(cpu, s.cpu), min(least, s.rate)
			seconds += float64(s.messages) / s.rate
		}
		rate := float64(r.store[n-1].readings) / seconds
		all = append(all,
			flat("a reading's cost up to "+thousands(r.store[n-1].readings)+" readings in the embedded store", cpu),
			aim{"the embedded store, `FLUSH_INTERVAL=60s`", "≥ 40,000/s", fmt.Sprintf("%.0f/s on average, %.0f/s in the slowest of %d parts", rate, least, n), rate >= 40_000},
			aim{"the embedded store, `FLUSH_INTERVAL=1s`", "≥ 20,000/s", fmt.Sprintf("%.0f/s", r.each.rate), r.each.rate >= 20_000})
	}
	for i, q := range r.reads {
		if i == 0 {
			all = append(all, aim{q.name, "< 5 ms", fmt.Sprintf("%.1f ms", ms(q.took)), ms(q.took) < 5})
		}
		all = append(all, aim{q.name + ", of what it costs at least", "≤ 2 ×", fmt.Sprintf("%.2f ×", q.ratio()), q.ratio() <= 2})
	}
	return all
}

// flat says whether the costs lie within 20 % of their middle.
func flat(what string, cpu []float64) aim {
	least, most := slices.Min(cpu), slices.Max(cpu)
	off := (most - least) / (most + least)
	return aim{what, "± 20 %", fmt.Sprintf("± %.0f %% (%.2f to %.2f s / 100k)", 100*off, least, most), off <= 0.2}
}
