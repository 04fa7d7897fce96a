package decode

import (
	"strings"

	"gudang/internal/reading"
)

func ttnFleet() Fleet {
	return Fleet{
		Name:   "ttn",
		Doc:    "The Things Network (The Things Stack v3): uplinks with a decoded payload, so the application or the device needs a payload formatter.",
		Topics: []string{"v3/+/devices/{sensor}/up"},
		Samples: []Sample{{"v3/barn@ttn/devices/silo-3/up", `{"end_device_ids":{"device_id":"silo-3","application_ids":{"application_id":"barn"},"dev_eui":"70B3D50000000003"},"received_at":"2026-12-06T09:05:11.214Z",` +
			`"uplink_message":{"f_port":2,"f_cnt":40,"frm_payload":"AQID","decoded_payload":{"temperature":11.5,"humidity":63.5,"battery_voltage":3.12},` +
			`"rx_metadata":[{"gateway_ids":{"gateway_id":"roof"},"timestamp":3302120988,"rssi":-104,"snr":6.25}],"received_at":"2026-12-06T09:05:10.996Z"}}`}},
	}
}

// decodeTTN reads an uplink of The Things Stack v3. Its readings are in
// decoded_payload, whose shape is the payload formatter's; normalized_payload
// stands for it where there is just that. What the radio measured of itself is
// no reading of the device.
func decodeTTN(d *Decoder) {
	if !d.parseObject() {
		return
	}
	uplink := d.child(0, "uplink_message")
	if uplink < 0 {
		d.ignore(reading.StatusWord, "no uplink: a join, a downlink or its acknowledgement")
		return
	}
	at, read := d.child(uplink, "decoded_payload"), (*Decoder).readInside
	if !d.holds(at) {
		at, read = d.child(uplink, "normalized_payload"), (*Decoder).readNormalized
	}
	if !d.holds(at) {
		d.ignore(reading.StatusWord, "the uplink has no decoded payload: does the application have a payload formatter?")
		return
	}
	sc := d.newScope()
	// The network server's time comes before the application server's, which
	// is later, and that before the gateway's, whose clock may be wrong.
	d.firstTime(&sc, d.child(uplink, "received_at"), d.child(0, "received_at"), d.child(d.child(uplink, "settings"), "time"))
	ids := d.child(0, "end_device_ids")
	d.nameDevice(&sc, d.child(ids, "device_id"), d.child(ids, "dev_eui"))
	read(d, at, sc)
}

// firstTime gives the scope the first of the times at the nodes that is
// believed.
func (d *Decoder) firstTime(sc *scope, at ...int32) {
	when := stamp{}
	for rank, i := range at {
		if len(d.text(i)) > 0 {
			d.readTime(&d.doc.nodes[i], uint8(rank), &when)
		}
	}
	d.believe(sc, &when)
}

// holds says whether the node is an object or array that is not empty.
func (d *Decoder) holds(at int32) bool {
	if at < 0 {
		return false
	}
	n := &d.doc.nodes[at]
	return (n.kind == anObject || n.kind == anArray) && n.next > at+1
}

// nameDevice takes the first id there is; without any the topic names the
// sensor.
func (d *Decoder) nameDevice(sc *scope, at ...int32) {
	for _, i := range at {
		if id := d.text(i); len(id) > 0 {
			sc.sensor, sc.sensorWhy = d.sensorID(id)
			sc.resolved = true
			return
		}
	}
	sc.sensor, sc.sensorWhy = d.topicSensor()
	sc.resolved = true
}

// readInside reads what a device says as JSON of no particular shape. The
// device is named already: an id in there is that of a part of it, or the
// device's own by another name.
func (d *Decoder) readInside(at int32, sc scope) {
	device, why := sc.sensor, sc.sensorWhy
	var own string
	badClock, detail := d.out.BadClock, d.out.Detail
	if d.doc.nodes[at].kind == anArray {
		d.readArray(at, sc)
	} else {
		inner := sc
		if d.survey(at, &inner, true); inner.sensor != device {
			own = inner.sensor
		}
		d.readObject(at, sc)
	}
	if sc.fromPayload { // then the network's clock does where the device's is wrong
		d.out.BadClock, d.out.Detail = badClock, detail
	}
	for i := range d.found {
		c := &d.found[i]
		if !c.fromPayload {
			c.time, c.fromPayload = sc.at, sc.fromPayload
		}
		switch {
		case why != "":
			c.sensor, c.why = device, why
		case c.sensor == device || c.sensor == "" || strings.HasPrefix(c.sensor, device+"/"):
		case c.sensor == own:
			c.sensor = device
		default:
			d.scratch = append(append(append(d.scratch[:0], device...), '/'), c.sensor...)
			if c.sensor, why = d.sensorID(d.scratch); why != "" {
				c.why, why = why, ""
			}
		}
	}
}
