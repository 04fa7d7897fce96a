// Bench measures the whole service: a Mosquitto, a publisher that is faster
// than what it measures, ingest, and a MongoDB that only counts. Each figure
// stands beside that of a bare paho subscriber in the same run, because the
// machine is part of every figure and cancels out of a ratio.
//
//	bench [-tools DIR] [-ingest FILE] [-out FILE] [-part N]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	tools := flag.String("tools", "../shared/bench", "`DIR` of the sources of mqttload, nullmongo and pahosub")
	program := flag.String("ingest", "bin/ingest", "`FILE` to measure")
	out := flag.String("out", "", "`FILE` to write the report to, with a chart of the same name beside it; printed if empty")
	part := flag.Int("part", 1, "publish one Nth of the messages: the report says so")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *tools, *program, *out, max(1, *part)); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, tools, program, out string, part int) error {
	dir, err := os.MkdirTemp("", "gudang-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{ctx: ctx, dir: dir, program: program, scale: part}
	if err := b.build(tools); err != nil {
		return err
	}
	r := &report{part: part}
	for _, step := range []func(*report) error{b.throughput, b.latency, b.writes, b.sensorGrowth, b.storeGrowth} {
		if err := step(r); err != nil {
			return err
		}
	}
	if out == "" {
		_, err := os.Stdout.WriteString(r.markdown(""))
		return err
	}
	return r.write(out)
}
