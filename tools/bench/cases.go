package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// rounds is how often each throughput is measured; the median counts.
const rounds = 3

// throughput measures how fast messages are taken, stored and acknowledged,
// each round beside the bare subscriber.
func (b *bench) throughput(r *report) error {
	for _, sensors := range []int{200, 10_000, 1_000_000} {
		messages := max(300_000, sensors) / b.scale
		sensors := max(1, min(sensors, messages))
		rounds := rounds
		if messages >= 1_000_000 {
			rounds = 1 // it takes long, and long enough for one round to tell
		}
		var bare []result
		for range rounds {
			res, err := b.bare(messages, sensors)
			if err != nil {
				return err
			}
			bare = append(bare, res)
		}
		base := median(bare)
		r.bare = append(r.bare, row{sensors: sensors, result: base})
		for _, journal := range []string{"off", "on"} {
			for _, flush := range []string{"1s", "60s"} {
				s := setting{sensors: sensors, messages: messages, stops: true, env: []string{"JOURNAL=" + journal, "FLUSH_INTERVAL=" + flush}}
				var list []result
				for range rounds {
					res, err := b.once(s)
					if err != nil {
						return err
					}
					list = append(list, res)
				}
				res := row{sensors: sensors, journal: journal, flush: flush, result: median(list), base: base}
				r.throughput = append(r.throughput, res)
				fmt.Fprintln(os.Stderr, res.progress())
			}
		}
	}
	return nil
}

// once measures in a world of its own.
func (b *bench) once(s setting) (r result, err error) {
	w, err := b.newWorld(s)
	if err != nil {
		return r, err
	}
	r, err = w.measure(s, 0)
	if stopErr := w.close(); err == nil {
		err = stopErr
	}
	return r, err
}

// median is that by rate; the figures of one run stay together.
func median(list []result) result {
	slices.SortFunc(list, func(a, b result) int {
		if a.rate < b.rate {
			return -1
		}
		return 1
	})
	return list[len(list)/2]
}

// latency measures from publish to stored at a moderate rate.
func (b *bench) latency(r *report) error {
	for _, flush := range []string{"100ms", "1s"} {
		for _, journal := range []string{"off", "on"} {
			res, err := b.once(setting{sensors: 1000, messages: 30_000 / b.scale, rate: 1000, live: true, env: []string{"JOURNAL=" + journal, "FLUSH_INTERVAL=" + flush}})
			if err != nil {
				return err
			}
			row := row{sensors: 1000, journal: journal, flush: flush, result: res}
			r.latency = append(r.latency, row)
			fmt.Fprintf(os.Stderr, "latency, journal %s, flush %s: p50 %d ms, p99 %d ms\n", journal, flush, res.p50, res.p99)
		}
	}
	return nil
}

// writes measures store writes for each reading, of sensors that send every 10
// seconds as they do.
func (b *bench) writes(r *report) error {
	for flush, seconds := range map[string]int{"1s": 60, "60s": 300} {
		seconds /= b.scale
		res, err := b.once(setting{sensors: 1000, messages: 100 * seconds, rate: 100, live: true, env: []string{"JOURNAL=on", "FLUSH_INTERVAL=" + flush}})
		if err != nil {
			return err
		}
		r.writes = append(r.writes, row{sensors: 1000, journal: "on", flush: flush, result: res})
		fmt.Fprintf(os.Stderr, "writes, flush %s: %.2f a reading\n", flush, res.writes)
	}
	return nil
}

// sensorGrowth measures what a reading costs with ever more sensors.
func (b *bench) sensorGrowth(r *report) error {
	for _, sensors := range []int{1000, 10_000, 100_000, 1_000_000} {
		messages := 1_000_000 / b.scale
		sensors = min(sensors, messages)
		res, err := b.once(setting{sensors: sensors, messages: messages, stops: true, env: []string{"JOURNAL=on", "FLUSH_INTERVAL=1s"}})
		if err != nil {
			return err
		}
		r.sensors = append(r.sensors, row{sensors: sensors, result: res})
		fmt.Fprintf(os.Stderr, "%d sensors: %.2f s CPU for 100,000 messages, %.0f MB\n", sensors, res.cpu, res.peakMB)
	}
	return nil
}

// storeGrowth measures what a reading costs as the embedded store fills up.
func (b *bench) storeGrowth(r *report) error {
	const parts = 10
	s := setting{sensors: 2000, messages: 1_000_000 / b.scale, embedded: true, env: []string{"JOURNAL=on", "FLUSH_INTERVAL=60s", "FLUSH_READINGS=100000"}}
	w, err := b.newWorld(s)
	if err != nil {
		return err
	}
	for part := range parts {
		res, err := w.measure(s, part*s.messages/s.sensors)
		if err != nil {
			return err
		}
		file, err := os.Stat(filepath.Join(b.dir, fmt.Sprint("data", b.run), "gudang.db"))
		if err != nil {
			return err
		}
		r.store = append(r.store, storeRow{readings: (part + 1) * s.messages, result: res, megabytes: float64(file.Size()) / (1 << 20)})
		fmt.Fprintf(os.Stderr, "embedded store with %d readings: %.0f/s, %.2f s CPU for 100,000\n", (part+1)*s.messages, res.rate, res.cpu)
	}
	begun := time.Now()
	err = w.close()
	r.stopped = time.Since(begun)
	return err
}
