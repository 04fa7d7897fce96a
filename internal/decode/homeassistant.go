package decode

import "gudang/internal/reading"

func homeAssistantFleet() Fleet {
	return Fleet{
		Name:   "homeassistant",
		Doc:    "Home Assistant's `mqtt_statestream`. The sensor is the entity without its domain; the metric is the one that its name ends in, else `value`. The state comes in the unit that Home Assistant shows: leave that metric, or let the entity's name say it, as `attic_temp_f`. Statestream publishes retained, so what it replays at the start is not stored.",
		Topics: []string{"homeassistant/sensor/{sensor}/state", "homeassistant/climate/{sensor}/current_temperature", "homeassistant/climate/{sensor}/current_humidity"},
		Samples: []Sample{
			{"homeassistant/sensor/loading_bay_temperature/state", "7.4"},
			{"homeassistant/sensor/loading_bay_temperature/last_changed", `"2026-12-06T09:05:10.123456+00:00"`},
			{"homeassistant/climate/office/current_temperature", "21.5"},
		},
	}
}

// decodeHomeAssistant reads the state of an entity. Attributes are published
// on topics beside it, and are no readings but for what a thermostat measures:
//
//	homeassistant/sensor/<entity>/state                 4.6
//	homeassistant/sensor/<entity>/unit_of_measurement   "°C"
//	homeassistant/climate/<entity>/current_temperature  20.5
func decodeHomeAssistant(d *Decoder) {
	end, entity := d.level(0), d.level(1)
	text := trim(d.msg.Payload)
	sc := d.newScope()
	if !d.topic.route.sensor {
		d.named(&sc, []byte(entity))
	}
	switch end {
	case "state":
		if domain := d.level(2); domain == "binary_sensor" || domain == "switch" || domain == "light" || domain == "device_tracker" {
			d.noReading()
			return
		}
	case "current_temperature", "current_humidity":
		d.readState(text, d.names.getString(end[len("current_"):]), &sc)
		return
	default:
		d.noReading()
		return
	}
	f := d.topicMetric()
	if !d.topic.route.metric {
		in, ok := d.metricIn(entity)
		if ok {
			f = &in
		} else {
			f = d.names.getString(valueMetric)
		}
	}
	if len(text) > 0 && text[0] == '{' {
		d.reject(reading.NoReading, "a state of Home Assistant is no JSON")
		return
	}
	d.readState(text, f, &sc)
}
