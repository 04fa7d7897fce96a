package decode

import "strings"

// format is a way to read payloads. Each has a file of its own; this table is
// all that knows of it. Its decode reads d.msg and ends the message with
// reject or ignore, or adds readings for settle to sort out.
type format struct {
	name   string
	doc    string
	binary bool // its payloads are no UTF-8 text
	decode func(*Decoder)
}

const auto = "auto"

func formats() []format {
	return []format{
		{name: auto, doc: "a plain number, or JSON: flat, nested, or an array of either", decode: decodeAuto},
		{name: "json", doc: "JSON: flat, nested, or an array of either", decode: decodeJSON},
		{name: "number", doc: "one plain number; the topic names the metric", decode: decodeNumber},

		// The dialects of a fleet, each under the fleet's name.
		{name: "tasmota", doc: "Tasmota's SENSOR messages and Status 10", decode: decodeTasmota},
		{name: "esphome", doc: "states of ESPHome's sensors", decode: decodeESPHome},
		{name: "zigbee2mqtt", doc: "device states of Zigbee2MQTT", decode: decodeZigbee2MQTT},
		{name: "shelly", doc: "Shelly of all generations", decode: decodeShelly},
		{name: "homeassistant", doc: "Home Assistant's statestream", decode: decodeHomeAssistant},
		{name: "homie", doc: "properties of Homie 3, 4 and 5", decode: decodeHomie},
		{name: "openmqttgateway", doc: "OpenMQTTGateway and Theengs Gateway", decode: decodeOpenMQTTGateway},
		{name: "rtl_433", doc: "events of rtl_433", decode: decodeRTL433},
		{name: "aws", doc: "AWS IoT device shadows", decode: decodeAWS},
		{name: "thingsboard", doc: "ThingsBoard's telemetry, of a device or a gateway", decode: decodeThingsBoard},

		{name: "ruuvi", doc: "advertisements from a Ruuvi Gateway", decode: decodeRuuvi},
		{name: "ttn", doc: "uplinks of The Things Stack v3", decode: decodeTTN},
		{name: "chirpstack", doc: "uplink events of ChirpStack v4 and v3", decode: decodeChirpStack},
		{name: "sparkplug", doc: "births and data of Sparkplug B", binary: true, decode: decodeSparkplug},

		// The dialects without topics of their own.
		{name: "senml", doc: "SenML packs in JSON (RFC 8428)", decode: decodeSenML},
		{name: "influx", doc: "InfluxDB's line protocol, and Telegraf's JSON", decode: decodeInflux},
		{name: "kepware", doc: "the IoT gateway of KEPServerEX: values with quality and time; the tag's id is the sensor", decode: decodeKepware},
	}
}

func findFormat(name string) *format {
	for _, f := range formats() {
		if f.name == name {
			return &f
		}
	}
	return nil
}

func formatNames() string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}
