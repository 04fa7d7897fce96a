package decode

import "strings"

func tasmotaFleet() Fleet {
	return Fleet{
		Name: "tasmota",
		Doc:  "Tasmota: telemetry, and what a device answers to `Status 10`. Several probes of one device are `device/probe`; how warm its chip is (`ESP32`) is left out. Tasmota sends the local time without a zone unless told otherwise: set `TIMEZONE`.",
		// Status 8 is Status 10 under its old name: a device answers with one.
		Topics: []string{"tele/{sensor}/SENSOR", "stat/{sensor}/STATUS10", "stat/{sensor}/STATUS8"},
		Samples: []Sample{
			{"tele/cold-store/SENSOR", `{"Time":"2026-12-06T09:05:10","SHT3X":{"Temperature":3.8,"Humidity":71.5,"DewPoint":-0.9},"TempUnit":"C"}`},
			{"tele/boiler/SENSOR", `{"Time":"2026-12-06T09:05:10","DS18B20-1":{"Id":"01131B7A1C2D","Temperature":131.0},"DS18B20-2":{"Id":"01131B7A1C2E","Temperature":98.6},"TempUnit":"F"}`},
			{"stat/attic/STATUS10", `{"StatusSNS":{"Time":"2026-12-06T09:05:10","BME280":{"Temperature":11.2,"Humidity":60.1,"Pressure":759.0},"PressureUnit":"mmHg","TempUnit":"C"}}`},
		},
	}
}

// decodeTasmota reads Tasmota's SENSOR messages and the answers to Status 10:
//
//	{"Time": "2026-12-06T09:05:10", "AM2301": {"Temperature": 4.6, …}, "TempUnit": "C"}
//	{"StatusSNS": {"Time": …, "DS18B20-1": {"Id": "01131B…", "Temperature": 21.3}, …}}
//	{"ZbReceived": {"0x2F4C": {"Device": "0x2F4C", "Name": "attic", "Temperature": 19.6}}}
//
// What it says on its other topics is no reading, and much of it is numbers.
func decodeTasmota(d *Decoder) {
	end := d.level(0)
	if tasmotaOther(end) || strings.HasPrefix(d.msg.Topic, "cmnd/") {
		d.noReading()
		return
	}
	if !d.parseObject() {
		return
	}
	at := int32(0)
	if sns := d.child(0, "StatusSNS"); sns >= 0 {
		at = sns
	} else if strings.HasPrefix(end, "STATUS") && end != "STATUS" {
		d.noReading()
		return
	}
	if d.doc.nodes[at].kind == anObject {
		d.readTasmota(at)
	}
	d.finish()
}

// tasmotaOther says whether the last level of a topic is one of those that
// carry no readings.
func tasmotaOther(end string) bool {
	switch end {
	case "LWT", "STATE", "RESULT", "UPTIME", "HEARTBEAT", "LOGGING", "MARGINS", "HASS_STATE", "WAKEUP", "PRESENCE", "STATUS":
		return true
	}
	if n, ok := strings.CutPrefix(end, "STATUS"); ok {
		return n != "0" && n != "8" && n != "10"
	}
	return strings.HasPrefix(end, "INFO") || strings.HasPrefix(end, "POWER")
}

func (d *Decoder) readTasmota(at int32) {
	sc := d.newScope()
	d.ofTopic(&sc)
	d.survey(at, &sc, true)
	// The epoch stands beside the local time if the device is set so, and has
	// no zone to be wrong about.
	d.timed(&sc, d.child(at, "Epoch"))
	nodes := d.doc.nodes
	for i := at + 1; i < nodes[at].next; i = nodes[i].next {
		n := &nodes[i]
		if n.kind != anObject {
			d.readScalar(n, d.fields[i], &sc)
			continue
		}
		switch key := d.doc.key(n); {
		case string(key) == "ESP32": // how warm the chip is, not the room
		case string(key) == "ZbReceived":
			d.readTasmotaZigbee(i, sc)
		case probeKey(key):
			d.readGroup(i, d.fields[i], d.probeOf(sc, key))
		default:
			d.readGroup(i, d.fields[i], sc)
		}
	}
}

// probeKey says whether the name of a probe has a number or address at its end,
// DS18B20-2 or ATC-3f9c01, which Tasmota gives them where there are several.
// Such a probe keeps its name when it is the only one left, or the readings of
// the others would go on as its own.
func probeKey(key []byte) bool {
	i := strings.LastIndexByte(string(key), '-')
	if i <= 0 || i == len(key)-1 {
		return false
	}
	for _, c := range key[i+1:] {
		if !isDigit(c) && !('a' <= c|0x20 && c|0x20 <= 'f') {
			return false
		}
	}
	return true
}

// readTasmotaZigbee reads what a Zigbee bridge passes on: each device is one of
// its own, known by the name that it was given, else by its address.
func (d *Decoder) readTasmotaZigbee(at int32, sc scope) {
	nodes := d.doc.nodes
	for i := at + 1; i < nodes[at].next; i = nodes[i].next {
		if nodes[i].kind != anObject {
			continue
		}
		id := d.text(d.child(i, "Name"))
		if len(id) == 0 {
			id = d.text(d.child(i, "Device"))
		}
		if len(id) == 0 {
			id = d.doc.key(&nodes[i])
		}
		d.scopes++
		sc.id = d.scopes
		d.named(&sc, id)
		inner := sc
		d.survey(i, &inner, true)
		for k := i + 1; k < nodes[i].next; k = nodes[k].next {
			// Endpoint, cluster and group are addresses, the rest is sensed.
			switch string(d.doc.key(&nodes[k])) {
			case "Endpoint", "Group", "Cluster":
			default:
				d.readScalar(&nodes[k], d.fields[k], &inner)
			}
		}
	}
}
