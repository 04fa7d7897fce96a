package decode

import "testing"

var ttnCases = []decodeCase{
	{
		"the readings are in the decoded payload", "v3/app@ttn/devices/d-1/up", `{"end_device_ids":{"device_id":"d-1","dev_eui":"70B3"},"received_at":"2026-12-06T09:05:12.5Z","uplink_message":{"f_port":1,"f_cnt":7,"frm_payload":"AA==","decoded_payload":{"temperature":-3.5,"humidity":81},"rx_metadata":[{"timestamp":1190034211,"rssi":-97}],"received_at":"2026-12-06T09:05:10.25Z"}}`,
		"d-1 temperature=-3.5 2026-12-06T09:05:10.25; d-1 humidity=81 2026-12-06T09:05:10.25",
	},
	{"the outer time stands for a missing one", "t", `{"end_device_ids":{"device_id":"d-1"},"received_at":"2026-12-06T09:05:12.5Z","uplink_message":{"decoded_payload":{"temp":1}}}`, "d-1 temperature=1 2026-12-06T09:05:12.5"},
	{"so does that of the radio settings", "t", `{"end_device_ids":{"device_id":"d-1"},"uplink_message":{"settings":{"time":"2026-12-06T09:05:09Z"},"decoded_payload":{"temp":1}}}`, "d-1 temperature=1 2026-12-06T09:05:09"},
	{"a time that the device sends is its own", "t", `{"end_device_ids":{"device_id":"d-1"},"received_at":"2026-12-06T09:05:12Z","uplink_message":{"decoded_payload":{"temp":1,"timestamp":1796547000}}}`, "d-1 temperature=1 2026-12-06T08:50:00"},
	{"unless it is not believed: then the network's counts", "t", `{"end_device_ids":{"device_id":"d-1"},"received_at":"2026-12-06T09:05:12Z","uplink_message":{"decoded_payload":{"temp":1,"timestamp":77}}}`, "d-1 temperature=1 2026-12-06T09:05:12"},
	{"the EUI stands for a missing id", "t", `{"end_device_ids":{"dev_eui":"70B3D5"},"uplink_message":{"decoded_payload":{"temp":1}}}`, "70B3D5 temperature=1"},
	{"and the topic for both", "v3/app/devices/d-9/up", `{"uplink_message":{"decoded_payload":{"temp":1}}}`, "d-9 temperature=1"},
	{"an id in the payload is no other device", "t", `{"end_device_ids":{"device_id":"d-1"},"uplink_message":{"decoded_payload":{"id":5,"temp":1}}}`, "d-1 temperature=1"},
	{
		"values may lie deeper", "t", `{"end_device_ids":{"device_id":"d-1"},"uplink_message":{"decoded_payload":{"environment":{"temperature":21.5,"co2":{"value":600,"unit":"ppm"}},"battery":{"value":3.1,"unit":"V"}}}}`,
		"d-1 temperature=21.5; d-1 co2=600; d-1 battery_voltage=3.1",
	},
	{"a battery in millivolts has a voltage, too", "t", `{"end_device_ids":{"device_id":"d-1"},"uplink_message":{"decoded_payload":{"battery":{"value":3120,"unit":"mV"}}}}`, "d-1 battery_voltage=3.12"},
	{"one in percent a level", "t", `{"end_device_ids":{"device_id":"d-1"},"uplink_message":{"decoded_payload":{"battery":{"value":90,"unit":"%"}}}}`, "d-1 battery=90"},
	{"and one in another unit neither", "t", `{"end_device_ids":{"device_id":"d-1"},"uplink_message":{"decoded_payload":{"battery":{"value":90,"unit":"mAh"}}}}`, "!battery invalid_value; rejected invalid_value"},
	{"the chip behind the metric is a part of its name", "t", `{"end_device_ids":{"device_id":"d-1"},"uplink_message":{"decoded_payload":{"BatV":3.05,"Hum_SHT":"48.5","TempC_SHT":"-21.5","TempC_DS":327.67}}}`, "!temperature_ds out_of_range; d-1 battery_voltage=3.05; d-1 humidity_sht=48.5; d-1 temperature_sht=-21.5"},
	{"numbers as text", "t", `{"end_device_ids":{"device_id":"d-1"},"uplink_message":{"decoded_payload":{"BatV":3.05,"Humidity":"48.5","Temperature":"-21.5"}}}`, "d-1 battery_voltage=3.05; d-1 humidity=48.5; d-1 temperature=-21.5"},
	{"probes are named", "t", `{"end_device_ids":{"device_id":"d-1"},"uplink_message":{"decoded_payload":{"probe1":{"temperature":1},"probe2":{"temperature":2}}}}`, "d-1/probe1 temperature=1; d-1/probe2 temperature=2"},
	{"by their names", "t", `{"end_device_ids":{"device_id":"d-1"},"uplink_message":{"decoded_payload":{"sensors":[{"name":"a","temp":1},{"name":"b","temp":2}]}}}`, "d-1/a temperature=1; d-1/b temperature=2"},
	{"by their ids where they have some", "t", `{"end_device_ids":{"device_id":"d-1"},"uplink_message":{"decoded_payload":{"sensors":[{"id":"a","temp":1},{"id":"b","temp":2}]}}}`, "d-1/a temperature=1; d-1/b temperature=2"},
	{"Cayenne LPP has channels", "t", `{"end_device_ids":{"device_id":"d-1"},"uplink_message":{"decoded_payload":{"temperature_1":21.5,"relative_humidity_2":40}}}`, "d-1 temperature_1=21.5; d-1 relative_humidity_2=40"},
	{"the normalised payload stands for a missing decoded one", "t", `{"end_device_ids":{"device_id":"d-1"},"uplink_message":{"normalized_payload":[{"air":{"temperature":21.5,"relativeHumidity":40}}]}}`, "d-1 temperature=21.5; d-1 humidity=40"},
	{
		"its groups are parts of the names", "t", `{"end_device_ids":{"device_id":"d-1"},"uplink_message":{"normalized_payload":[{"time":"2026-12-06T09:05:10Z","air":{"temperature":-1.5,"pressure":1003,"lightIntensity":120},"soil":{"temperature":4,"pH":6.5,"p":500,"n":30},"wind":{"speed":2.5,"direction":90},"action":{"motion":{"count":3}}}],"received_at":"2026-12-06T09:05:12Z"}}`,
		"d-1 temperature=-1.5 2026-12-06T09:05:10; d-1 pressure=1003 2026-12-06T09:05:10; d-1 illuminance=120 2026-12-06T09:05:10; d-1 soil_temperature=4 2026-12-06T09:05:10; d-1 soil_ph=6.5 2026-12-06T09:05:10; d-1 soil_p=500 2026-12-06T09:05:10; d-1 soil_n=30 2026-12-06T09:05:10; d-1 wind_speed=2.5 2026-12-06T09:05:10; d-1 wind_direction=90 2026-12-06T09:05:10",
	},
	{"soil at depths is of probes", "t", `{"end_device_ids":{"device_id":"d-1"},"uplink_message":{"normalized_payload":[{"soil":{"depth":10,"moisture":31}},{"soil":{"depth":20,"moisture":35}}]}}`, "d-1/10 soil_moisture=31; d-1/20 soil_moisture=35"},
	{"a measurement's time that is not believed gives way to the network's", "t", `{"end_device_ids":{"device_id":"d-1"},"uplink_message":{"normalized_payload":[{"time":"1970-01-01T00:00:17Z","air":{"temperature":1}}],"received_at":"2026-12-06T09:05:12Z"}}`, "d-1 temperature=1 2026-12-06T09:05:12"},
	{"an uplink without either is ignored", "t", `{"end_device_ids":{"device_id":"d-1"},"uplink_message":{"frm_payload":"AA=="}}`, "ignored status"},
	{"so is an empty one", "t", `{"end_device_ids":{"device_id":"d-1"},"uplink_message":{"decoded_payload":{}}}`, "ignored status"},
	{"so is a join", "v3/app/devices/d-1/up", `{"end_device_ids":{"device_id":"d-1"},"received_at":"2026-12-06T09:05:12Z","join_accept":{"session_key_id":"AX","received_at":"2026-12-06T09:05:12Z"}}`, "ignored status"},
	{"a list is no message of the stack", "t", `[1]`, "ignored status"},
	{"broken JSON is broken", "t", `{"uplink_message":`, "rejected invalid_json"},
}

func TestTTN(t *testing.T) { runCases(t, newDecoder(t, "ttn", "t=ttn"), ttnCases) }

var chirpstackCases = []decodeCase{
	{
		"a group of Cayenne LPP may be empty", "application/a1/device/0004/event/up", `{"deviceInfo":{"deviceName":"silo-4"},"object":{"temperatureSensor":{"1":12.5},"humiditySensor":{}}}`,
		"silo-4 temperature=12.5",
	},
	{
		"version 4 has the device in deviceInfo", "application/a1/device/0004/event/up", `{"deduplicationId":"3a","time":"2026-12-06T09:05:10.433+00:00","deviceInfo":{"deviceName":"silo-4","devEui":"0004"},"dr":1,"fCnt":4,"fPort":1,"object":{"temperature":12.5,"battery":90},"rxInfo":[{"rssi":-48,"snr":9}]}`,
		"silo-4 temperature=12.5 2026-12-06T09:05:10.433; silo-4 battery=90 2026-12-06T09:05:10.433",
	},
	{"the EUI stands for a missing name", "c", `{"deviceInfo":{"devEui":"0004"},"object":{"temperature":12.5}}`, "0004 temperature=12.5"},
	{"the topic stands for both", "application/a1/device/0004/event/up", `{"object":{"temperature":12.5}}`, "0004 temperature=12.5"},
	{"the gateway's time stands for a missing one", "c", `{"deviceInfo":{"devEui":"0004"},"object":{"temp":1},"rxInfo":[{"gwTime":"2026-12-06T09:05:09Z"}]}`, "0004 temperature=1 2026-12-06T09:05:09"},
	{
		"version 3 has the object as text", "application/1/device/0004/event/up", `{"applicationID":"1","deviceName":"silo-5","devEUI":"AAQ=","rxInfo":[{"gatewayID":"AA==","time":"2026-12-06T09:05:08Z"}],"fCnt":1,"fPort":5,"objectJSON":"{\"temperature\":12.5,\"note\":\"a \\\"b\\\"\"}"}`,
		"silo-5 temperature=12.5 2026-12-06T09:05:08",
	},
	{"or as JSON", "application/1/device/0004/rx", `{"deviceName":"silo-5","object":{"humidity":40}}`, "silo-5 humidity=40"},
	{"one channel of Cayenne LPP is the device", "c", `{"deviceInfo":{"deviceName":"s"},"object":{"temperatureSensor":{"3":27.2},"humiditySensor":{"1":48},"barometer":{"0":1013.2},"gpsLocation":{"1":{"latitude":1}}}}`, "s temperature=27.2; s humidity=48; s pressure=1013.2"},
	{"several are probes of it", "c", `{"deviceInfo":{"deviceName":"s"},"object":{"temperatureSensor":{"1":27.2,"2":3}}}`, "s/1 temperature=27.2; s/2 temperature=3"},
	{"other events are ignored", "application/a1/device/0004/event/status", `{"time":"2026-12-06T09:05:10Z","deviceInfo":{"devEui":"0004"},"margin":10,"batteryLevel":90.5}`, "ignored status"},
	{"so is an uplink without an object", "application/a1/device/0004/event/up", `{"deviceInfo":{"devEui":"0004"},"data":"AA=="}`, "ignored status"},
	{"and one with an empty text for it", "c", `{"deviceName":"s","objectJSON":""}`, "ignored status"},
	{"broken JSON in the text is broken", "c", `{"deviceName":"s","objectJSON":"{\"t\":"}`, "rejected invalid_json"},
}

func TestChirpStack(t *testing.T) {
	runCases(t, newDecoder(t, "chirpstack", "c=chirpstack", "application/+/device/+/event/{sensor}=chirpstack", "application/+/device/{sensor}/rx=chirpstack"), chirpstackCases)
}

func BenchmarkTTN(b *testing.B) {
	benchmarkDecode(b, "ttn", "v3/app@ttn/devices/d-1/up", `{"end_device_ids":{"device_id":"d-1","dev_eui":"70B3"},"received_at":"2025-01-01T00:00:12.5Z","uplink_message":{"f_port":1,"f_cnt":7,"frm_payload":"AA==","decoded_payload":{"temperature":-3.5,"humidity":81},"rx_metadata":[{"timestamp":1190034211,"rssi":-97}],"received_at":"2025-01-01T00:00:10.25Z"}}`)
}

func BenchmarkChirpStack(b *testing.B) {
	benchmarkDecode(b, "chirpstack", "application/a1/device/0004/event/up", `{"deduplicationId":"3a","time":"2025-01-01T00:00:10.433+00:00","deviceInfo":{"deviceName":"silo-4","devEui":"0004"},"dr":1,"fCnt":4,"fPort":1,"object":{"temperature":12.5,"battery":90},"rxInfo":[{"rssi":-48,"snr":9}]}`)
}
