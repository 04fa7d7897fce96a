package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// steady measures what sensors that send every 10 seconds cost when a flush is
// a minute: store writes for each reading, and whether memory grows. It begins
// with a minute, as a short run would else have a large part of its first one.
func (b *bench) steady(r *report) error {
	const sensors = 10_000
	s := setting{sensors: sensors, messages: sensors * max(6, 48/b.scale), rate: sensors / 10, live: true, env: []string{"JOURNAL=on", "FLUSH_INTERVAL=60s"}}
	w, err := b.newWorld(s)
	if err != nil {
		return err
	}
	select {
	case <-time.After(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute))):
	case <-b.ctx.Done():
		return errors.Join(b.ctx.Err(), w.close())
	}
	stop := make(chan struct{})
	sampled := make(chan []sample)
	go func() { sampled <- w.sample(stop) }()
	res, err := w.measure(s, 0)
	close(stop)
	r.memory = growth(<-sampled, time.Duration(s.messages/s.rate)*time.Second)
	r.steady = row{sensors: sensors, journal: "on", flush: "60s", result: res}
	fmt.Fprintf(os.Stderr, "steady: %.3f writes a reading, %v\n", res.writes, r.memory)
	return errors.Join(err, w.close())
}

// sample is the memory of the service at a moment.
type sample struct {
	at        time.Duration // since the beginning
	live, rss float64       // MB: what the last collection left on the heap; resident
}

// sample looks at the memory every few seconds.
func (w *world) sample(stop <-chan struct{}) (all []sample) {
	begun := time.Now()
	for {
		// The next collection is due when the heap has grown by GOGC percent of
		// what the last one left.
		live := w.counter("go_memstats_next_gc_bytes") / (1 + w.counter("go_gc_gogc_percent")/100)
		all = append(all, sample{time.Since(begun), live / (1 << 20), w.counter("process_resident_memory_bytes") / (1 << 20)})
		select {
		case <-stop:
			return all
		case <-time.After(2 * time.Second):
		}
	}
}

// memory is how the memory grows under a load that does not.
type memory struct {
	minutes           int
	live, rss         float64 // MB on average, in the last minute
	liveHour, rssHour float64 // MB in an hour more, at the pace of the minutes measured
}

func (m memory) String() string {
	return fmt.Sprintf("live heap %.1f MB, %+.1f MB/h; resident %.0f MB, %+.1f MB/h", m.live, m.liveHour, m.rss, m.rssHour)
}

// warm is after how many minutes all that is used again has found its size: two
// flushes, of which one gathers while the other is under way.
const warm = 3

// growth is the slope of a line through the averages of whole minutes: within
// a minute memory goes up and down with the buckets.
func growth(all []sample, loaded time.Duration) (m memory) {
	var live, rss []float64
	for minute := time.Duration(warm); ; minute++ {
		var sumLive, sumRSS, n float64
		for _, s := range all {
			if s.at < loaded && s.at/time.Minute == minute {
				sumLive, sumRSS, n = sumLive+s.live, sumRSS+s.rss, n+1
			}
		}
		if n < 20 { // not a whole minute
			break
		}
		live, rss = append(live, sumLive/n), append(rss, sumRSS/n)
	}
	if m.minutes = len(live); m.minutes < 2 {
		return m
	}
	m.live, m.rss = live[len(live)-1], rss[len(rss)-1]
	m.liveHour, m.rssHour = 60*slope(live), 60*slope(rss)
	return m
}

// slope is that of the line of least squares, for each step.
func slope(y []float64) float64 {
	var sx, sy, sxx, sxy float64
	for i, v := range y {
		x := float64(i)
		sx, sy, sxx, sxy = sx+x, sy+v, sxx+x*x, sxy+x*v
	}
	n := float64(len(y))
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
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

// storeGrowth measures what a reading costs as the embedded store fills up, and
// with a flush each second.
func (b *bench) storeGrowth(r *report) error {
	const parts = 10
	s := setting{sensors: 2000, messages: 1_000_000 / b.scale, embedded: true, env: []string{"JOURNAL=on", "FLUSH_INTERVAL=60s"}}
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
	if err != nil {
		return err
	}
	s.env = []string{"JOURNAL=on", "FLUSH_INTERVAL=1s"}
	r.each, err = b.once(s)
	fmt.Fprintf(os.Stderr, "embedded store with a flush each second: %.0f/s, %.2f s CPU for 100,000\n", r.each.rate, r.each.cpu)
	return err
}

// reads runs the benchmarks of the read side, each of which has what it costs
// at least beside it.
func (b *bench) reads(r *report) error {
	for _, c := range []struct {
		name, pkg, bench, least string
		args                    []string
	}{
		{"a day of a series, 8,640 readings, embedded store", "./internal/contract", "BenchmarkSQLiteRead/store", "BenchmarkSQLiteRead/bare_select", []string{"-bench.readings", fmt.Sprint(10_000_000 / b.scale)}},
		{"PromQL, 30 days at 1,000 points: newest value", "./internal/prom", "BenchmarkMonth/selector", "BenchmarkMonth/selector/documents", nil},
		{"the same, greatest of each minute", "./internal/prom", "BenchmarkMonth/maximum", "BenchmarkMonth/maximum/documents", nil},
		{"the same, average over each 43 minutes", "./internal/prom", "BenchmarkMonth/window", "BenchmarkMonth/window/documents", nil},
	} {
		name, sub, _ := strings.Cut(c.bench, "/")
		pattern := "^" + name + "$/^(" + sub + "|bare_select)$"
		args := append([]string{"test", c.pkg, "-run", "^$", "-bench", pattern, "-benchtime", "2s", "-count", fmt.Sprint(rounds)}, c.args...)
		cmd := exec.CommandContext(b.ctx, "go", args...)
		cmd.Dir = b.root
		text, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("cannot run %s: %w: %s", pattern, err, text)
		}
		read := readRow{name: c.name, took: fastest(text, c.bench), least: fastest(text, c.least)}
		if read.took == 0 || read.least == 0 {
			return fmt.Errorf("%s said nothing of %s and %s: %s", pattern, c.bench, c.least, text)
		}
		r.reads = append(r.reads, read)
		fmt.Fprintf(os.Stderr, "%s: %v, %.2f of what it costs at least\n", read.name, read.took, read.ratio())
	}
	return nil
}

// fastest is the least of what the runs of a benchmark took for one operation.
func fastest(text []byte, name string) (least time.Duration) {
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `(?:-\d+)?\s+\d+\s+([\d.]+) ns/op`)
	for _, m := range line.FindAllSubmatch(text, -1) {
		ns, err := strconv.ParseFloat(string(m[1]), 64)
		if err == nil && (least == 0 || ns < float64(least)) {
			least = time.Duration(ns)
		}
	}
	return least
}
