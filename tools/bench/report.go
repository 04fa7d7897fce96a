package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// report is everything that was measured.
type report struct {
	bare, throughput, latency, sensors []row

	part    int
	steady  row
	memory  memory
	store   []storeRow
	stopped time.Duration
	each    result // the embedded store with a flush each second
	reads   []readRow
}

// readRow is what a question takes, and what it would at least.
type readRow struct {
	name        string
	took, least time.Duration
}

func (r readRow) ratio() float64 { return float64(r.took) / float64(r.least) }

type row struct {
	sensors        int
	journal, flush string
	result
	base result // the bare subscriber in the same run
}

type storeRow struct {
	readings int
	result
	megabytes float64
}

func (r row) progress() string {
	return fmt.Sprintf("%d sensors, journal %s, flush %s: %.0f/s (%.0f %% of bare), %.2f s CPU for 100,000 (%.2f ×), %.0f MB, %.2f writes a reading",
		r.sensors, r.journal, r.flush, r.rate, 100*r.rate/r.base.rate, r.cpu, r.cpu/r.base.cpu, r.peakMB, r.writes)
}

func (r *report) write(name string) error {
	chart := strings.TrimSuffix(name, filepath.Ext(name)) + ".svg"
	if err := os.WriteFile(chart, []byte(r.svg()), 0o600); err != nil {
		return err
	}
	old, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.WriteFile(name, []byte(between(string(old), r.markdown(filepath.Base(chart)))), 0o600)
}

const (
	beginMark = "<!-- measured: begin -->"
	endMark   = "<!-- measured: end -->"
)

// between puts the figures between the marks and leaves what people wrote.
func between(old, figures string) string {
	head, rest, found := strings.Cut(old, beginMark)
	_, tail, ended := strings.Cut(rest, endMark)
	if !found || !ended {
		head, tail = old, "\n"
	}
	return head + beginMark + "\n" + figures + endMark + tail
}

func (r *report) markdown(chart string) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("Measured %s on %d cores (%s/%s, %s), broker, publisher and store on the same cores; median of %d, of a million messages one run.\n",
		time.Now().UTC().Format("2006-01-02"), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), rounds)
	if r.part > 1 {
		say("A part of the whole: 1 in %d of the messages, which makes the rates less certain.\n", r.part)
	}
	if chart != "" {
		say("![throughput, and cost of a reading as the fleet and the store grow](%s)\n", chart)
	}
	say("### What is aimed at\n")
	say("| | aim | measured | |\n|---|---|---|---|")
	for _, a := range r.aims() {
		met := "met"
		if !a.met {
			met = "**missed**"
		}
		say("| %s | %s | %s | %s |", a.what, a.aim, a.measured, met)
	}
	say("\n### Throughput, QoS 1\n")
	say("| sensors | journal | `FLUSH_INTERVAL` | readings/s | of the bare subscriber | CPU s / 100k | × bare | MB | store writes / reading | doubled |")
	say("|---|---|---|---|---|---|---|---|---|---|")
	for i, base := range r.bare {
		say("| %s | *bare paho subscriber* | | %.0f | 100 %% | %.2f | 1.00 | %.0f | | |", thousands(base.sensors), base.rate, base.cpu, base.peakMB)
		for _, t := range r.throughput[4*i : min(4*i+4, len(r.throughput))] {
			say("| %s | %s | %s | %.0f | %.0f %% | %.2f | %.2f | %.0f | %.2f | %d |", thousands(t.sensors), t.journal, t.flush, t.rate, 100*t.rate/t.base.rate, t.cpu, t.cpu/t.base.cpu, t.peakMB, t.writes, t.doubled)
		}
	}
	say("\n### From publish to stored, 1,000 readings/s\n")
	say("| journal | `FLUSH_INTERVAL` | p50 ms | p99 ms |\n|---|---|---|---|")
	for _, l := range r.latency {
		say("| %s | %s | %d | %d |", l.journal, l.flush, l.p50, l.p99)
	}
	say("\n### 10,000 sensors that send every 10 s, `FLUSH_INTERVAL=60s`, %d minutes\n", r.memory.minutes+warm)
	say("%.3f store writes for each reading. Memory once it is warm, in the last %d of them: %v.", r.steady.writes, r.memory.minutes, r.memory)
	say("\n### A reading's cost with ever more sensors\n")
	say("| sensors | readings/s | CPU s / 100k | MB |\n|---|---|---|---|")
	for _, s := range r.sensors {
		say("| %s | %.0f | %.2f | %.0f |", thousands(s.sensors), s.rate, s.cpu, s.peakMB)
	}
	say("\n### A reading's cost as the embedded store fills up\n")
	say("| readings in the file | readings/s | CPU s / 100k | file MB | MB of memory |\n|---|---|---|---|---|")
	for _, s := range r.store {
		say("| %s | %.0f | %.2f | %.0f | %.0f |", thousands(s.readings), s.rate, s.cpu, s.megabytes, s.peakMB)
	}
	say("\nA stop with that store took %v. With a flush each second: %.0f readings/s, %.2f s CPU / 100k.", r.stopped.Round(10*time.Millisecond), r.each.rate, r.each.cpu)
	say("\n### Reading\n")
	say("| question | ms | at least | ratio |\n|---|---|---|---|")
	for _, q := range r.reads {
		say("| %s | %.1f | %.1f | %.2f |", q.name, ms(q.took), ms(q.least), q.ratio())
	}
	say("\nAt least: a bare SELECT of the same rows; fetching the documents that the answer needs, one by one.")
	return b.String()
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// svg draws three charts below each other, in colours that are seen on white
// and on black.
func (r *report) svg() string {
	var b strings.Builder
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 620" font-family="system-ui, sans-serif" font-size="12" fill="#6b7280">` + "\n")
	b.WriteString(`<title>Throughput and cost of a reading</title>` + "\n")
	r.bars(&b)
	var fleet, store []float64
	var fleetNames, storeNames []string
	for _, s := range r.sensors {
		fleet, fleetNames = append(fleet, s.cpu), append(fleetNames, thousands(s.sensors))
	}
	for _, s := range r.store {
		store, storeNames = append(store, s.cpu), append(storeNames, fmt.Sprintf("%.1fM", float64(s.readings)/1e6))
	}
	line(&b, 40, 360, 320, "CPU s / 100k by number of sensors", fleet, fleetNames)
	line(&b, 420, 360, 320, "CPU s / 100k as the embedded store fills up", store, storeNames)
	b.WriteString("</svg>\n")
	return b.String()
}

func (r *report) bars(b *strings.Builder) {
	top := 1.0
	for _, t := range r.throughput {
		top = max(top, t.rate, t.base.rate)
	}
	fmt.Fprint(b, `<text x="40" y="20" font-size="14">Readings/s, QoS 1; the line is a bare paho subscriber in the same run</text>`+"\n")
	y := 36
	for _, t := range r.throughput {
		width := 400 * t.rate / top
		fmt.Fprintf(b, `<text x="290" y="%d" text-anchor="end">%s sensors, journal %s, flush %s</text>`, y+13, thousands(t.sensors), t.journal, t.flush)
		fmt.Fprintf(b, `<rect x="300" y="%d" width="%.0f" height="16" fill="#2563eb"/>`, y, width)
		fmt.Fprintf(b, `<line x1="%.0f" x2="%.0f" y1="%d" y2="%d" stroke="#d97706" stroke-width="3"/>`, 300+400*t.base.rate/top, 300+400*t.base.rate/top, y-2, y+18)
		fmt.Fprintf(b, `<text x="308" y="%d" fill="#fff">%.0f</text>`+"\n", y+13, t.rate)
		y += 24
	}
}

func line(b *strings.Builder, x, y, width int, title string, values []float64, names []string) {
	const height = 180
	top := 0.1
	for _, v := range values {
		top = max(top, 1.25*v)
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" font-size="14">%s</text>`, x, y, title)
	fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="#9ca3af"/>`, x, x+width, y+20+height, y+20+height)
	var points []string
	for i, v := range values {
		px := float64(x) + (float64(i)+0.5)*float64(width)/float64(len(values))
		py := float64(y) + 20 + height*(1-v/top)
		points = append(points, fmt.Sprintf("%.0f,%.0f", px, py))
		fmt.Fprintf(b, `<circle cx="%.0f" cy="%.0f" r="4" fill="#2563eb"/><text x="%.0f" y="%.0f" text-anchor="middle">%.2f</text>`, px, py, px, py-10, v)
		fmt.Fprintf(b, `<text x="%.0f" y="%d" text-anchor="middle" font-size="10">%s</text>`, px, y+height+36, names[i])
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="#2563eb" stroke-width="2"/>`+"\n", strings.Join(points, " "))
}
