package decode

func esphomeFleet() Fleet {
	return Fleet{
		Name:   "esphome",
		Doc:    "ESPHome with `mqtt:`. The sensor is the topic prefix, the metric the name that the sensor has in its settings. ESPHome sends what its settings say, so leave temperatures in °C there.",
		Topics: []string{"{sensor}/sensor/{metric}/state"},
		Samples: []Sample{
			{"cellar-node/sensor/temperature/state", "12.9"},
			{"cellar-node/sensor/soil_humidity/state", "41.0"},
		},
	}
}

// decodeESPHome reads the states of ESPHome's sensors, each a number on a topic
// of its own:
//
//	<prefix>/sensor/<name>/state  21.3
//
// A failed sensor is "nan". States of the other components (text, switches) and
// the topics for commands, logs and the last will are no readings.
func decodeESPHome(d *Decoder) {
	component := d.level(2)
	if d.level(0) != "state" || component != "sensor" && component != "number" {
		d.noReading()
		return
	}
	sc := d.newScope()
	if d.topic.route.metric {
		d.readNumber(trim(d.msg.Payload), d.topicMetric(), &sc)
		return
	}
	name := d.level(1)
	if !d.topic.route.sensor {
		end := len(d.msg.Topic) - len("/") - len(component) - len("/") - len(name) - len("/state")
		d.named(&sc, []byte(d.msg.Topic[:max(end, 0)]))
	}
	d.readNumber(trim(d.msg.Payload), d.names.getString(name), &sc)
}
