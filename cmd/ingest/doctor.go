package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gudang/internal/decode"
	"gudang/internal/doctor"
	"gudang/internal/source"
)

// runDoctor looks at settings, brokers and store, and says what is wrong.
func runDoctor(ctx context.Context, c *config, out io.Writer, args []string) error {
	set := newFlags("doctor")
	var disk byteSize
	set.Func("disk", "`SIZE` of the disk that the store is on, such as 500GB, to say when it is full; for the embedded store it is looked up",
		func(text string) error { return disk.UnmarshalText([]byte(text)) })
	asJSON := set.Bool("json", false, "for programs")
	if err := parse(set, args); err != nil {
		return err
	}
	in := doctor.Input{Now: time.Now(), Settings: c.forDoctor(), Free: c.free(), Disk: int64(disk)}
	in.Brokers = c.askBrokers(ctx)
	in.Store, in.StoreErr = c.examine(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	report := doctor.Judge(in)
	var err error
	if *asJSON {
		err = json.NewEncoder(out).Encode(struct {
			OK bool `json:"ok"`
			doctor.Report
		}{report.OK(), report})
	} else {
		_, err = io.WriteString(out, doctorText(&report, canvasOf(out, false).width))
	}
	if err == nil && !report.OK() {
		return errCheck
	}
	return err
}

// forDoctor is what of the settings the checks look at.
func (c *config) forDoctor() doctor.Settings {
	return doctor.Settings{
		EmbeddedBroker: c.urls == nil, EmbeddedStore: c.MongoDBURI == "",
		QoS: int(c.MQTTQoS), Share: c.MQTTShare, Leave: c.MQTTLeave,
		Username: c.MQTTUsername != "" || slices.ContainsFunc(c.urls, func(u *url.URL) bool { return u.User != nil }),
		Password: c.MQTTPassword != "" || slices.ContainsFunc(c.urls, func(u *url.URL) bool { _, set := u.User.Password(); return set }),
		PlainTo:  plainTo(c.urls),
		Journal:  c.Journal == "on", JournalMaxBytes: int64(c.JournalMaxBytes),
		Span: c.span, ReadingInterval: c.ReadingInterval, FlushInterval: c.FlushInterval,
		OutlierReadings: int64(c.OutlierReadings), Raw: c.Raw, Retention: c.Retention, RawRetention: c.RawRetention, ClockAhead: c.ClockAhead,
	}
}

// plainTo is the first broker beyond this machine that is reached without TLS.
func plainTo(urls []*url.URL) string {
	for _, u := range urls {
		ip := net.ParseIP(u.Hostname())
		here := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
		if (u.Scheme == "tcp" || u.Scheme == "ws") && !here {
			return u.Host
		}
	}
	return ""
}

// free is what is free in DATA_DIR, or where it would be made; -1 if that
// cannot be known.
func (c *config) free() int64 {
	dir, err := filepath.Abs(c.DataDir)
	for err == nil {
		var free int64
		if free, err = freeIn(dir); err == nil {
			return free
		}
		if errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
			dir, err = filepath.Dir(dir), nil
		}
	}
	return -1
}

// askBrokers asks each broker, or the embedded one of the service that should
// be running.
func (c *config) askBrokers(ctx context.Context) (brokers []doctor.Broker) {
	urls := c.urls
	if urls == nil {
		host, port, err := net.SplitHostPort(c.EmbeddedAddr)
		if err != nil || port == "0" {
			return nil // nobody can know where it listens
		}
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "127.0.0.1"
		}
		urls = []*url.URL{{Scheme: "tcp", Host: net.JoinHostPort(host, port)}}
	}
	for _, u := range urls {
		b := doctor.Broker{Name: u.Scheme + "://" + u.Host}
		var said source.Probed
		said, b.Err = source.Probe(ctx, source.Config{
			URLs: []*url.URL{u}, QoS: c.MQTTQoS, Username: c.MQTTUsername, Password: c.MQTTPassword, TLS: c.tls,
			MaxUnacked: c.MQTTMaxUnacked, MaxPacket: decode.DefaultMaxPayload,
		})
		b.Took, b.Version = said.Took, said.Version
		brokers = append(brokers, b)
	}
	return brokers
}

// examine looks at the store. That nothing was stored yet is no error.
func (c *config) examine(ctx context.Context) (e doctor.Examination, err error) {
	if c.MongoDBURI == "" {
		if _, err := os.Stat(filepath.Join(c.DataDir, "gudang.db")); errors.Is(err, fs.ErrNotExist) {
			return doctor.Examination{}, nil
		}
	}
	store, err := openReader(c)
	if err != nil {
		return e, err
	}
	defer store.Close()
	if err := store.Ping(ctx); err != nil {
		return e, err
	}
	return store.Examine(ctx, int64(c.OutlierReadings))
}

// doctorText is the report for people.
func doctorText(r *doctor.Report, width int) string {
	var b strings.Builder
	say := func(head, indent, text string) {
		for _, line := range wrap(text, max(width-len(indent), 20)) {
			fmt.Fprintln(&b, head+line)
			head = indent
		}
	}
	for _, f := range r.Facts {
		say(fmt.Sprintf("%-10s ", f.Check), strings.Repeat(" ", 11), f.Text)
	}
	for _, text := range r.Sampled {
		say(fmt.Sprintf("%-10s ", "sampled"), strings.Repeat(" ", 11), text)
	}
	if len(r.Findings) == 0 {
		fmt.Fprintln(&b, "\nnothing is wrong")
		return b.String()
	}
	for _, f := range r.Findings {
		indent := strings.Repeat(" ", 8)
		fmt.Fprintln(&b)
		say(fmt.Sprintf("%-8s", f.Level), indent, f.Check+": "+f.What)
		say(indent, indent, f.Evidence)
		say(indent+"> ", indent+"  ", f.Do)
	}
	return b.String()
}
