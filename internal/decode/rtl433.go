package decode

import (
	"strings"

	"gudang/internal/reading"
)

func rtl433Fleet() Fleet {
	return Fleet{
		Name: "rtl_433",
		Doc:  "rtl_433 with `-F mqtt`. The sensor is `model/channel/id`, as in rtl_433's own topics: each of the three alone is shared by other devices. Times without a zone are the receiver's: set `TIMEZONE`, or run it with `-M time:utc`.",
		// devices/# repeats what events says, value by value and without its time.
		Topics: []string{"rtl_433/+/events"},
		Samples: []Sample{
			{"rtl_433/attic-pi/events", `{"time":"2026-12-06 09:05:10","model":"Nexus-TH","id":177,"channel":2,"battery_ok":1,"temperature_C":-2.4,"humidity":83}`},
			{"rtl_433/attic-pi/events", `{"time":"1796547910","model":"Acurite-Tower","id":9113,"channel":"A","battery_ok":0,"temperature_F":60.8,"humidity":49,"mic":"CHECKSUM"}`},
		},
	}
}

// decodeRTL433 reads an event of rtl_433, and its values one by one:
//
//	rtl_433/<host>/events                                       {"time": "…", "model": "Nexus-TH", "id": 177, "channel": 2, "temperature_C": 18.2, …}
//	rtl_433/<host>/devices/Nexus-TH/2/177/temperature_C         18.2
//
// battery_ok is a flag, not a percentage.
func decodeRTL433(d *Decoder) {
	if text := trim(d.msg.Payload); len(text) > 0 && text[0] != '{' && text[0] != '[' {
		d.readRTL433Value(text)
		return
	}
	if d.level(0) == "states" || !d.parseObject() {
		d.finish()
		return
	}
	if d.doc.nodes[0].kind != anObject {
		d.noReading()
		return
	}
	sc := d.newScope()
	var levels [3][]byte
	for i, key := range [...]string{"model", "channel", "id"} {
		levels[i] = d.text(d.child(0, key))
	}
	d.scratch = d.scratch[:0]
	for _, l := range levels {
		if len(l) > 0 && len(d.scratch) > 0 {
			d.scratch = append(d.scratch, '/')
		}
		d.scratch = append(d.scratch, l...)
	}
	if len(levels[0]) == 0 && len(levels[2]) == 0 {
		d.ofTopic(&sc)
	} else {
		d.named(&sc, d.scratch)
	}
	d.survey(0, &sc, true)
	if at := d.child(0, "time"); len(d.text(at)) > 0 && d.text(at)[0] == '@' {
		// The seconds since the receiver's start are no clock that is wrong.
		sc.at, sc.fromPayload, d.out.BadClock, d.out.Detail = d.msg.Received, false, false, ""
	}
	tire := string(d.text(d.child(0, "type"))) == "TPMS"
	nodes := d.doc.nodes
	for i := int32(1); i < nodes[0].next; i = nodes[i].next {
		if tire && d.fields[i].kind == "pressure" {
			d.fields[i] = d.tirePressure(d.fields[i])
		}
		if n := &nodes[i]; n.kind == aNumber || n.kind == aNotFinite || n.kind == aString && d.fields[i].known {
			if !rtl433Other(string(d.doc.key(n))) {
				d.readScalar(n, d.fields[i], &sc)
			}
		}
	}
	d.finish()
}

// tirePressure is a pressure in a tire, of which that of the air is the least.
func (d *Decoder) tirePressure(f *field) *field {
	tire := *f
	tire.lo, tire.hi = 0, 20000
	d.names.rename(&tire, "tire_pressure")
	return &tire
}

// readRTL433Value reads one value of a device on a topic of its own.
func (d *Decoder) readRTL433Value(text []byte) {
	key := d.level(0)
	_, device, ok := strings.Cut(d.msg.Topic, "/devices/")
	if !ok {
		_, device, ok = strings.Cut(d.msg.Topic, "/RTL_433toMQTT/")
	}
	if rtl433Other(key) || isStatus(text) {
		d.noReading()
		return
	}
	if !ok || len(device) <= len(key)+1 {
		d.reject(reading.NoReading, "neither an event nor a value of a device")
		return
	}
	sc := d.newScope()
	d.named(&sc, []byte(device[:len(device)-len(key)-1]))
	if f := d.names.getString(key); f.role == roleMetric {
		d.readState(text, f, &sc)
	} else {
		d.noReading()
	}
}

// rtl433Other says whether a member describes the device or the reception.
func rtl433Other(key string) bool {
	switch key {
	case "time", "model", "id", "channel", "subtype", "type", "protocol", "mic", "mod", "freq", "freq1", "freq2", "noise", "sequence_num", "sequence", "msg_type", "message_type",
		"battery_ok", "battery", "battery_low", "button", "test", "flags", "status", "state", "code", "data", "unit", "exception", "tamper", "alarm", "learn", "startup", "crc", "raw",
		"rid", "house_id", "device_type", "device_id", "sensor_id", "length", "len", "count", "num_rows", "rows", "pulses", "duration", "transmit", "sync":
		return true
	}
	return false
}
