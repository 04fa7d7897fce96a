package decode

import (
	"bytes"
	"strings"
)

func openMQTTGatewayFleet() Fleet {
	return Fleet{
		Name:   "openmqttgateway",
		Doc:    "OpenMQTTGateway and Theengs Gateway: Bluetooth devices, rtl_433 receivers, the gateway's own climate sensors. The sensor is the device and not the gateway that heard it, so two gateways in reach make one series.",
		Topics: []string{"home/+/BTtoMQTT/+", "home/+/BTtoMQTT", "home/+/RTL_433toMQTT/#", "home/+/CLIMAtoMQTT/+", "home/+/LORAtoMQTT/+"},
		Samples: []Sample{
			{"home/gateway-2/BTtoMQTT/C8FF77C0FFEE", `{"id":"C8:FF:77:C0:FF:EE","name":"ThermoBeacon","rssi":-80,"brand":"ORIA","model":"T/H","tempc":-4.5,"tempf":23.9,"hum":55,"batt":88}`},
			{"home/gateway-2/CLIMAtoMQTT/dht1", `{"hum":41.5,"tempc":22.25,"tempf":72.05}`},
			{"home/gateway-2/SYStoMQTT", `{"uptime":1200,"freemem":98000,"rssi":-60,"tempc":51}`},
		},
	}
}

// decodeOpenMQTTGateway reads what a gateway hears, flat JSON:
//
//	home/<gateway>/BTtoMQTT/<mac>  {"id": "A4:C1:38:…", "tempc": 11.5, "tempf": 52.7, "hum": 63, "batt": 58, "rssi": -71}
//
// What it says of itself (SYStoMQTT), of codes (433toMQTT, IRtoMQTT) and of its
// last will is no reading.
func decodeOpenMQTTGateway(d *Decoder) {
	if d.hasLevel("RTL_433toMQTT") {
		decodeRTL433(d)
		return
	}
	if d.level(0) == "undecoded" || d.hasLevel("presence") || d.gatewayCodes() {
		d.noReading()
		return
	}
	if !d.parseObject() {
		return
	}
	if d.doc.nodes[0].kind == anArray {
		for i := int32(1); i < d.doc.nodes[0].next; i = d.doc.nodes[i].next {
			d.readGatewayDevice(i)
		}
	} else {
		d.readGatewayDevice(0)
	}
	d.finish()
}

// gatewayCodes says whether the topic is one of those on which a gateway tells
// of itself, of codes that it received, or of what it switched.
func (d *Decoder) gatewayCodes() bool {
	for topic, more := d.msg.Topic, true; more; {
		var level string
		level, topic, more = strings.Cut(topic, "/")
		switch name, _ := strings.CutSuffix(level, "toMQTT"); name {
		case level: // another level
		case "SYS", "433", "IR", "RF", "SRFB", "Pilight", "WebUI", "RFID", "SMS", "LED", "HCSR501", "TOUCH", "RELAY", "ONOFF", "DISPLAY":
			return true
		}
	}
	return false
}

func (d *Decoder) readGatewayDevice(at int32) {
	if d.doc.nodes[at].kind != anObject {
		return
	}
	sc := d.newScope()
	if id := d.text(d.child(at, "id")); len(id) > 0 {
		d.named(&sc, id)
	} else {
		d.ofTopic(&sc)
	}
	d.survey(at, &sc, true)
	nodes := d.doc.nodes
	var probes [10]scope // of a device with several, by number
	for i := at + 1; i < nodes[at].next; i = nodes[i].next {
		n := &nodes[i]
		key := d.doc.key(n)
		if n.kind == anObject || n.kind == anArray || gatewayOther(key) {
			continue
		}
		if metric, probe := gatewayProbe(key); probe > 0 {
			if probes[probe].id == 0 {
				probes[probe] = d.probeOf(sc, key[len("tempc"):len("tempc2")])
			}
			d.readScalar(n, d.names.get(metric), &probes[probe])
			continue
		}
		d.readScalar(n, d.fields[i], &sc)
	}
}

// gatewayProbe splits tempc2 and tempf2, the temperature of a device's second
// probe in two units, and tempc2_ext, that of the one on a cable.
func gatewayProbe(key []byte) (metric []byte, probe int) {
	key = bytes.TrimSuffix(key, []byte("_ext"))
	if len(key) == len("tempc2") && (bytes.HasPrefix(key, []byte("tempc")) || bytes.HasPrefix(key, []byte("tempf"))) && '1' <= key[5] && key[5] <= '9' {
		return key[:5], int(key[5] - '0')
	}
	return nil, 0
}

// gatewayOther says whether a member describes the advertisement.
func gatewayOther(key []byte) bool {
	switch string(key) {
	case "id", "name", "mac_type", "adv_type", "type", "cidc", "acts", "cont", "track", "mfid", "manufacturerdata", "servicedata", "servicedatauuid", "uuid",
		"txpower", "power", "rssi_1m", "packet", "seq", "count", "pin", "rcode", "origin", "hostname", "distance", "major", "minor", "pferror", "packetSize", "message", "hex":
		return true
	}
	return false
}
