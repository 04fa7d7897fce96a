// Command simulate publishes a simulated fleet of warehouse sensors over MQTT,
// faults included, and records what must be stored of it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"gudang/internal/fleet"
	"gudang/internal/manifest"
)

// version is set by the build.
var version = "development"

// The exit statuses: all acknowledged; something was not; a wrong setting.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

func main() {
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, release) // a second signal kills
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// options is what the flags say.
type options struct {
	fleet    fleet.Config
	mqtt     fleet.MQTTConfig
	manifest string
	json     bool
	version  bool
	flags    string // as given, for the manifest
}

// run carries the program out and returns its exit status.
func run(ctx context.Context, args []string, getenv func(string) string, out, errOut io.Writer) int {
	o, err := parse(args, getenv, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(errOut, "simulate:", err)
		return exitUsage
	case o.version:
		fmt.Fprintln(out, "simulate", version)
		return exitOK
	}
	o.mqtt.Log = slog.New(slog.NewTextHandler(errOut, nil))
	f, err := fleet.New(o.fleet)
	if err != nil {
		fmt.Fprintln(errOut, "simulate:", err)
		return exitUsage
	}
	if o.manifest != "" && !f.Timed() {
		fmt.Fprintf(errOut, "simulate: -manifest needs a format with the time in it; %q has none, so nobody can know what must be stored\n", o.fleet.Format)
		return exitUsage
	}
	m, err := fleet.NewMQTT(o.mqtt)
	if err != nil {
		fmt.Fprintln(errOut, "simulate:", err)
		return exitUsage
	}
	sum, err := publish(ctx, f, m, o, errOut)
	if werr := report(out, sum, o); werr != nil {
		fmt.Fprintln(errOut, "simulate:", werr)
		return exitFailed
	}
	if err != nil {
		fmt.Fprintln(errOut, "simulate:", err)
		return exitFailed
	}
	if n := sum.Unacked(); n > 0 {
		fmt.Fprintf(errOut, "simulate: %d messages were not acknowledged: they are stored or not, and not in the manifest\n", n)
		return exitFailed
	}
	return exitOK
}

// parse reads the flags. The password is taken from the environment or a flag;
// it never reaches the manifest.
func parse(args []string, getenv func(string) string, out io.Writer) (*options, error) {
	var o options
	var metrics, start string
	set := flag.NewFlagSet("simulate", flag.ContinueOnError)
	set.SetOutput(io.Discard) // an error is one line, without all flags behind it
	c := &o.fleet
	set.StringVar(&o.mqtt.Broker, "broker", "tcp://127.0.0.1:1883", "`URL` of the broker: tcp://, ssl://, ws:// or wss://")
	set.StringVar(&o.mqtt.Username, "username", getenv("MQTT_USERNAME"), "for the broker; default $MQTT_USERNAME")
	set.StringVar(&o.mqtt.Password, "password", "", "for the broker; default $MQTT_PASSWORD or the file $MQTT_PASSWORD_FILE, where other users of the machine do not see it")
	set.IntVar(&o.mqtt.Connections, "connections", 4, "connections to the broker")
	qos := set.Uint("qos", 1, "MQTT quality of service: 0, 1 or 2")
	set.IntVar(&c.Sensors, "sensors", 50, "how many sensors")
	set.DurationVar(&c.Interval, "interval", 10*time.Second, "between two readings of a sensor")
	set.DurationVar(&c.Duration, "duration", 0, "how long to publish, in real time unless there is a -rate; default: until stopped")
	set.Int64Var(&c.Count, "count", 0, "how many distinct messages to publish, as fast as they are taken unless there is a -rate")
	set.Float64Var(&c.Rate, "rate", 0, "messages a `second`; the fleet's clock then goes as fast as that needs")
	set.StringVar(&metrics, "metrics", "temperature,humidity", "of temperature, humidity, pressure")
	set.StringVar(&c.Format, "format", "json", "of the payload: json, senml or number")
	set.StringVar(&c.Topic, "topic", "", "`template` with {sensor} and {metric}; default warehouse/{sensor}/reading, for numbers warehouse/{sensor}/{metric}")
	set.Uint64Var(&c.Seed, "seed", 1, "the same seed and -start give the same readings")
	set.StringVar(&start, "start", "", "`time` of the first readings (RFC 3339); default: such that the last one is of now")
	set.Float64Var(&c.Duplicate, "duplicate", 0, "`amount` of messages published twice: a fraction, or from 1 on a number")
	set.Float64Var(&c.Late, "late", 0, "`amount` of messages that come minutes late and out of order")
	set.Float64Var(&c.NaN, "nan", 0, "`amount` of messages with a value that is no number")
	set.Float64Var(&c.Offline, "offline", 0, "`amount` of sensors that go away and come back with their backlog")
	set.Float64Var(&c.Outlier, "outlier", 0, "`amount` of sensors that send at 100 times the rate")
	set.StringVar(&o.manifest, "manifest", "", "`FILE` to record what must be stored in, for ingest verify")
	set.BoolVar(&o.json, "json", false, "print the summary as JSON")
	set.BoolVar(&o.version, "version", false, "print the version")
	if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(out, "simulate publishes a fleet of warehouse sensors over MQTT.")
		set.SetOutput(out)
		set.PrintDefaults()
		return nil, err
	} else if err != nil {
		return nil, err
	}
	if set.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if *qos > 2 {
		return nil, fmt.Errorf("-qos %d: must be 0, 1 or 2", *qos)
	}
	o.mqtt.QoS = byte(*qos)
	if o.mqtt.Password == "" {
		secret, err := password(getenv)
		if err != nil {
			return nil, err
		}
		o.mqtt.Password = secret
	}
	if u, err := url.Parse(o.mqtt.Broker); err != nil || u.Host == "" {
		return nil, fmt.Errorf("-broker %q: must be a URL such as tcp://127.0.0.1:1883", o.mqtt.Broker)
	}
	c.Metrics = strings.Split(metrics, ",")
	if start != "" {
		t, err := time.Parse(time.RFC3339, start)
		if err != nil {
			return nil, fmt.Errorf("-start %q: must be a time such as 2026-12-06T09:05:00Z", start)
		}
		c.Start = t
	}
	set.Visit(func(f *flag.Flag) {
		if f.Name != "password" && f.Name != "username" && f.Name != "broker" && f.Name != "manifest" {
			o.flags += fmt.Sprintf(" -%s %s", f.Name, f.Value)
		}
	})
	o.flags = strings.TrimSpace(o.flags)
	return &o, nil
}

// password is that of the environment, or of the file it names.
func password(getenv func(string) string) (string, error) {
	file := getenv("MQTT_PASSWORD_FILE")
	if file == "" {
		return getenv("MQTT_PASSWORD"), nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("MQTT_PASSWORD_FILE: %w", err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// publish runs the fleet, with the manifest if there is one. The manifest gets
// its footer however the run ends: what it says was acknowledged.
func publish(ctx context.Context, f *fleet.Fleet, m *fleet.MQTT, o *options, errOut io.Writer) (fleet.Summary, error) {
	var rec fleet.Recorder
	finish := func() error { return nil }
	if o.manifest != "" {
		file, err := os.Create(o.manifest)
		if err != nil {
			return fleet.Summary{}, fmt.Errorf("cannot create the manifest: %w", err)
		}
		w, err := manifest.NewWriter(file, manifest.Header{Seed: o.fleet.Seed, Start: f.Start().UnixMilli(), Flags: o.flags})
		if err != nil {
			return fleet.Summary{}, errors.Join(err, file.Close())
		}
		rec, finish = w, func() error { return errors.Join(w.Close(), file.Close()) }
	}
	shown, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); progress(shown, f, errOut) }()
	sum, err := f.RunMQTT(ctx, m, rec)
	stop()
	<-done
	return sum, errors.Join(err, finish())
}

// progress shows how far the fleet is: one line that changes on a terminal,
// a line every few seconds elsewhere.
func progress(ctx context.Context, f *fleet.Fleet, w io.Writer) {
	every, begin, end := 5*time.Second, "", "\n"
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		every, begin, end = 200*time.Millisecond, "\r\x1b[K", ""
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	begun := time.Now()
	var last fleet.Summary
	shown := begun
	for {
		select {
		case <-ctx.Done():
			fmt.Fprint(w, begin)
			return
		case now := <-tick.C:
			s := f.Summary()
			of := ""
			if total := f.Total(); total > 0 {
				of = fmt.Sprintf(" of %d (%d%%)", total, 100*s.Messages/total)
			}
			rate := float64(s.Acked-last.Acked) / now.Sub(shown).Seconds()
			fmt.Fprintf(w, "%s%s  %d messages%s, %.0f/s, %d unacknowledged%s", begin, now.Sub(begun).Round(time.Second), s.Messages, of, rate, s.Unacked(), end)
			last, shown = s, now
		}
	}
}

// report prints the summary.
func report(out io.Writer, s fleet.Summary, o *options) error {
	if o.json {
		return json.NewEncoder(out).Encode(struct {
			fleet.Summary
			Unacked  int64  `json:"unacked"`
			Manifest string `json:"manifest,omitempty"`
		}{s, s.Unacked(), o.manifest})
	}
	_, err := fmt.Fprintf(out, "%d messages with %d readings in %.1f s, %.0f/s\n"+
		"published %d: %d second copies, %d late, %d with a value that is no number, %d from a backlog; %d not acknowledged\n",
		s.Messages, s.Readings, s.Seconds, s.Rate, s.Published, s.Duplicates, s.Late, s.NaN, s.Backlog, s.Unacked())
	return err
}
