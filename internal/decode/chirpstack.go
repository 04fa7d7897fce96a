package decode

import (
	"bytes"
	"strings"

	"gudang/internal/reading"
)

func chirpstackFleet() Fleet {
	return Fleet{
		Name:   "chirpstack",
		Doc:    "ChirpStack v4 and v3: uplink events with a decoded object, so the device profile needs a codec. The sensor is the device's name, or its EUI if it has none.",
		Topics: []string{"application/+/device/{sensor}/event/up"},
		Samples: []Sample{{"application/6f0c2a11-0000-4000-8000-000000000001/device/0004a30b00000011/event/up", `{"deduplicationId":"3ac7e3c4-0000-4000-8000-000000000001","time":"2026-12-06T09:05:10.433+00:00",` +
			`"deviceInfo":{"tenantName":"farm","applicationName":"silos","deviceProfileName":"th","deviceName":"silo-4","devEui":"0004a30b00000011"},"devAddr":"00189440","dr":1,"fCnt":4,"fPort":1,` +
			`"data":"AWcA4w==","object":{"temperature":12.5,"humidity":58.5},"rxInfo":[{"gatewayId":"0016c00100000001","rssi":-48,"snr":9.0}]}`}},
	}
}

// decodeChirpStack reads an uplink event of ChirpStack: v4, where the device is
// in deviceInfo and what the codec made of the payload in object; and v3, where
// the device is at the top, and objectJSON is JSON in a text.
func decodeChirpStack(d *Decoder) {
	if !d.parseObject() {
		return
	}
	if _, event, ok := strings.Cut(d.msg.Topic, "/event/"); ok && event != "up" && event != "rx" {
		d.ignore(reading.StatusWord, "no uplink: an event of another kind")
		return
	}
	sc := d.newScope()
	rx := d.child(0, "rxInfo")
	if d.holds(rx) && d.doc.nodes[rx].kind == anArray {
		rx++ // the first gateway that heard it
	}
	d.firstTime(&sc, d.child(0, "time"), d.child(rx, "nsTime"), d.child(rx, "gwTime"), d.child(rx, "time"), d.child(0, "publishedAt"))
	info := d.child(0, "deviceInfo")
	d.nameDevice(&sc, d.child(info, "deviceName"), d.child(info, "devEui"), d.child(0, "deviceName"), d.child(0, "devEUI"))
	at := d.child(0, "object")
	if text := d.child(0, "objectJSON"); at < 0 && text >= 0 && d.doc.nodes[text].kind == aString {
		inner := bytes.Clone(trim(d.doc.val(&d.doc.nodes[text])))
		if len(inner) > 0 {
			if !d.doc.parse(inner) {
				d.reject(d.doc.why, "objectJSON: "+d.doc.detail)
				return
			}
			d.prepare()
			at = 0
		}
	}
	if !d.holds(at) {
		d.ignore(reading.StatusWord, "the event has no decoded object: does the device profile have a codec?")
		return
	}
	d.readCodec(at, sc)
}

// cayenne are the groups that ChirpStack's Cayenne LPP codec makes, in each of
// which the keys are channels: {"temperatureSensor": {"3": 27.2}}.
var cayenne = map[string]string{
	"temperatureSensor": "temperature", "humiditySensor": "humidity", "barometer": "pressure", "illuminanceSensor": "illuminance",
	"analogInput": "analog_input", "analogOutput": "analog_output", "presenceSensor": "presence", "digitalInput": "digital_input", "digitalOutput": "digital_output",
}

// readCodec reads what a codec made. One channel of Cayenne LPP is the device
// itself; several are device/channel.
func (d *Decoder) readCodec(at int32, sc scope) {
	nodes := d.doc.nodes
	if nodes[at].kind != anObject || !d.isCayenne(at) {
		d.readInside(at, sc)
		return
	}
	for i := at + 1; i < nodes[at].next; i = nodes[i].next {
		metric := cayenne[string(d.doc.key(&nodes[i]))]
		if metric == "" || nodes[i].kind != anObject {
			continue
		}
		f := d.names.getString(metric)
		alone := nodes[i].next > i+1 && nodes[i+1].next == nodes[i].next
		for k := i + 1; k < nodes[i].next; k = nodes[k].next {
			channel := sc
			if !alone && sc.sensorWhy == "" {
				d.scratch = append(append(append(d.scratch[:0], sc.sensor...), '/'), d.doc.key(&nodes[k])...)
				channel.sensor, channel.sensorWhy = d.sensorID(d.scratch)
			}
			d.readScalar(&nodes[k], f, &channel)
		}
	}
}

func (d *Decoder) isCayenne(at int32) bool {
	nodes := d.doc.nodes
	for i := at + 1; i < nodes[at].next; i = nodes[i].next {
		if cayenne[string(d.doc.key(&nodes[i]))] != "" && nodes[i].kind == anObject && nodes[i].next > i+1 && allDigits(d.doc.key(&nodes[i+1])) {
			return true
		}
	}
	return false
}
