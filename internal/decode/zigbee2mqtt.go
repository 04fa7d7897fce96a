package decode

import (
	"bytes"
	"strings"
)

func zigbee2mqttFleet() Fleet {
	return Fleet{
		Name:   "zigbee2mqtt",
		Doc:    "Zigbee2MQTT. The sensor is the friendly name, slashes and all. Set `last_seen: ISO_8601` there: the readings then have times of their own, and what is replayed at a restart is not stored twice.",
		Topics: []string{"zigbee2mqtt/{sensor...}"},
		Samples: []Sample{
			{"zigbee2mqtt/greenhouse/bench 3", `{"battery":74,"humidity":66.1,"last_seen":"2026-12-06T10:05:10+01:00","linkquality":96,"temperature":17.05,"voltage":2900}`},
			{"zigbee2mqtt/greenhouse/bench 3/availability", `{"state":"online"}`},
		},
	}
}

// decodeZigbee2MQTT reads the state of a device, which is flat JSON, or one
// attribute of it, as the output of Zigbee2MQTT is set:
//
//	zigbee2mqtt/<name>              {"temperature": 19.6, "last_seen": "…", "update": {…}}
//	zigbee2mqtt/<name>/temperature  19.6
func decodeZigbee2MQTT(d *Decoder) {
	if zigbeeOther(d) {
		d.noReading()
		return
	}
	text := trim(d.msg.Payload)
	if len(text) > 0 && (text[0] == '{' || bytes.HasPrefix(text, []byte("\uFEFF"))) {
		d.readZigbeeState()
		return
	}
	sc := d.newScope()
	d.ofTopic(&sc)
	if !d.topic.route.metric && sc.sensorWhy == "" {
		cut := strings.LastIndexByte(sc.sensor, '/')
		if cut <= 0 {
			d.noReading() // a device without an attribute has JSON
			return
		}
		name := sc.sensor[cut+1:]
		d.named(&sc, []byte(sc.sensor[:cut]))
		if f := d.names.getString(name); f.role == roleMetric && !zigbeeSetting(name) {
			d.readState(text, f, &sc)
		} else {
			d.noReading()
		}
		return
	}
	d.readState(text, d.topicMetric(), &sc)
}

// zigbeeOther says whether the topic is one of the bridge itself, or of a
// device's availability, or a command.
func zigbeeOther(d *Decoder) bool {
	end := d.level(0)
	if end == "availability" || end == "set" || end == "get" || d.level(1) == "set" || d.level(1) == "get" {
		return true
	}
	name := d.msg.Topic
	if d.topic.route.sensor {
		name = d.topic.sensor.of(d.msg.Topic)
	} else if _, rest, ok := strings.Cut(name, "/"); ok {
		name = rest
	}
	return name == "bridge" || strings.HasPrefix(name, "bridge/")
}

func (d *Decoder) readZigbeeState() {
	if !d.parseObject() {
		return
	}
	sc := d.newScope()
	d.ofTopic(&sc)
	d.survey(0, &sc, true)
	nodes := d.doc.nodes
	for i := int32(1); i < nodes[0].next; i = nodes[i].next {
		n := &nodes[i]
		// What is nested is colours, updates, schedules.
		if n.kind == anObject || n.kind == anArray || zigbeeSetting(string(d.doc.key(n))) {
			continue
		}
		f := d.fields[i]
		if !f.known && n.kind == aBool || n.kind == aString && !f.known && !numberLike(trim(d.doc.val(n))) {
			continue
		}
		d.readScalar(n, f, &sc)
	}
	d.finish()
}

// zigbeeSetting says whether an attribute is a setting of the device, which is
// sent beside what it measures.
func zigbeeSetting(name string) bool {
	switch name {
	case "elapsed", "illuminance_raw", "power_on_behavior", "transition", "id":
		return true
	}
	for _, end := range []string{"_calibration", "_precision", "_offset", "_sensitivity", "_threshold", "_interval", "_timeout", "_duration", "_setpoint", "_compensation", "_alarm", "_max", "_min", "_count_limit"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}
