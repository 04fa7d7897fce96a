package decode

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gudang/internal/reading"
)

// The messages arrive at 09:05:30 on 6 December 2026, which is 1796547930.
var senMLCases = []decodeCase{
	{
		"a base name is the device, without the separator at its end", "s", `[{"bn":"S-7/","bt":1796547910,"n":"temperature","u":"Cel","v":26.4},{"n":"humidity","u":"%RH","v":61}]`,
		"S-7 temperature=26.4 2026-12-06T09:05:10; S-7 humidity=61 2026-12-06T09:05:10",
	},
	{"a colon separates as well", "s", `[{"bn":"urn:dev:ow:aa11bb22:","n":"temp","v":1},{"n":"voltage","u":"V","v":3.1}]`, "urn:dev:ow:aa11bb22 temperature=1; urn:dev:ow:aa11bb22 voltage=3.1"},
	{"so does the underscore of RFC 9039", "s", `[{"n":"urn:dev:ow:aa11bb22_temperature","v":1}]`, "urn:dev:ow:aa11bb22 temperature=1"},
	{
		"a device alone has the metric of its unit", "s", `[{"n":"urn:dev:ow:aa11bb22","u":"Cel","v":23.5},{"n":"urn:dev:ow:aa11bb22","u":"lon","v":24.5},{"n":"urn:dev:ow:aa11bb22","v":4}]`,
		"urn:dev:ow:aa11bb22 temperature=23.5; urn:dev:ow:aa11bb22 longitude=24.5; urn:dev:ow:aa11bb22 value=4",
	},
	{"an address is not taken apart", "s", `[{"n":"2001:db8::4","u":"%RH","v":50},{"n":"2001:db8::ab","u":"Cel","v":5}]`, "2001:db8::4 humidity=50; 2001:db8::ab temperature=5"},
	{"a name under a base name may have parts of its own", "s", `[{"bn":"barn/","n":"box-3/temperature","v":4.5}]`, "barn/box-3 temperature=4.5"},
	{"a base name may end within the id", "s", `[{"bn":"urn:dev:ow:","n":"10e2073a01080063","u":"Cel","v":4.5}]`, "urn:dev:ow:10e2073a01080063 temperature=4.5"},
	{"without a device the topic names it", "t/silo", `[{"n":"temperature","u":"Cel","v":4.5},{"n":"flow_rate","u":"foo","v":2}]`, "silo temperature=4.5; silo flow_rate=2"},
	{"a lone word that is no metric is the device", "t/silo", `[{"n":"S-0001","u":"Cel","v":4.5}]`, "S-0001 temperature=4.5"},
	{
		"the base fields change at the record that has new ones", "s", `[{"bn":"a/","bu":"Cel","bt":1796547900,"n":"t1","v":1},{"bn":"b/","n":"t1","v":2},{"n":"t1","u":"K","v":300.15,"t":5}]`,
		"a t1=1 2026-12-06T09:05:00; b t1=2 2026-12-06T09:05:00; b t1=27 2026-12-06T09:05:05",
	},
	{"a base value and a base sum are added", "s", `[{"bn":"a/","bv":20,"bs":100,"n":"temperature","v":1.5,"s":7},{"n":"humidity","v":2}]`, "a temperature=21.5; a temperature_sum=107; a humidity=22"},
	{"a sum alone is a reading of its own", "s", `[{"n":"a/power","u":"W","s":7.5}]`, "a power_sum=7.5"},
	{
		"times are added to the base time, backwards too", "s", `[{"bn":"a/","bt":1.79654793e9,"n":"temperature","v":1},{"n":"temperature","t":-10,"v":2},{"n":"temperature","t":-0.25,"v":3}]`,
		"a temperature=1 2026-12-06T09:05:30; a temperature=2 2026-12-06T09:05:20; a temperature=3 2026-12-06T09:05:29.75",
	},
	{"a small time is relative to now", "s", `[{"n":"a/temperature","t":-5,"v":1},{"n":"a/temperature","v":2},{"n":"a/humidity","t":0,"v":3}]`, "a temperature=1 2026-12-06T09:05:25; a temperature=2; a humidity=3"},
	{"so is a small base time", "s", `[{"bn":"a/","bt":-60,"n":"temperature","t":-5,"v":1}]`, "a temperature=1 2026-12-06T09:04:25"},
	{"2^28 seconds and more are absolute", "s", `[{"n":"a/temperature","t":268435456,"v":1}]`, "a temperature=1; bad clock"},
	{"one second less is the future", "s", `[{"n":"a/temperature","t":268435455,"v":1}]`, "a temperature=1; bad clock"},
	{"a time that is text is not believed", "s", `[{"n":"a/temperature","t":"now","v":1}]`, "a temperature=1; bad clock"},
	{
		"units are converted", "s", `[{"bn":"a/","n":"temperature","u":"K","v":293.15},{"n":"pressure","u":"Pa","v":100044},{"n":"humidity","u":"/","v":0.5},{"n":"battery","u":"%EL","v":98}]`,
		"a temperature=20; a pressure=1000.44; a humidity=50; a battery=98",
	},
	{"so are those of metrics of other names", "s", `[{"n":"a/outside","u":"K","v":293.15}]`, "a outside=20"},
	{"a unit that is not the metric's is no value", "s", `[{"n":"a/temperature","u":"V","v":3}]`, "!temperature invalid_value; rejected invalid_value"},
	{"texts, truth values and data are no readings", "s", `[{"bn":"a/","n":"label","vs":"x"},{"n":"open","vb":true},{"n":"blob","vd":"aGk"},{"n":"temperature","v":1}]`, "a temperature=1"},
	{"a pack of nothing else is ignored", "s", `[{"bn":"a/","n":"label","vs":"x"}]`, "ignored status"},
	{"so is a pack of base fields", "s", `[{"bn":"a/","bt":1796547900}]`, "ignored status"},
	{"the update time is no time", "s", `[{"n":"a/temperature","ut":30,"v":1}]`, "a temperature=1"},
	{"fields that are not known are skipped", "s", `[{"bn":"a/","n":"temperature","l":"[]","v":1,"foo":2}]`, "a temperature=1"},
	{"unless they must be understood", "s", `[{"bn":"a/","n":"temperature","v":1},{"n":"humidity","v":1,"foo_":2}]`, "rejected no_reading"},
	{"a version of the future is refused", "s", `[{"bn":"a/","bver":11,"n":"temperature","v":1}]`, "rejected invalid_value"},
	{"an earlier one is read", "s", `[{"bn":"a/","bver":5,"n":"temperature","v":1}]`, "a temperature=1"},
	{"a base time that is text spoils the pack", "s", `[{"bn":"a/","bt":"x","n":"temperature","v":1}]`, "rejected invalid_value"},
	{"a name with other characters costs its record", "s", `[{"n":"a b/temperature","v":1},{"n":"c/temperature","v":2}]`, "!temperature invalid_sensor; c temperature=2"},
	{"a name must begin with a letter or digit", "s", `[{"n":"_a/temperature","v":1}]`, "!temperature invalid_sensor; rejected invalid_sensor"},
	{"a battery in volts is a voltage", "s", `[{"bn":"a/","n":"battery","u":"%EL","v":50},{"n":"battery","u":"V","v":3.1}]`, "a battery=50; a battery_voltage=3.1"},
	{"a boolean is no value", "s", `[{"bn":"a/","n":"temperature","v":true},{"n":"humidity","v":2}]`, "!temperature boolean; a humidity=2"},
	{"two values in one record are none", "s", `[{"bn":"a/","n":"temperature","v":1,"vs":"x"},{"n":"humidity","v":2}]`, "!temperature invalid_value; a humidity=2"},
	{"a value that is not finite costs its record", "s", `[{"bn":"a/","n":"temperature","v":NaN},{"n":"humidity","v":2}]`, "!temperature not_finite; a humidity=2"},
	{"neither name nor topic gives a sensor", "s", `[{"n":"temperature","v":1}]`, "!temperature no_sensor; rejected no_sensor"},
	{"a record that is none spoils the pack", "s", `[{"bn":"a/","n":"temperature","v":1},3]`, "rejected no_reading"},
	{"an object is no pack", "s", `{"n":"a/temperature","v":1}`, "rejected no_reading"},
	{"auto knows a pack by its base name", "auto/x", `[{"bn":"a/","n":"temperature","v":1}]`, "a temperature=1"},
	{"auto knows a pack by names and values", "auto/x", `[{"n":"a/temperature","v":1,"t":-5}]`, "a temperature=1 2026-12-06T09:05:25"},
	{"auto leaves other arrays alone", "auto/x", `[{"id":"b","n":"temperature","v":1}]`, "b temperature=1"},
}

func runCases(t *testing.T, d *Decoder, cases []decodeCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := Message{Topic: c.topic, Payload: []byte(c.payload), Received: received.UnixMilli()}
			var out Result
			d.Decode(m, &out)
			checkResult(t, m, &out)
			if got := describe(&out); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestSenML(t *testing.T) {
	runCases(t, newDecoder(t, "s=senml", "t/{sensor}=senml", "auto/{sensor}"), senMLCases)
}

func TestARetainedPackRelativeToNowIsIgnored(t *testing.T) {
	d := newDecoder(t, "s=senml")
	var out Result
	d.Decode(Message{Topic: "s", Payload: []byte(`[{"n":"a/temperature","t":-5,"v":1}]`), Retained: true, Received: received.UnixMilli()}, &out)
	if got := describe(&out); got != "ignored retained" {
		t.Error(got)
	}
}

// TestSenMLExamples compares the examples of RFC 8428 with their resolved form,
// in the folder that GUDANG_SENML names. They are not part of the project, so
// without it there is nothing to run.
func TestSenMLExamples(t *testing.T) {
	dir := os.Getenv("GUDANG_SENML")
	if dir == "" {
		return
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.gen.resolved.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("cannot find examples in %q: %v", dir, err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			resolved := lateSenML(t, path)
			packed := lateSenML(t, strings.Replace(path, ".resolved", "", 1))
			var want []struct {
				N, U string
				T    float64
				V    *float64
			}
			if err := json.Unmarshal(resolved, &want); err != nil {
				t.Fatal(err)
			}
			now := 0.0
			for _, r := range want {
				now = max(now, r.T)
			}
			d, err := New(Config{Topics: []string{"s=senml"}, ClockAhead: time.Minute, ClockBehind: 8760 * time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			var out Result
			d.Decode(Message{Topic: "s", Payload: packed, Received: int64(now * 1e3)}, &out)
			got := slices.Clone(out.Values)
			for _, r := range want {
				if r.V == nil {
					continue
				}
				i := slices.IndexFunc(got, func(v Value) bool {
					named := r.N == v.Sensor || strings.HasPrefix(r.N, v.Sensor) && d.names.getString(r.N[len(v.Sensor)+1:]).name == v.Metric
					return named && v.Time == int64(math.Round(r.T*1e3)) && v.Value == *r.V
				})
				if i < 0 {
					t.Errorf("missing %+v %v in %s", r, *r.V, describe(&out))
					continue
				}
				got = slices.Delete(got, i, i+1)
			}
			if len(got) > 0 || len(out.Dropped) > 0 || out.Outcome != reading.Pending {
				t.Errorf("more than wanted: %v, %s", got, describe(&out))
			}
		})
	}
}

var senMLTimes = regexp.MustCompile(`("b?t":)(1\.\d+e\+09)`)

// lateSenML reads an example with all its times 400,000,000 s later: they are
// of years in which no sensor's clock is believed.
func lateSenML(t *testing.T, path string) []byte {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return senMLTimes.ReplaceAllFunc(b, func(s []byte) []byte {
		parts := senMLTimes.FindSubmatch(s)
		v, err := strconv.ParseFloat(string(parts[2]), 64)
		if err != nil {
			t.Fatal(err)
		}
		return strconv.AppendFloat(slices.Clone(parts[1]), v+4e8, 'e', -1, 64)
	})
}

const senMLPack = `[{"bn":"S-000001/","bt":1735689610.000,"n":"temperature","u":"Cel","v":26.4},{"n":"humidity","u":"%RH","v":61.0}]`

func BenchmarkSenML(b *testing.B) { benchmarkDecode(b, "s=senml", "s", senMLPack) }
