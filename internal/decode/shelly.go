package decode

import (
	"bytes"
	"strings"
)

func shellyFleet() Fleet {
	return Fleet{
		Name: "shelly",
		Doc:  "Shelly. Of the first generation the sensors; of Plus, Pro, Gen3 and later the RPC notifications, or the generic status updates if those are on (with both on a reading comes twice, the second time without its time). Probes of an add-on are `device/probe`. Leave the unit of a first-generation device at °C: it does not say which it uses.",
		Topics: []string{
			"shellies/{sensor}/sensor/{metric}", "shellies/{sensor}/ext_temperature/+", "shellies/{sensor}/ext_humidity/+",
			"{sensor}/events/rpc", "{sensor}/status/+",
		},
		Samples: []Sample{
			{"shellies/shellyht-C0FFEE/sensor/humidity", "54.5"},
			{"shellies/shelly1-C0FFEF/ext_temperature/1", "61.25"},
			{"shellyplusht-c0ffee000001/events/rpc", `{"src":"shellyplusht-c0ffee000001","dst":"shellyplusht-c0ffee000001/events","method":"NotifyFullStatus","params":{"ts":1796547910.25,"devicepower:0":{"id":0,"battery":{"V":5.9,"percent":91},"external":{"present":false}},"humidity:0":{"id":0,"rh":48.6},"temperature:0":{"id":0,"tC":20.9,"tF":69.6},"wifi":{"rssi":-58}}}`},
			{"shellyplus1-c0ffee000002/events/rpc", `{"src":"shellyplus1-c0ffee000002","dst":"shellyplus1-c0ffee000002/events","method":"NotifyStatus","params":{"ts":1796547912.5,"temperature:101":{"id":101,"tC":-18.4,"tF":-1.1}}}`},
			{"shellyhtg3-c0ffee000003/status/humidity:0", `{"id":0,"rh":50.2}`},
		},
	}
}

// decodeShelly reads both dialects of Shelly:
//
//	shellies/<id>/sensor/temperature   19.4
//	<id>/events/rpc                    {"src": "…", "method": "NotifyStatus", "params": {"ts": …, "temperature:0": {"tC": 19.4, "tF": 66.9}}}
//	<id>/status/temperature:0          {"id": 0, "tC": 19.4, "tF": 66.9}
func decodeShelly(d *Decoder) {
	switch text := trim(d.msg.Payload); {
	case d.level(0) == "rpc" || len(text) > 0 && text[0] == '{' && bytes.Contains(text, []byte(`"method"`)):
		d.readShellyRPC()
	case d.level(1) == "status":
		d.readShellyStatus()
	default:
		d.readShellyGen1()
	}
}

// readShellyGen1 reads a topic of a first-generation device: a number, or what
// is none. A relay's own temperature is that of the relay, not of the room.
func (d *Decoder) readShellyGen1() {
	end, before := d.level(0), d.level(1)
	sc := d.newScope()
	if !d.topic.route.sensor {
		name, ok := strings.CutPrefix(d.msg.Topic, "shellies/")
		if id, _, found := strings.Cut(name, "/"); ok && found {
			d.named(&sc, []byte(id))
		}
	}
	if !sc.resolved {
		d.ofTopic(&sc)
	}
	var f *field
	switch {
	case before == "ext_temperature" || before == "ext_humidity":
		f = d.names.getString(strings.TrimPrefix(before, "ext_"))
		sc = d.probeOf(sc, []byte(end))
	case before == "sensor":
		f = d.names.getString(end)
		if !f.known && !shellyGen1Sensor(end) || strings.HasSuffix(end, "_f") {
			f = nil // an error code, the reason of waking up
		}
	case end == "temperature":
		f = d.names.getString("device_temperature")
	case shellyPower(end) && numbered(before): // relay/0/power, emeter/1/voltage
		f = d.names.getString(end)
		if before != "0" {
			sc = d.probeOf(sc, []byte(before))
		}
	}
	if f == nil {
		d.noReading()
		return
	}
	d.readNumber(trim(d.msg.Payload), f, &sc)
}

func shellyGen1Sensor(name string) bool {
	switch name {
	case "tilt", "vibration_level", "concentration":
		return true
	}
	return false
}

func shellyPower(name string) bool {
	switch name {
	case "power", "energy", "voltage", "current", "pf", "total", "total_returned", "reactive_power":
		return true
	}
	return false
}

// readShellyRPC reads a notification, or the answer to Shelly.GetStatus.
func (d *Decoder) readShellyRPC() {
	if !d.parseObject() {
		return
	}
	params := d.child(0, "params")
	switch string(d.text(d.child(0, "method"))) {
	case "NotifyStatus", "NotifyFullStatus":
	case "":
		params = d.child(0, "result")
	default: // NotifyEvent, and calls
		params = -1
	}
	if params < 0 || d.doc.nodes[params].kind != anObject {
		d.noReading()
		return
	}
	sc := d.newScope()
	if src := d.text(d.child(0, "src")); len(src) > 0 {
		d.named(&sc, src)
	} else {
		d.ofTopic(&sc)
	}
	d.timed(&sc, d.child(params, "ts"))
	nodes := d.doc.nodes
	for i := params + 1; i < nodes[params].next; i = nodes[i].next {
		if nodes[i].kind == anObject {
			d.readShellyComponent(i, string(d.doc.key(&nodes[i])), sc)
		}
	}
	d.finish()
}

// readShellyStatus reads a status topic, which names the component.
func (d *Decoder) readShellyStatus() {
	if !d.parseObject() {
		return
	}
	sc := d.newScope()
	if !d.topic.route.sensor {
		if i := strings.LastIndex(d.msg.Topic, "/status/"); i > 0 {
			d.named(&sc, []byte(d.msg.Topic[:i]))
		}
	}
	if !sc.resolved {
		d.ofTopic(&sc)
	}
	if d.doc.nodes[0].kind == anObject {
		d.readShellyComponent(0, d.level(0), sc)
	}
	d.finish()
}

// shellyPart is a number of a component and what it measures.
type shellyPart struct{ component, object, key, metric string }

// shellyParts is all that is read of a device of the second generation or
// later. The rest is settings, counters and addresses.
var shellyParts = []shellyPart{
	{"temperature", "", "tC", "tempc"},
	{"temperature", "", "tF", "tempf"},
	{"humidity", "", "rh", "humidity"},
	{"illuminance", "", "lux", "illuminance"},
	{"voltmeter", "", "voltage", "voltage"},
	{"devicepower", "battery", "percent", "battery"},
	{"devicepower", "battery", "V", "voltage"},
	{"wifi", "", "rssi", "rssi"},
	{"switch", "temperature", "tC", "device_temperature"},
	{"cover", "temperature", "tC", "device_temperature"},
	{"light", "temperature", "tC", "device_temperature"},
	{"bthomedevice", "", "battery", "battery"},
	{"bthomedevice", "", "rssi", "rssi"},
	{"bthomesensor", "", "value", "value"},
}

// shellyMeters are the components that measure power, and what they call it.
var (
	shellyMeters = []string{"switch", "cover", "light", "pm1", "em1", "em"}
	shellyMeter  = []shellyPart{
		{"", "", "apower", "power"},
		{"", "", "act_power", "power"},
		{"", "", "total_act_power", "power"},
		{"", "", "aprt_power", "apparent_power"},
		{"", "", "voltage", "voltage"},
		{"", "", "current", "current"},
		{"", "", "total_current", "current"},
		{"", "", "freq", "frequency"},
		{"", "", "pf", "power_factor"},
		{"", "aenergy", "total", "energy"},
	}
)

// readShellyComponent reads one component of a device. Those with the id 0 are
// the device itself; those with others, 100 and up on an add-on, are probes:
// temperature:100 and humidity:100 are the one probe 100.
func (d *Decoder) readShellyComponent(at int32, component string, sc scope) {
	kind, id, _ := strings.Cut(component, ":")
	switch {
	case strings.HasPrefix(kind, "bthome") && id != "":
		// These have ids of their own, so that one might be a probe's, too.
		sc = d.probeOf(sc, []byte(component))
		d.timed(&sc, d.child(at, "last_updated_ts"))
	case id != "" && id != "0":
		sc = d.probeOf(sc, []byte(id))
	}
	for i := range shellyParts {
		if p := &shellyParts[i]; p.component == kind {
			d.readShellyPart(at, p, &sc)
		}
	}
	for _, m := range shellyMeters {
		if m != kind {
			continue
		}
		for i := range shellyMeter {
			d.readShellyPart(at, &shellyMeter[i], &sc)
		}
	}
}

func (d *Decoder) readShellyPart(at int32, p *shellyPart, sc *scope) {
	if p.object != "" {
		at = d.child(at, p.object)
	}
	i := d.child(at, p.key)
	if i < 0 {
		return
	}
	f := *d.names.getString(p.metric)
	if f.role == roleValue {
		sc.metric = d.names.getString(valueMetric)
	}
	f.key = p.key
	if n := &d.doc.nodes[i]; n.kind == aNumber || n.kind == aNotFinite {
		d.readScalar(n, &f, sc)
	}
}
