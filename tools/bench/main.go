// Bench measures the whole service: a Mosquitto, a publisher that is faster
// than what it measures, ingest, and a MongoDB that only counts. Each figure
// stands beside that of a bare paho subscriber in the same run, because the
// machine is part of every figure and cancels out of a ratio.
//
//	bench [-tools DIR] [-root DIR] [-ingest FILE] [-out FILE] [-part N] [-only STEP,…]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

func main() {
	tools := flag.String("tools", "../shared/bench", "`DIR` of the sources of mqttload, nullmongo and pahosub")
	root := flag.String("root", "..", "`DIR` of the module, whose benchmarks of reading are run")
	program := flag.String("ingest", "bin/ingest", "`FILE` to measure")
	out := flag.String("out", "", "`FILE` to write the report to, with a chart of the same name beside it; printed if empty")
	part := flag.Int("part", 1, "publish one Nth of the messages: the report says so")
	only := flag.String("only", "", "`STEPS` to do, such as throughput,reads; all if empty")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(&bench{ctx: ctx, root: *root, program: *program, scale: max(1, *part)}, *tools, *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(b *bench, tools, out, only string) (err error) {
	if b.dir, err = os.MkdirTemp("", "gudang-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := b.build(tools); err != nil {
		return err
	}
	r := &report{part: b.scale}
	for _, step := range []struct {
		name string
		do   func(*report) error
	}{
		{"throughput", b.throughput},
		{"latency", b.latency},
		{"steady", b.steady},
		{"sensors", b.sensorGrowth},
		{"store", b.storeGrowth},
		{"reads", b.reads},
	} {
		if only != "" && !slices.Contains(strings.Split(only, ","), step.name) {
			continue
		}
		if err := step.do(r); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	if out == "" || only != "" {
		_, err := os.Stdout.WriteString(r.markdown(""))
		return err
	}
	return r.write(out)
}
