// Package devices tests what sensors are built from.
package devices

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gudang/internal/decode"
	"gudang/internal/reading"
)

// host runs the part of the sketch that knows nothing of the board: it starts
// without a clock, measures more than it can keep, learns the time, and sends.
const host = `
#define READINGS_KEPT 4
#include "readings.h"

int main(void) {
  static struct readings r;
  char json[160];
  readings_add(&r, readings_uptime(0), 20.0f, 50.0f);      /* overwritten */
  readings_add(&r, readings_uptime(10000), 20.55f, NAN);
  readings_add(&r, readings_uptime(15000), NAN, NAN);      /* no reading */
  readings_clock(&r, 1773480300000LL);
  readings_clock(&r, 1773480399999LL);                     /* changes nothing any more */
  readings_add(&r, 1773480320123LL, -5.0f, 100.0f);
  readings_add(&r, 1773480330123LL, NAN, 61.25f);
  readings_add(&r, 1773480340123LL, 26.4f, 61.0f);
  if (r.lost != 1 || readings_json(readings_oldest(&r), "S-01", json, 20)) return 1;
  while (readings_oldest(&r)) {
    if (!readings_json(readings_oldest(&r), "S-01", json, sizeof json)) return 1;
    puts(json);
    readings_sent(&r);
  }
  readings_sent(&r);
  return r.count;
}
`

func decoded(t *testing.T, topics, topic, payload string) string {
	t.Helper()
	d, err := decode.New(decode.Config{Topics: strings.Split(topics, ","), ClockAhead: time.Minute, ClockBehind: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var r decode.Result
	d.Decode(decode.Message{Topic: topic, Payload: []byte(payload), Received: time.Date(2026, 3, 14, 9, 27, 0, 0, time.UTC).UnixMilli()}, &r)
	if r.Outcome != reading.Pending || len(r.Dropped) > 0 {
		t.Errorf("%s: %s becomes %v: %s %v", topic, payload, r.Outcome, r.Detail, r.Dropped)
	}
	var out []string
	for _, v := range r.Values {
		if !v.FromPayload {
			t.Errorf("%s: the reading has no time of its own", payload)
		}
		out = append(out, v.Sensor+" "+v.Metric+" "+time.UnixMilli(v.Time).UTC().Format("15:04:05.000"))
	}
	return strings.Join(out, ", ")
}

func TestTheSketchKeepsAndFormatsReadings(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("needs a C compiler: on Debian or Ubuntu, sudo apt-get install gcc libc6-dev")
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "host.c"), filepath.Join(dir, "host")
	if err := os.WriteFile(source, []byte(host), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-std=c99", "-Wall", "-Wextra", "-Werror", "-I", "esp32-dht22", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"sensorId":"S-01","time":1773480310000,"temperature":20.5}
{"sensorId":"S-01","time":1773480320123,"temperature":-5.0,"humidity":100.0}
{"sensorId":"S-01","time":1773480330123,"humidity":61.2}
{"sensorId":"S-01","time":1773480340123,"temperature":26.4,"humidity":61.0}
`
	if string(out) != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		got = append(got, decoded(t, "warehouse/{sensor}/reading", "warehouse/S-01/reading", line))
	}
	if want := "S-01 temperature 09:25:20.123, S-01 humidity 09:25:20.123"; got[1] != want {
		t.Errorf("got %s, want %s", got[1], want)
	}
}

func TestTheOtherDevicesAreUnderstood(t *testing.T) {
	const topics = "warehouse/{sensor}/reading,tasmota" // as README.md says
	for name, tt := range map[string]struct{ topic, payload, want string }{
		"ESPHome": {
			"warehouse/s-01/reading", `{"sensorId":"s-01","time":1773480413000,"temperature":26.4,"humidity":61}`,
			"s-01 temperature 09:26:53.000, s-01 humidity 09:26:53.000",
		},
		"Tasmota": {
			"tele/S-01/SENSOR", `{"Time":"2026-03-14T09:26:53","AM2301":{"Temperature":26.4,"Humidity":61.0,"DewPoint":18.2},"TempUnit":"C"}`,
			"S-01 temperature 09:26:53.000, S-01 humidity 09:26:53.000, S-01 dew_point 09:26:53.000",
		},
	} {
		if got := decoded(t, topics, tt.topic, tt.payload); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}
