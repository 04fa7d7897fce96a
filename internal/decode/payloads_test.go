package decode

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"gudang/internal/reading"
)

//go:generate go test -run TestThePageOfPayloadsIsUpToDate . -args -update

var update = flag.Bool("update", false, "write docs/payloads.md anew")

const payloadsPage = "../../docs/payloads.md"

// TestThePageOfPayloadsIsUpToDate makes docs/payloads.md of the tables and
// samples of this package and of what the decoders say to them. A page written
// by hand would be wrong after the first change.
func TestThePageOfPayloadsIsUpToDate(t *testing.T) {
	var page payloads
	page.write(t)
	if *update {
		if err := os.WriteFile(payloadsPage, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(payloadsPage)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, page.Bytes()) {
		t.Error("docs/payloads.md is not what the tables and decoders say: make docs")
	}
}

// samplesNow is when the samples arrive.
var samplesNow = time.Date(2026, 12, 6, 9, 5, 30, 0, time.UTC)

// payloads is the page.
type payloads struct{ bytes.Buffer }

func (p *payloads) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *payloads) table(header ...string) {
	p.line("")
	p.row(header...)
	p.line("|%s", strings.Repeat("---|", len(header)))
}

func (p *payloads) row(cells ...string) {
	for i := range cells {
		cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
	}
	p.line("| %s |", strings.Join(cells, " | "))
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func codes(list []string) string {
	var quoted []string
	for _, s := range list {
		quoted = append(quoted, code(s))
	}
	return strings.Join(quoted, ", ")
}

func (p *payloads) write(t *testing.T) {
	ref := NewReference()
	p.line("# Payloads")
	p.line("")
	p.line("<!-- Made by make docs of the tables, samples and decoders in internal/decode. Changes made here are lost. -->")
	p.line("")
	p.line("What becomes of a message, by what sends it. For a device of the list its name is all there is to set:")
	p.line("")
	p.line("```sh\nMQTT_TOPICS=tasmota,zigbee2mqtt\n```")
	p.line("")
	p.line("Any other is a template for its topics, alone or with a decoder: `MQTT_TOPICS=site/+/{sensor}/{metric},lab/{sensor}=senml`. A level may be `{sensor}` or `{metric}` in place of `+`,")
	p.line("and `{sensor...}` in place of `#`, for names that have slashes. The sensor is the one that the payload names, else `{sensor}`, else what the wildcards matched.")
	p.line("")
	p.line("When in doubt, ask: `ingest parse` says what is stored of a message and where each part of it came from, or why nothing is, under the settings in force.")
	p.line("")
	p.line("```sh\necho '{\"suhu\": 26.4}' | ingest parse warehouse/S-01/reading\nmosquitto_sub -t '#' -F '%%t\\t%%p' -W 60 | ingest parse\n```")
	p.line("")
	p.line("All times below are of messages that arrive at %s.", samplesNow.Format(time.RFC3339))
	p.fleets(t)
	p.decoders(t, ref)
	p.metrics(ref)
	p.units(ref)
	p.keys(ref)
	p.clocks()
	p.reasons()
}

func (p *payloads) fleets(t *testing.T) {
	p.line("\n## Fleets")
	p.table("`MQTT_TOPICS`", "what it is", "topics")
	for _, f := range Fleets() {
		first, _, _ := strings.Cut(f.Doc, ". ")
		p.row(fmt.Sprintf("[`%s`](#%s)", f.Name, f.Name), sentence(first), codes(f.Topics))
	}
	for _, f := range Fleets() {
		p.line("\n### %s", f.Name)
		p.line("\n`MQTT_TOPICS=%s`. %s", f.Name, sentence(f.Doc)+".")
		p.samples(t, f.Name, findFormat(f.Name), f.Samples)
	}
}

// sentence begins a text with a capital, unless its first word is a name that
// has none, and leaves out its full stop.
func sentence(s string) string {
	for _, word := range []string{"a ", "an ", "the ", "ignored", "rejected"} {
		if strings.HasPrefix(s, word) {
			s = strings.ToUpper(s[:1]) + s[1:]
		}
	}
	return strings.TrimSuffix(s, ".")
}

// generic are samples of the decoders that are no fleet's, by decoder: a
// setting that has it, and messages.
var generic = map[string]struct {
	entry   string
	samples []Sample
}{
	auto:     {"lab/{sensor}", []Sample{{"lab/S-01", `{"suhu": "26.4", "kelembaban": 61}`}, {"lab/S-01", "26.4"}}},
	"number": {"lab/{sensor}/{metric}=number", []Sample{{"lab/S-01/temperature", "26.4"}, {"lab/S-01/humidity", "61 %"}}},
	"json": {"lab/{sensor}=json", []Sample{
		{"lab/S-01", `{"temp": 26.4, "hum": 61, "ts": 1796547910}`},
		{"lab/S-01", `{"temperature": {"value": 79.7, "unit": "F"}, "battery_mv": 2985}`},
		{"lab/S-01", `{"indoor": {"t": 21.5}, "outdoor": {"t": 4.25}}`},
		{"lab/S-01", `{"sensors": [{"name": "in", "t": 21.5}, {"name": "out", "t": 4.25}]}`},
		{"lab/gateway", `[{"sensorId": "S-01", "t": 26.4}, {"sensorId": "S-02", "t": -127, "h": 55}]`},
		{"lab/S-01", `{"readings": [{"ts": 1796547900000, "t": 26.3}, {"ts": 1796547910000, "t": 26.4}]}`},
		{"lab/S-01", `{"metric": "co2", "value": 612, "unit": "ppm", "time": "2026-12-06T16:05:10+07:00"}`},
	}},
	"senml": {"lab/{sensor}=senml", []Sample{
		{"lab/S-01", `[{"bn": "urn:dev:mac:0024befffe804ff1:", "bt": 1796547910, "n": "temperature", "u": "Cel", "v": 26.4}, {"n": "humidity", "u": "%RH", "v": 61, "t": -10}]`},
	}},
	"influx": {"lab/#=influx", []Sample{{"lab/site1", `climate,site=dc1,sensor=S-01 temperature=26.4,humidity=61i 1796547910000000000`}}},
	"kepware": {"lab/plc=kepware", []Sample{
		{"lab/plc", `{"timestamp": 1796547911224, "values": [{"id": "Line1.Oven.Temp", "v": 181.5, "q": true, "t": 1796547910000}]}`},
	}},
}

func (p *payloads) decoders(t *testing.T, ref Reference) {
	p.line("\n## Decoders")
	p.line("\nFor templates of your own: `template=decoder`, and `auto` without one. The name of a fleet is a decoder too, for such devices under other topics.")
	p.table("decoder", "what it takes")
	for _, d := range ref.Decoders {
		p.row(code(d.Name), d.Doc)
	}
	for _, d := range ref.Decoders {
		g, ok := generic[d.Name]
		switch {
		case ok:
			p.line("\n### %s", d.Name)
			p.line("\n`MQTT_TOPICS=%s`", g.entry)
			p.samples(t, g.entry, findFormat(d.Name), g.samples)
		case findFleet(d.Name) == nil:
			t.Errorf("decoder %s has no sample", d.Name)
		}
	}
}

// samples shows what one decoder makes of samples in their order: the first
// may be what names the metrics of the next.
func (p *payloads) samples(t *testing.T, entry string, f *format, samples []Sample) {
	d, err := New(Config{Topics: []string{entry}, ClockAhead: time.Minute, ClockBehind: 8760 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range samples {
		payload, shown := []byte(s.Payload), s.Payload
		if f.binary {
			if payload, err = base64.StdEncoding.DecodeString(s.Payload); err != nil {
				t.Fatalf("sample of %s: %v", entry, err)
			}
			shown += "\n(in base64)"
		}
		var indented bytes.Buffer
		if len(shown) > 100 && json.Indent(&indented, payload, "", "  ") == nil {
			shown = indented.String()
		}
		p.line("\n```text\n%s\n%s\n```", s.Topic, shown)
		var r Result
		d.Decode(Message{Topic: s.Topic, Payload: payload, Received: samplesNow.UnixMilli()}, &r)
		if r.Outcome == reading.Rejected {
			t.Errorf("sample of %s is rejected: %s %s: %s", entry, r.Reason, r.Detail, s.Payload)
		}
		p.result(&r)
	}
}

func (p *payloads) result(r *Result) {
	if r.Outcome != reading.Pending {
		p.line("\n%s (`%s`): %s.", sentence(r.Outcome.String()), r.Reason, strings.TrimSuffix(r.Detail, "."))
		return
	}
	p.table("sensor", "metric", "value", "time")
	for _, v := range r.Values {
		at := "receive time"
		if v.FromPayload {
			at = time.UnixMilli(v.Time).UTC().Format("2006-01-02T15:04:05.999Z")
		}
		p.row(code(v.Sensor), code(v.Metric), strings.TrimSpace(strconv.FormatFloat(v.Value, 'f', -1, 64)+" "+v.Unit), at)
	}
	for _, dropped := range r.Dropped {
		p.line("\nLeft out: `%s`, %s.", dropped.Metric, ReasonText(dropped.Reason))
	}
}

func (p *payloads) metrics(ref Reference) {
	p.line("\n## Metrics")
	p.line("\nThe metrics that are known, the one unit in which each is stored, what is plausible (`METRIC_RANGES` overrides it), and the keys that it may have in a payload. Case, blanks and")
	p.line("punctuation of a key don't matter. A key that ends in a unit of the list below declares it (`temp_f`, `pressure_kpa`), and one that ends in a known metric is of its kind, under a")
	p.line("name of its own (`soil_temperature`, `temp2`, `temperature_ds18b20`). Any other key of a number is a metric too: `soilMoisture` becomes `soil_moisture`, in the unit in which it comes.")
	p.table("metric", "unit", "plausible", "keys")
	for _, m := range ref.Metrics {
		var keys []string
		for _, a := range m.Aliases {
			key := code(a.Key)
			if a.Unit != "" {
				key += " (" + unitSign(a.Unit) + ")"
			}
			keys = append(keys, key)
		}
		plausible := number(m.Min) + " to " + number(m.Max)
		if m.Max == reading.MaxValue {
			plausible = "any"
		}
		p.row(code(m.Name), m.Unit, plausible, strings.Join(keys, ", "))
	}
}

func (p *payloads) units(ref Reference) {
	p.line("\n## Units")
	p.line("\nA unit that a message declares, behind the number in the same text (`\"79.5 °F\"`), beside the value, in the key or for all of its kind, is converted. With one that is not in the list the value is refused (`invalid_value`), since")
	p.line("the number alone would be wrong. Of one quantity in two units, the one that needs no conversion is stored. A `battery` in volts is a `battery_voltage`.")
	p.table("stored in", "spellings", "converted by")
	for _, u := range ref.Units {
		by := ""
		if u.Add != 0 {
			by = fmt.Sprintf("%+v", u.Add)
		}
		if u.Mul != 1 {
			by += " × " + number(u.Mul)
		}
		if u.Div != 1 {
			by += " ÷ " + number(u.Div)
		}
		p.row(u.Canonical, codes(u.Spellings), strings.TrimSpace(by))
	}
}

func (p *payloads) keys(ref Reference) {
	p.line("\n## Other keys")
	p.line("\nWhat else is looked for in JSON of no particular sender. Where an object has several of a kind, the first of the list counts.")
	p.table("what", "keys")
	p.row("sensor id", codes(ref.SensorKeys))
	p.row("time", codes(ref.TimeKeys))
	p.row("value", codes(ref.ValueKeys))
	p.row("its metric", codes(ref.MetricKeys))
	p.row("its unit", codes(ref.UnitKeys))
	p.row("holders of readings, which add nothing to their names", codes(ref.HolderKeys))
	p.row("no readings", codes(ref.OtherKeys))
	p.line("\nA message, or a text in one, that is one of these words is no reading and no error: %s.", codes(ref.StatusWords))
}

func (p *payloads) clocks() {
	p.line(`
## Clocks

- A number is of seconds, ms, µs or ns since 1970 by its magnitude: below %s, %s and %s in turn, else ns. Whole numbers are read as such, with no
  digit lost; what is finer than a ms is cut off.
- A text is RFC 3339, or what devices make of it: a blank for the `+"`T`"+`, no seconds, an offset without a colon.
- One without a zone is a time of `+"`TIMEZONE`"+`. In the hour that comes twice in autumn it is the one nearer to the receive time; one that is skipped
  in spring is read with the offset from before.
- A time before 2015, more than `+"`CLOCK_AHEAD`"+` after or more than `+"`CLOCK_BEHIND`"+` before the receive time, or one that cannot be read, is not
  believed: the reading gets the receive time, `+"`gudang_bad_clock_total`"+` counts the message, and the log names the sensor, at a limited rate.
- A payload without a time has the receive time. A retained message without one is ignored, since it may be of any age.`,
		power(secondsBelow), power(millisBelow), power(microsBelow))
}

// power is a power of ten.
func power(v float64) string { return "10^" + strings.TrimPrefix(number(v), "1e+") }

func (p *payloads) reasons() {
	p.line("\n## Reasons")
	p.line("\nA message is stored, a duplicate, ignored or rejected. One bad value does not cost its neighbours: it is left out alone, counted under its own reason.")
	p.line("\n`gudang_rejected_total{reason}`:")
	p.table("reason", "what it means")
	for _, r := range reading.RejectReasons {
		p.row(code(string(r)), ReasonText(r))
	}
	p.line("\n`gudang_ignored_total{reason}`, which is no fault:")
	p.table("reason", "what it means")
	for _, r := range reading.IgnoreReasons {
		p.row(code(string(r)), ReasonText(r))
	}
	p.line("\nLimits of one message: %d KiB, JSON nested %d deep, %d readings; a sensor id of %d bytes, a metric name of %d.", DefaultMaxPayload>>10, MaxDepth, MaxReadings, reading.MaxSensorID, MaxMetric)
}
