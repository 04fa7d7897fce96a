package decode

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// Each decoder has a target of its own, so that none of them waits for what is
// found in another. FuzzSparkplug is beside its tests: it needs two messages.

func FuzzAuto(f *testing.F)            { fuzzDecoder(f, auto, textCases, jsonCases) }
func FuzzJSON(f *testing.F)            { fuzzDecoder(f, "json", jsonCases) }
func FuzzNumber(f *testing.F)          { fuzzDecoder(f, "number", textCases) }
func FuzzTasmota(f *testing.F)         { fuzzDecoder(f, "tasmota") }
func FuzzESPHome(f *testing.F)         { fuzzDecoder(f, "esphome") }
func FuzzZigbee2MQTT(f *testing.F)     { fuzzDecoder(f, "zigbee2mqtt") }
func FuzzShelly(f *testing.F)          { fuzzDecoder(f, "shelly") }
func FuzzHomeAssistant(f *testing.F)   { fuzzDecoder(f, "homeassistant") }
func FuzzHomie(f *testing.F)           { fuzzDecoder(f, "homie") }
func FuzzOpenMQTTGateway(f *testing.F) { fuzzDecoder(f, "openmqttgateway") }
func FuzzRTL433(f *testing.F)          { fuzzDecoder(f, "rtl_433") }
func FuzzAWS(f *testing.F)             { fuzzDecoder(f, "aws") }
func FuzzThingsBoard(f *testing.F)     { fuzzDecoder(f, "thingsboard") }
func FuzzRuuvi(f *testing.F)           { fuzzDecoder(f, "ruuvi", ruuviCases) }
func FuzzTTN(f *testing.F)             { fuzzDecoder(f, "ttn", ttnCases) }
func FuzzChirpStack(f *testing.F)      { fuzzDecoder(f, "chirpstack", chirpstackCases) }
func FuzzSenML(f *testing.F)           { fuzzDecoder(f, "senml", senMLCases) }
func FuzzInflux(f *testing.F)          { fuzzDecoder(f, "influx", influxCases) }
func FuzzKepware(f *testing.F)         { fuzzDecoder(f, "kepware") }

// fuzzDecoder gives any payload on any topic to one decoder: on its fleet's own
// topics, on templates that name sensor or metric, and on any. It begins with
// the samples of the documentation and the messages of the tables.
func fuzzDecoder(f *testing.F, name string, tables ...[]decodeCase) {
	topics := []string{"d/{sensor}/{metric}=" + name, "e/{sensor...}=" + name, "w/+/{sensor}/{metric}=" + name, "r/+=" + name, "fixed=" + name, "#=" + name, "$aws/#=" + name}
	if findFleet(name) != nil {
		topics = slices.Insert(topics, 0, name)
	}
	for _, s := range samplesOf(f, name) {
		f.Add(s.Topic, []byte(s.Payload), false)
	}
	for i, c := range dialectCases {
		if newDecoder(f, c.entry).routes[0].format.name == name {
			f.Add(c.topic, []byte(c.payload), i%3 == 0)
		}
	}
	for _, table := range tables {
		for i, c := range table {
			if len(c.payload) < 4096 {
				f.Add(c.topic, []byte(c.payload), i%3 == 0)
			}
		}
	}
	d := newDecoder(f, topics...)
	var out Result
	f.Fuzz(func(t *testing.T, topic string, payload []byte, retained bool) {
		m := Message{Topic: topic, Payload: payload, Retained: retained, Received: received.UnixMilli()}
		before := string(payload)
		d.Decode(m, &out)
		checkResult(t, m, &out)
		if string(payload) != before {
			t.Fatal("the payload was changed")
		}
		checkFresh(t, d, m, &out, len(payload)+len(topic))
	})
}

// samplesOf are the messages with which the documentation shows a decoder.
func samplesOf(tb testing.TB, name string) []Sample {
	samples := slices.Clone(generic[name].samples)
	if fleet := findFleet(name); fleet != nil {
		samples = append(samples, fleet.Samples...)
	}
	if findFormat(name).binary {
		for i := range samples {
			payload, err := base64.StdEncoding.DecodeString(samples[i].Payload)
			if err != nil {
				tb.Fatal(err)
			}
			samples[i].Payload = string(payload)
		}
	}
	return samples
}

func TestEveryDecoderIsFuzzed(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	targets := make(map[string]bool)
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func Fuzz(\w+)\(`).FindAllSubmatch(source, -1) {
			targets[squash(string(m[1]))] = true
		}
	}
	for _, format := range formats() {
		if !targets[squash(format.name)] {
			t.Errorf("decoder %s has no fuzz target", format.name)
		}
		if len(samplesOf(t, format.name)) == 0 {
			t.Errorf("decoder %s has no sample to begin with", format.name)
		}
	}
}
