package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gudang/internal/decode"
	"gudang/internal/reading"
)

const parseUsage = `usage: ingest parse [flags] TOPIC [FILE|-]   one message, its payload from FILE or stdin
       ingest parse [flags] [- [FILE]]       many: lines of TOPIC<TAB>PAYLOAD, or TOPIC PAYLOAD as mosquitto_sub -v prints them

`

// runParse shows what messages become, without a broker or a store.
func runParse(_ context.Context, c *config, out io.Writer, args []string) error {
	return parseMessages(c, os.Stdin, out, args)
}

func parseMessages(c *config, in io.Reader, out io.Writer, args []string) error {
	p := parser{c: c}
	set := newFlags("parse")
	set.Usage = func() {
		fmt.Fprint(set.Output(), parseUsage)
		set.PrintDefaults()
	}
	set.BoolVar(&p.json, "json", false, "for programs: one line a message")
	set.BoolVar(&p.retained, "retained", false, "as a retained message, which is replayed at subscribe")
	now := set.String("now", "", "the receive `time`, in RFC 3339 or seconds since 1970; the present one if empty")
	names, err := parseMixed(set, args)
	if err != nil {
		return err
	}
	if p.now, err = receiveTime(*now); err != nil || len(names) > 2 {
		if err == nil {
			err = fmt.Errorf("unexpected argument %q", names[2])
		}
		fmt.Fprintln(set.Output(), "ingest parse:", err)
		return errUsage
	}
	topic, file := "-", "-"
	if len(names) > 0 {
		topic = names[0]
	}
	if len(names) > 1 {
		file = names[1]
	}
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			fmt.Fprintf(set.Output(), "ingest parse: cannot read the payload: %v%s\n", err, hint(file))
			return errUsage
		}
		defer f.Close()
		in = f
	} else if f, ok := in.(*os.File); ok && isTerminal(f) {
		fmt.Fprintln(set.Output(), "ingest parse: reading from the terminal; Ctrl-D ends it")
	}
	p.decoder = c.decoder
	p.out = bufio.NewWriter(out)
	if !p.json {
		p.printSettings()
	}
	if topic == "-" {
		err = p.capture(in)
	} else {
		var payload []byte
		if payload, err = io.ReadAll(in); err == nil {
			err = p.message(topic, payload)
		}
	}
	if err = errors.Join(err, p.out.Flush()); err != nil {
		return fmt.Errorf("cannot parse: %w", err)
	}
	if p.rejected {
		return errCheck
	}
	return nil
}

// parseMixed reads flags that may stand before, between and behind the
// arguments, since those are what people change from one call to the next.
func parseMixed(set *flag.FlagSet, args []string) (names []string, err error) {
	for len(args) > 0 {
		switch err := set.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			return nil, errHelp
		case err != nil:
			return nil, errUsage // the flag set has said why
		}
		if args = set.Args(); len(args) > 0 {
			names, args = append(names, args[0]), args[1:]
		}
	}
	return names, nil
}

func receiveTime(text string) (time.Time, error) {
	if text == "" {
		return time.Now(), nil
	}
	if s, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Unix(s, 0), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, fmt.Errorf("-now %q: must be a time such as 2026-03-14T09:27:00Z, or seconds since 1970", text)
	}
	return t, nil
}

// hint helps who gave the payload where its file belongs.
func hint(name string) string {
	if strings.ContainsAny(name, "{}[]=") || json.Valid([]byte(name)) {
		return "\nthe payload itself comes from stdin: echo '…' | ingest parse TOPIC"
	}
	return ""
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// parser shows messages in the order in which they come. One decoder sees them
// all, as in the service: some devices name their metrics in their first
// message only.
type parser struct {
	c              *config
	decoder        *decode.Decoder
	out            *bufio.Writer
	now            time.Time
	json, retained bool
	rejected       bool // at least one message was
}

// capture reads messages by the line. A line that goes on with a JSON of
// several lines is joined to it.
func (p *parser) capture(in io.Reader) error {
	lines := bufio.NewReader(in)
	var topic string
	var payload []byte
	pending := false
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		last := err != nil
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case pending && goesOn(payload, line):
			payload = append(append(payload, '\n'), line...)
		case len(bytes.TrimSpace(line)) > 0:
			if pending {
				if err := p.message(topic, payload); err != nil {
					return err
				}
			}
			topic, payload = splitLine(line)
			pending = true
		}
		if lines.Buffered() == 0 { // who watches a broker wants to see it now
			if err := p.out.Flush(); err != nil {
				return err
			}
		}
		if last {
			if pending {
				return p.message(topic, payload)
			}
			return nil
		}
	}
}

// goesOn says whether a line is a further one of the JSON that a payload
// begins: no topic begins with a blank or a closing bracket.
func goesOn(payload, line []byte) bool {
	return len(line) > 0 && strings.IndexByte(" \t}]", line[0]) >= 0 && len(payload) > 0 && (payload[0] == '{' || payload[0] == '[')
}

// nothing is what mosquitto_sub -v prints of an empty payload.
const nothing = "(null)"

// splitLine takes a line apart at the first tab, else at the first blank. A
// topic may have blanks of its own, but then what is behind the first one is no
// JSON, and what is behind a later one is.
func splitLine(line []byte) (topic string, payload []byte) {
	if name, rest, ok := bytes.Cut(line, []byte{'\t'}); ok && !bytes.ContainsAny(name, "{[") {
		return string(name), bytes.Clone(rest)
	}
	name, rest, _ := bytes.Cut(line, []byte{' '})
	if string(rest) == nothing {
		return string(name), nil
	}
	if i := bytes.Index(line, []byte(" {")); i > len(name) && json.Valid(line[i+1:]) {
		name, rest = line[:i], line[i+1:]
	}
	return string(name), bytes.Clone(rest)
}

// message shows what becomes of one message.
func (p *parser) message(topic string, payload []byte) error {
	m := decode.Message{Topic: topic, Payload: payload, Retained: p.retained, Received: p.now.UnixMilli()}
	var r decode.Result
	p.decoder.Decode(m, &r)
	if r.Outcome == reading.Pending {
		r.Outcome = reading.Stored
	}
	p.rejected = p.rejected || r.Outcome == reading.Rejected
	if p.json {
		return p.printJSON(&r)
	}
	p.print(m, &r)
	return nil
}

type parsedReading struct {
	SensorID string  `json:"sensorId"`
	Metric   string  `json:"metric"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
	Time     string  `json:"time"`
	TimeFrom string  `json:"timeFrom"`
}

type leftOut struct {
	Metric string         `json:"metric"`
	Reason reading.Reason `json:"reason"`
}

type parsedMessage struct {
	Outcome  string          `json:"outcome"`
	Reason   reading.Reason  `json:"reason"`
	Readings []parsedReading `json:"readings"`
	Dropped  []leftOut       `json:"dropped"`
}

func (p *parser) printJSON(r *decode.Result) error {
	m := parsedMessage{r.Outcome.String(), r.Reason, []parsedReading{}, []leftOut{}}
	for _, v := range r.Values {
		from := "receive"
		if v.FromPayload {
			from = "payload"
		}
		m.Readings = append(m.Readings, parsedReading{v.Sensor, v.Metric, v.Value, v.Unit, clockTime(v.Time), from})
	}
	for _, d := range r.Dropped {
		m.Dropped = append(m.Dropped, leftOut{d.Metric, d.Reason})
	}
	enc := json.NewEncoder(p.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(m)
}

func clockTime(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

func (p *parser) printSettings() {
	fmt.Fprintf(p.out, "settings  MQTT_TOPICS=%s TIMEZONE=%s CLOCK_AHEAD=%s CLOCK_BEHIND=%s",
		p.c.MQTTTopics, p.c.Timezone, duration(p.c.ClockAhead), duration(p.c.ClockBehind))
	if p.c.MetricRanges != "" {
		fmt.Fprintf(p.out, " METRIC_RANGES=%s", p.c.MetricRanges)
	}
	fmt.Fprintf(p.out, "\nreceived  %s\n", clockTime(p.now.UnixMilli()))
}

// duration is a duration as people write it: 1m, not 1m0s.
func duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// shownReadings is how many readings of one message are worth a person's time.
const shownReadings = 100

// print shows a message to a person: what it becomes, and why that.
func (p *parser) print(m decode.Message, r *decode.Result) {
	row := func(name, value, origin string) {
		if origin != "" {
			value = fmt.Sprintf("%-26s  %s", value, origin)
		}
		fmt.Fprintf(p.out, "  %-8s%s\n", name, value)
	}
	all := *r
	r.Values, r.Dropped = r.Values[:min(len(r.Values), shownReadings)], r.Dropped[:min(len(r.Dropped), shownReadings)]
	e := p.decoder.Explain(m, r)
	fmt.Fprintf(p.out, "\ntopic     %s\npayload   %s\n", plain(m.Topic), sample(m.Payload))
	if e.Entry != "" {
		fmt.Fprintf(p.out, "entry     %s, decoder %s\n", e.Entry, e.Decoder)
	}
	switch r.Outcome {
	case reading.Stored:
		fmt.Fprintf(p.out, "stored    %d of %d\n", len(all.Values), len(all.Values)+len(all.Dropped))
	default:
		why := r.Detail
		if why == "" {
			why = decode.ReasonText(r.Reason)
		}
		fmt.Fprintf(p.out, "%-9s %s: %s\n", r.Outcome, r.Reason, why)
	}
	for i, v := range r.Values {
		o := e.Values[i]
		if i > 0 {
			fmt.Fprintln(p.out)
		}
		row("sensor", plain(v.Sensor), o.Sensor)
		row("metric", plain(v.Metric), o.Metric)
		row("value", strings.TrimSpace(strconv.FormatFloat(v.Value, 'f', -1, 64)+" "+plain(v.Unit)), o.Value)
		row("time", clockTime(v.Time), o.Time)
	}
	for i, d := range r.Dropped {
		if i == 0 {
			fmt.Fprintln(p.out, "left out")
		}
		fmt.Fprintf(p.out, "  %s  %s: %s\n", plain(d.Metric), d.Reason, e.Dropped[i])
	}
	if more := len(all.Values) + len(all.Dropped) - len(r.Values) - len(r.Dropped); more > 0 {
		fmt.Fprintf(p.out, "and %d more, which -json lists\n", more)
	}
	if r.Reason == reading.NotSelected {
		p.suggest(m)
	}
}

// suggest says what would take a message that no entry wants.
func (p *parser) suggest(m decode.Message) {
	fmt.Fprintln(p.out, "the entries are")
	for _, entry := range p.c.decoding().Topics {
		fmt.Fprintf(p.out, "  %s\n", entry)
	}
	entries := decode.Suggest(p.c.decoding(), m)
	if len(entries) == 0 {
		fmt.Fprintln(p.out, "no entry was found that would store anything of it")
		return
	}
	fmt.Fprintln(p.out, "what would store it")
	for _, entry := range entries {
		fmt.Fprintf(p.out, "  MQTT_TOPICS=%s\n", plain(entry))
	}
}

// plain is a text that somebody else wrote, harmless to a terminal.
func plain(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return strconv.Quote(s)
	}
	return s
}

// sample is the beginning of a payload.
func sample(payload []byte) string {
	const most = 160
	size := fmt.Sprintf("%d bytes", len(payload))
	text := bytes.TrimRight(payload, "\r\n")
	switch {
	case len(text) == 0:
		return size
	case len(text) > most:
		return size + ": " + plain(strings.ToValidUTF8(string(text[:most]), "")) + "…"
	}
	return size + ": " + plain(string(text))
}
