package decode

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gudang/internal/reading"
)

// corpusFile is a recorded message and what must become of it.
type corpusFile struct {
	Topic    string
	Retained bool
	Payload  string
	Base64   string `json:"payload_base64"`
	Gen      *struct {
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

func (f corpusFile) payload(t *testing.T) []byte {
	switch {
	case f.Base64 != "":
		b, err := base64.StdEncoding.DecodeString(f.Base64)
		if err != nil {
			t.Fatal(err)
		}
		return b
	case f.Gen != nil:
		return []byte(f.Gen.Prefix + strings.Repeat(f.Gen.Repeat, f.Gen.Count) + f.Gen.Suffix)
	}
	return []byte(f.Payload)
}

// corpusTopics are settings that a user of these devices would write.
var corpusTopics = []string{
	"warehouse/+/{sensor}/temperature", "warehouse/+/{sensor}/humidity", "warehouse/+/{sensor}/pressure", "warehouse/{sensor}/telemetry", "warehouse/{sensor}/batch",
	"warehouse/telemetry", "warehouse/+/{sensor}", "devices/warehouse/{sensor}", "wh/{sensor}", "gudang/{sensor}", "tele/{sensor}/+", "{sensor}/sensor/{metric}/state",
	"zigbee2mqtt/{sensor...}", "shellies/{sensor}/sensor/{metric}", "homeassistant/sensor/{sensor}/state", "homie/5/{sensor}/+/{metric}", "v1/devices/me/telemetry",
	"home/+/BTtoMQTT/{sensor}",
}

// corpusLater are files whose formats have no decoder.
var corpusLater = []string{
	"033-shelly-gen2-full-status.json", "035-ha-statestream-state.json", "042-senml-batch-negative-offsets.json", "044-influx-line-protocol.json",
	"047-ruuvi-gateway-raw.json", "048-ttn-v3-uplink.json", "050-aws-shadow-update.json", "054-thingsboard-gateway-many-devices.json",
	"055-kepserver-values.json", "056-sparkplug-b-ddata.json",
}

func checkCorpusFile(t *testing.T, f corpusFile) {
	now := time.Date(2026, 3, 14, 9, 27, 0, 0, time.UTC)
	zone := time.UTC
	var err error
	if f.Context.Now != "" {
		if now, err = time.Parse(time.RFC3339, f.Context.Now); err != nil {
			t.Fatal(err)
		}
	}
	if f.Context.TZ != "" {
		if zone, err = time.LoadLocation(f.Context.TZ); err != nil {
			t.Fatal(err)
		}
	}
	d, err := New(Config{Topics: corpusTopics, Zone: zone, ClockAhead: time.Minute, ClockBehind: 8760 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var out Result
	d.Decode(Message{Topic: f.Topic, Payload: f.payload(t), Retained: f.Retained, Received: now.UnixMilli()}, &out)
	if f.ExpectError != "" {
		if out.Outcome != reading.Rejected {
			t.Errorf("got %v %v, want a rejection: %s", out.Outcome, out.Values, f.ExpectError)
		}
		return
	}
	if len(f.Expect) == 0 {
		if out.Outcome != reading.Ignored {
			t.Errorf("got %v %s %v, want it ignored", out.Outcome, out.Reason, out.Values)
		}
		return
	}
	got := slices.Clone(out.Values)
	for _, want := range f.Expect {
		at, own := now.UnixMilli(), want.Time != nil
		if own {
			at = want.Time.UnixMilli()
		}
		i := slices.IndexFunc(got, func(v Value) bool {
			return v.Sensor == want.SensorID && v.Metric == want.Metric && math.Abs(v.Value-want.Value) < 1e-4 && v.Time == at && v.FromPayload == own
		})
		if i < 0 {
			t.Errorf("missing %+v in %v %s %+v", want, out.Outcome, out.Reason, out.Values)
			continue
		}
		got = slices.Delete(got, i, i+1)
	}
	for _, v := range got {
		if !slices.Contains(f.ExtraOK, v.Metric) {
			t.Errorf("unwanted %+v", v)
		}
	}
}

// TestCorpus runs recorded messages from the folder that GUDANG_CORPUS names.
// They are not part of the project, so without it there is nothing to run.
func TestCorpus(t *testing.T) {
	dir := os.Getenv("GUDANG_CORPUS")
	if dir == "" {
		return
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("cannot find messages in %q: %v", dir, err)
	}
	for _, path := range files {
		name := filepath.Base(path)
		if slices.Contains(corpusLater, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var f corpusFile
			if err := json.Unmarshal(b, &f); err != nil {
				t.Fatal(err)
			}
			checkCorpusFile(t, f)
		})
	}
}
