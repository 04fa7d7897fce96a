package decode

import "strings"

func homieFleet() Fleet {
	return Fleet{
		Name:   "homie",
		Doc:    "Homie 3, 4 and 5. The sensor is the device, the metric the property, in the unit that it is sent in: that is said on another topic (`$unit`, `$description`), so leave temperatures in °C. A node with a number at its end is a probe, `device/node`; if all nodes of a device measure the same, name them so yourself: `homie/5/{sensor...}/{metric}=homie`.",
		Topics: []string{"homie/5/{sensor}/+/{metric}", "homie/{sensor}/+/{metric}"},
		Samples: []Sample{
			{"homie/5/silo-2/climate/humidity", "13.5"},
			{"homie/silo-3/probe-2/temperature", "16.5"},
			{"homie/5/silo-2/$state", "ready"},
		},
	}
}

// decodeHomie reads the values of Homie's properties, each on a topic of its
// own. Topics with a level that begins with $ are attributes: they describe.
//
//	homie/<device>/<node>/<property>    18.3
//	homie/5/<device>/<node>/<property>  18.3
func decodeHomie(d *Decoder) {
	property, node := d.level(0), d.level(1)
	if property == "set" || strings.HasPrefix(d.msg.Topic, "$") || strings.Contains(d.msg.Topic, "/$") {
		d.noReading()
		return
	}
	sc := d.newScope()
	if !d.topic.route.sensor {
		// homie/5/device/node/property, under any prefix
		d.named(&sc, []byte(d.level(2)))
	} else {
		d.ofTopic(&sc)
	}
	f := d.names.getString(property)
	if d.topic.route.metric {
		f = d.topicMetric()
	}
	if !f.known {
		if of := d.names.getString(node); of.known && homieValue(property, of) {
			in := *of
			if in.declared == nil {
				in.declare(property)
			}
			f = &in
		}
	}
	if numbered(node) && !strings.HasSuffix(sc.sensor, node) && !sensorKind(node) {
		sc = d.probeOf(sc, []byte(node))
	}
	d.readState(trim(d.msg.Payload), f, &sc)
}

// homieValue says whether a property adds nothing to the name of its node:
// temperature/degrees is a temperature.
func homieValue(property string, node *field) bool {
	switch property {
	case "value", "degrees", "percent", "percentage", "relative", "reading", "state":
		return true
	}
	return findUnit(node.unit, property) != nil
}

// sensorKind says whether a name with a number at its end is that of a model
// and not of one among several: dht22, bme280, but not dht22-1 or probe2.
func sensorKind(name string) bool {
	letters := strings.TrimRight(name, "0123456789")
	digits := len(name) - len(letters)
	return digits >= 2 && letters != "" && isLower(letters[len(letters)-1]|0x20)
}
