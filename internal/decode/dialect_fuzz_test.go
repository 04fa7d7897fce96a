package decode

import "testing"

// FuzzDialect gives any payload on any topic to each dialect of devices that
// send JSON or text: on the fleet's own topics, and on any.
func FuzzDialect(f *testing.F) {
	names := []string{"tasmota", "esphome", "zigbee2mqtt", "shelly", "homeassistant", "homie", "openmqttgateway", "rtl_433", "aws", "thingsboard", "kepware"}
	var decoders []*Decoder
	for _, name := range names {
		topics := []string{"d/{sensor}/{metric}=" + name, "e/{sensor...}=" + name, "#=" + name, "$aws/#=" + name}
		if findFleet(name) != nil {
			topics = append([]string{name}, topics...)
		}
		decoders = append(decoders, newDecoder(f, topics...))
	}
	for i, c := range dialectCases {
		for which := range names {
			if i%len(names) == which || names[which] == newDecoder(f, c.entry).routes[0].format.name {
				f.Add(uint8(which), c.topic, []byte(c.payload), i%3 == 0)
			}
		}
	}
	var out Result
	f.Fuzz(func(t *testing.T, which uint8, topic string, payload []byte, retained bool) {
		d := decoders[int(which)%len(decoders)]
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
