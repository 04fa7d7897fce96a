package main

import (
	"strings"
	"testing"

	"gudang/internal/decode"
)

func TestMetricUnit(t *testing.T) {
	unit := metricUnit()
	for metric, want := range map[string]string{
		"temperature": "°C", "soil_temperature": "°C", "humidity": "%RH", "co2": "ppm", "unheard_of": "", "temperature_trend": "", "": "", "_": "", "x_": "",
	} {
		if got := unit(metric); got != want {
			t.Errorf("%q: %q, want %q", metric, got, want)
		}
	}
}

// What the page tells to publish is what the settings take.
func TestTheExampleIsUnderstood(t *testing.T) {
	for topics, want := range map[string]string{
		"warehouse/{sensor}/reading":            "warehouse/S-01/reading",
		"site/+/{sensor}/{metric}":              "site/x/S-01/temperature",
		"tasmota,lab/{sensor...}":               "lab/S-01",
		"a/{sensor}=senml, b/{sensor}=json":     "b/S-01",
		"b/{sensor}/#":                          "b/S-01/x",
		"tasmota":                               "warehouse/S-01/reading", // nobody publishes for it by hand
		"{sensor}/{metric}/+/state, x/{sensor}": "S-01/temperature/x/state",
	} {
		topic, payload := example(topics)
		if topic != want {
			t.Errorf("%s: %s, want %s", topics, topic, want)
		}
		if topics == "tasmota" {
			continue
		}
		d, err := decode.New(decode.Config{Topics: strings.Split(strings.ReplaceAll(topics, " ", ""), ",")})
		if err != nil {
			t.Fatal(err)
		}
		var r decode.Result
		d.Decode(decode.Message{Topic: topic, Payload: []byte(payload)}, &r)
		if len(r.Values) == 0 || r.Values[0].Sensor != "S-01" || r.Values[0].Metric != "temperature" {
			t.Errorf("%s: %s with %s becomes %+v", topics, topic, payload, r)
		}
	}
}

func TestTheHintsHaveNoSecret(t *testing.T) {
	c, err := loadConfig([]string{"MQTT_URL=ssl://someone:hush@broker.example:8883", "MQTT_USERNAME=fleet", "MQTT_PASSWORD=hush"})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range (&service{cfg: c}).hints() {
		if strings.Contains(h.Command, "hush") || strings.Contains(h.Command, "someone") {
			t.Errorf("%s: %s", h.What, h.Command)
		}
		if strings.HasPrefix(h.Command, "mosquitto_pub") && !strings.HasPrefix(h.Command, "mosquitto_pub -h broker.example -p 8883 --tls-use-os-certs -u USER -P PASSWORD -q 1 -t warehouse/S-01/reading") {
			t.Errorf("%s", h.Command)
		}
	}
}

func TestQuote(t *testing.T) {
	for text, want := range map[string]string{"a/b-1.c": "a/b-1.c", "": "''", "$a b": "'$a b'", "it's": `'it'\''s'`} {
		if got := quote(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
