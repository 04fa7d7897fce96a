package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// parsed runs the command with the settings given and returns what it printed.
func parsed(t *testing.T, environ []string, stdin string, args ...string) (string, error) {
	t.Helper()
	c, err := loadConfig(environ)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = parseMessages(c, strings.NewReader(stdin), &out, args)
	return out.String(), err
}

func parsedJSON(t *testing.T, environ []string, stdin string, args ...string) ([]parsedMessage, error) {
	t.Helper()
	out, err := parsed(t, environ, stdin, append([]string{"-json"}, args...)...)
	var messages []parsedMessage
	for line := range strings.Lines(out) {
		var m parsedMessage
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if m.Readings == nil || m.Dropped == nil {
			t.Errorf("%s: readings and dropped must be lists", line)
		}
		messages = append(messages, m)
	}
	return messages, err
}

const parseNow = "2026-03-14T09:27:00Z"

func TestParseForPrograms(t *testing.T) {
	tests := map[string]struct {
		topics, topic, payload string
		args                   []string
		want                   string
		status                 error
	}{
		"a reading with the payload's time": {
			"", "warehouse/S-1/reading", `{"suhu":29.5,"ts":1773480413123}`, nil,
			`{"outcome":"stored","reason":"","readings":[{"sensorId":"S-1","metric":"temperature","value":29.5,"unit":"°C","time":"2026-03-14T09:26:53.123Z","timeFrom":"payload"}],"dropped":[]}`, nil,
		},
		"a number that arrives now": {
			"w/{sensor}/{metric}", "w/a<b/t", " 26.4\r\n", nil,
			`{"outcome":"stored","reason":"","readings":[{"sensorId":"a<b","metric":"temperature","value":26.4,"unit":"°C","time":"2026-03-14T09:27:00.000Z","timeFrom":"receive"}],"dropped":[]}`, nil,
		},
		"a metric left out": {
			"", "warehouse/S-1/reading", `{"t":-3276.7,"h":64}`, nil,
			`{"outcome":"stored","reason":"","readings":[{"sensorId":"S-1","metric":"humidity","value":64,"unit":"%RH","time":"2026-03-14T09:27:00.000Z","timeFrom":"receive"}],"dropped":[{"metric":"temperature","reason":"out_of_range"}]}`, nil,
		},
		"a message that is refused": {
			"", "warehouse/S-1/reading", `{"t":`, nil,
			`{"outcome":"rejected","reason":"invalid_json","readings":[],"dropped":[]}`, errCheck,
		},
		"a topic that no entry wants": {
			"", "other/S-1", `20`, nil,
			`{"outcome":"ignored","reason":"not_selected","readings":[],"dropped":[]}`, nil,
		},
		"a retained message": {
			"", "warehouse/S-1/reading", `{"t":20}`,
			[]string{"-retained"},
			`{"outcome":"ignored","reason":"retained","readings":[],"dropped":[]}`, nil,
		},
		"an empty payload": {
			"", "warehouse/S-1/reading", "", nil,
			`{"outcome":"ignored","reason":"empty","readings":[],"dropped":[]}`, nil,
		},
		"flags behind the topic": {
			"", "warehouse/S-1/reading", "online",
			[]string{"-", "-retained"},
			`{"outcome":"ignored","reason":"status","readings":[],"dropped":[]}`, nil,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var environ []string
			if tt.topics != "" {
				environ = append(environ, "MQTT_TOPICS="+tt.topics)
			}
			got, err := parsed(t, environ, tt.payload, append([]string{"-json", "-now", parseNow, tt.topic}, tt.args...)...)
			if got != tt.want+"\n" || !errors.Is(err, tt.status) {
				t.Errorf("got %v\n%s, want %v\n%s", err, got, tt.status, tt.want)
			}
		})
	}
}

func TestParseForPeople(t *testing.T) {
	tests := map[string]struct {
		environ        []string
		topic, payload string
		want           []string
	}{
		"the settings in force": {
			[]string{"TIMEZONE=Asia/Jakarta", "METRIC_RANGES=temperature=0:10"},
			"warehouse/S-1/reading", "1",
			[]string{"MQTT_TOPICS=warehouse/{sensor}/reading TIMEZONE=Asia/Jakarta CLOCK_AHEAD=1m CLOCK_BEHIND=8760h METRIC_RANGES=temperature=0:10", "received  2026-03-14T09:27:00.000Z"},
		},
		"id and metric from the topic": {
			[]string{"MQTT_TOPICS=site/+/{sensor}/{metric}"},
			"site/a/S-1/suhu", "21",
			[]string{"sensor  S-1 ", "from topic level 3", "from topic level 4", "the payload has no time: receive time"},
		},
		"id and metric from the payload": {
			nil, "warehouse/S-1/reading", `{"sensorId":"S-9","kelembaban":40,"waktu":"2026-03-14T09:26:53Z"}`,
			[]string{"from the payload's sensorId", "from the payload's kelembaban", "from the payload's waktu\n"},
		},
		"an id of several levels": {
			[]string{"MQTT_TOPICS=z/{sensor...}"},
			"z/aisle 4/shelf-b", `{"t":1}`,
			[]string{"aisle 4/shelf-b", "from topic levels 2 to 3"},
		},
		"an id that wildcards give": {
			[]string{"MQTT_TOPICS=a/+/b/+"},
			"a/x/b/y", `{"t":1}`,
			[]string{"x/y", "from what the wildcards matched"},
		},
		"probes of one device": {
			nil, "warehouse/S-1/reading", `{"indoor":{"t":21},"outdoor":{"t":4}}`,
			[]string{"S-1/outdoor", "from topic level 2, probe outdoor from the payload"},
		},
		"a converted unit": {nil, "warehouse/S-1/reading", `{"temp_f":68.9}`, []string{"20.5 °C", "converted from 68.9 °F"}},
		"a clock that was not set": {
			nil, "warehouse/S-1/reading", `{"t":20,"time":"1970-01-01T00:00:17"}`, []string{"2026-03-14T09:27:00.000Z", "its time is in 1970, receive time used"},
		},
		"a time without a zone": {
			[]string{"TIMEZONE=Europe/Rome"},
			"warehouse/S-1/reading", `{"t":20,"time":"2026-03-14T10:26:53"}`,
			[]string{"2026-03-14T09:26:53.000Z", "which has no zone: TIMEZONE Europe/Rome"},
		},
		"a time in ns":             {nil, "warehouse/S-1/reading", `{"t":20,"ts":1773480413000000000}`, []string{"from the payload's ts, in ns since 1970"}},
		"a value out of its range": {nil, "warehouse/S-1/reading", `{"t":-127}`, []string{"rejected  out_of_range", "-127 was sent, plausible is -60 to 120 °C"}},
		"a number that nothing names": {
			nil, "warehouse/S-1/reading", "21", []string{"metric  value ", "a level {metric} of the template would"},
		},
		"a topic that no entry wants": {
			nil, "lab/S-1/temperature", "21", []string{"ignored   not_selected", "the entries are\n  warehouse/{sensor}/reading\n", "MQTT_TOPICS=lab/{sensor}/{metric}\n"},
		},
		"the topic of a fleet that is not selected": {
			nil, "tele/S-1/SENSOR", `{"Time":"2026-03-14T09:26:53","AM2301":{"Temperature":4.6},"TempUnit":"C"}`, []string{"what would store it\n  MQTT_TOPICS=tasmota\n"},
		},
		"a status on a topic that no entry wants": {nil, "tele/S-1/LWT", "Online", []string{"no entry was found that would store anything of it"}},
		"a decimal comma":                         {nil, "warehouse/S-1/reading", "26,4", []string{"rejected  decimal_comma: a comma where the point"}},
		"a boolean":                               {nil, "warehouse/S-1/reading", "true", []string{"rejected  boolean: true or false where a number belongs"}},
		"a tag's value": {
			[]string{"MQTT_TOPICS=plc/+=kepware"},
			"plc/1", `{"timestamp":1773480414224,"values":[{"id":"a.b","v":26.4,"q":true,"t":1773480413000}]}`,
			[]string{"from the payload's id", "metric  value                       from the payload\n"},
		},
		"a terminal's escapes": {nil, "warehouse/S-1\x1b[2J/reading", "\x1b[2J", []string{`"warehouse/S-1\x1b[2J/reading"`, `bytes: "\x1b[2J"`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parsed(t, tt.environ, tt.payload, "-now", parseNow, tt.topic)
			if err != nil && !errors.Is(err, errCheck) {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("missing %q in\n%s", want, got)
				}
			}
			if strings.Contains(got, "\x1b") {
				t.Errorf("an escape reaches the terminal: %q", got)
			}
		})
	}
}

func TestParseShowsAPersonABatchInPart(t *testing.T) {
	batch := "[" + strings.Repeat(`{"id":"a","t":1},{"id":"b","t":999},`, 200) + `{"id":"c","t":2}]`
	got, err := parsed(t, []string{"MQTT_TOPICS=b"}, batch, "b")
	if err != nil {
		t.Fatal(err)
	}
	if want := "and 100 more, which -json lists"; !strings.Contains(got, want) || !strings.Contains(got, "stored    2 of 202") {
		t.Errorf("missing %q in\n%s", want, got)
	}
}

func TestParseACapture(t *testing.T) {
	lines := strings.Join([]string{
		"warehouse/S-1/reading\t{\"t\": 1}",
		"warehouse/S 2/reading\t2",
		"warehouse/S-3/reading 3",
		`warehouse/S 4/reading {"t": 4}`,
		`warehouse/room 1/reading {"t": {"value": 4}}`,
		"",
		"warehouse/S-5/reading (null)",
		"warehouse/S-6/reading {",
		`  "t": 6`,
		"}",
		"warehouse/S-7/reading {\"t\":\r",
		"warehouse/S-8/reading 8",
	}, "\n")
	path := filepath.Join(t.TempDir(), "capture")
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{"from stdin": nil, "from stdin with -": {"-"}, "from a file": {"-", path}} {
		t.Run(name, func(t *testing.T) {
			got, err := parsedJSON(t, nil, lines, append(args, "-now", parseNow)...)
			if !errors.Is(err, errCheck) {
				t.Errorf("got %v, want it to say that one is rejected", err)
			}
			var became []string
			for _, m := range got {
				if len(m.Readings) > 0 {
					became = append(became, m.Readings[0].SensorID)
				} else {
					became = append(became, m.Outcome)
				}
			}
			if want := []string{"S-1", "S 2", "S-3", "S 4", "room 1", "ignored", "S-6", "rejected", "S-8"}; !slices.Equal(became, want) {
				t.Errorf("got %q, want %q", became, want)
			}
		})
	}
}

func TestParseUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"too many arguments":     {"a", "-", "b"},
		"a file that is missing": {"a", filepath.Join(t.TempDir(), "none")},
		"a time that is none":    {"-now", "yesterday", "a"},
		"an unknown flag":        {"a", "-verbose"},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := parsed(t, nil, "1", args...); !errors.Is(err, errUsage) || out != "" {
				t.Errorf("got %v and %q", err, out)
			}
		})
	}
	if _, err := parsed(t, nil, "1", "-now", "1773480420", "warehouse/S/reading"); err != nil {
		t.Error(err)
	}
}

// corpusSettings is what a user of each kind of device would set: the first
// pattern that the topic matches counts.
var corpusSettings = []struct{ topic, topics string }{
	{`^(tele|stat)/`, "tasmota"},
	{`^homeassistant/`, "homeassistant"},
	{`/sensor/[^/]+/state$`, "esphome"},
	{`^zigbee2mqtt/`, "zigbee2mqtt"},
	{`^shellies/|/events/rpc$|/status/[a-z_]+:\d+$`, "shelly"},
	{`^homie/`, "homie"},
	{`/(BTtoMQTT|LORAtoMQTT|433toMQTT|RTL_433toMQTT)(/|$)`, "openmqttgateway"},
	{`^ruuvi/`, "ruuvi"},
	{`^v3/`, "ttn"},
	{`^application/`, "chirpstack"},
	{`^\$aws/`, "aws"},
	{`^v1/`, "thingsboard"},
	{`^rtl_433/`, "rtl_433"},
	{`^spBv1\.0/`, "sparkplug"},
	{`^senml/`, "senml/{sensor}=senml"},
	{`^(telegraf|influx)/`, "+/#=influx"},
	{`^plant/`, "plant/kepware=kepware"},
	{`^[^/]+/[^/]+$`, "+/{sensor}"},
	{`^devices/warehouse/`, "devices/warehouse/{sensor}"},
	{`/(batch|telemetry)$`, "warehouse/{sensor}/+"},
	{`^/`, "/warehouse/+/{sensor}/{metric}"},
	{`^warehouse/[^/]+/[^/]+$`, "warehouse/+/{sensor}"},
	{`^warehouse/`, "warehouse/+/{sensor}/{metric}"},
}

// TestParseTheCorpus runs the recorded messages in the folder that
// GUDANG_CORPUS names through the command. They are not part of the project,
// so without it there is nothing to run.
func TestParseTheCorpus(t *testing.T) {
	dir := os.Getenv("GUDANG_CORPUS")
	if dir == "" {
		return
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("cannot find messages in %q: %v", dir, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) { parseCorpusFile(t, path) })
	}
}

func parseCorpusFile(t *testing.T, path string) {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Topic    string
		Retained bool
		Payload  string
		Base64   []byte `json:"payload_base64"`
		Gen      struct {
			Prefix, Repeat, Suffix string
			Count                  int
		} `json:"payload_gen"`
		Expect []struct {
			SensorID, Metric string
			Value            float64
			Time             *time.Time
		}
		ExpectError string   `json:"expect_error"`
		ExtraOK     []string `json:"extra_ok"`
		Context     struct{ Now, TZ string }
	}
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(corpusSettings, func(s struct{ topic, topics string }) bool { return regexp.MustCompile(s.topic).MatchString(f.Topic) })
	if i < 0 {
		t.Fatalf("no setting for the topic %q", f.Topic)
	}
	environ := []string{"MQTT_TOPICS=" + corpusSettings[i].topics}
	if f.Context.TZ != "" {
		environ = append(environ, "TIMEZONE="+f.Context.TZ)
	}
	if f.Context.Now == "" {
		f.Context.Now = parseNow
	}
	args := []string{"-now", f.Context.Now, f.Topic}
	if f.Retained {
		args = append(args, "-retained")
	}
	payload := f.Payload + string(f.Base64) + f.Gen.Prefix + strings.Repeat(f.Gen.Repeat, f.Gen.Count) + f.Gen.Suffix
	messages, err := parsedJSON(t, environ, payload, args...)
	if len(messages) != 1 {
		t.Fatalf("%s: got %v, %v", environ, messages, err)
	}
	got := messages[0]
	wanted := "stored"
	switch {
	case f.ExpectError != "":
		wanted = "rejected"
	case len(f.Expect) == 0:
		wanted = "ignored"
	}
	if got.Outcome != wanted || errors.Is(err, errCheck) != (wanted == "rejected") {
		t.Errorf("%s: got %+v and %v, want it %s", environ, got, err, wanted)
	}
	left := got.Readings
	for _, want := range f.Expect {
		at, from := f.Context.Now, "receive"
		if want.Time != nil {
			at, from = want.Time.Format(time.RFC3339Nano), "payload"
		}
		when, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(left, func(r parsedReading) bool {
			return r.SensorID == want.SensorID && r.Metric == want.Metric && math.Abs(r.Value-want.Value) < 1e-4 && r.Time == clockTime(when.UnixMilli()) && r.TimeFrom == from
		})
		if i < 0 {
			t.Errorf("%s: missing %+v in %+v", environ, want, got)
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	for _, r := range left {
		if !slices.Contains(f.ExtraOK, r.Metric) {
			t.Errorf("%s: unwanted %+v", environ, r)
		}
	}
}
