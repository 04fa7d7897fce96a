package decode

import (
	"testing"
	"time"

	"gudang/internal/reading"
)

// dialectCases are messages of the fleets and dialects, each read with an
// entry of MQTT_TOPICS as a user would write it.
var dialectCases = []struct{ name, entry, topic, payload, want string }{
	{
		"one probe is the device", "tasmota", "tele/hall/SENSOR", `{"Time":"2026-12-06T09:05:10","AM2301":{"Temperature":4.6,"Humidity":78.2},"TempUnit":"C"}`,
		"hall temperature=4.6 2026-12-06T09:05:10; hall humidity=78.2 2026-12-06T09:05:10",
	},
	{
		"several are named", "tasmota", "tele/hall/SENSOR", `{"Time":"2026-12-06T09:05:10","DS18B20-1":{"Id":"01","Temperature":1},"DS18B20-2":{"Id":"02","Temperature":2},"DS18B20-3":{"Id":"03","Temperature":3},"TempUnit":"C"}`,
		"hall/DS18B20-1 temperature=1 2026-12-06T09:05:10; hall/DS18B20-2 temperature=2 2026-12-06T09:05:10; hall/DS18B20-3 temperature=3 2026-12-06T09:05:10",
	},
	{"a numbered probe keeps its name alone", "tasmota", "tele/hall/SENSOR", `{"Time":"2026-12-06T09:05:10","DS18B20-2":{"Id":"02","Temperature":2}}`, "hall/DS18B20-2 temperature=2 2026-12-06T09:05:10"},
	{
		"two of different kinds that measure the same", "tasmota", "tele/hall/SENSOR", `{"AM2301":{"Temperature":1,"Humidity":50},"BMP280":{"Temperature":2,"Pressure":1000}}`,
		"hall/AM2301 temperature=1; hall/AM2301 humidity=50; hall/BMP280 temperature=2; hall/BMP280 pressure=1000",
	},
	{"the chip's own temperature is nobody's", "tasmota", "tele/hall/SENSOR", `{"AM2301":{"Temperature":1},"ESP32":{"Temperature":53.3}}`, "hall temperature=1"},
	{"units are converted", "tasmota", "tele/hall/SENSOR", `{"BME280":{"Temperature":68.9,"Pressure":750},"PressureUnit":"mmHg","TempUnit":"F"}`, "hall temperature=20.5; hall pressure=999.917906"},
	{"the answer to Status 10", "tasmota", "stat/hall/STATUS10", `{"StatusSNS":{"Time":"2026-12-06T09:05:10","AM2301":{"Temperature":68,"Humidity":null},"TempUnit":"F"}}`, "hall temperature=20 2026-12-06T09:05:10"},
	{"an epoch beside the local time is the better one", "tasmota", "tele/hall/SENSOR", `{"Time":"2026-12-06T11:05:10","Epoch":1796547910,"AM2301":{"Temperature":1}}`, "hall temperature=1 2026-12-06T09:05:10"},
	{"the date as old versions write it", "tasmota", "tele/hall/SENSOR", `{"Time":"2026.12.06 09:05:10","AM2301":{"Temperature":1}}`, "hall temperature=1 2026-12-06T09:05:10"},
	{"a failed probe has null", "tasmota", "tele/hall/SENSOR", `{"Time":"2026-12-06T09:05:10","AM2301":{"Temperature":null,"Humidity":null,"DewPoint":null}}`, "ignored status"},
	{"a switch is no reading", "tasmota", "tele/hall/SENSOR", `{"Time":"2026-12-06T09:05:10","Switch1":"ON"}`, "ignored status"},
	{"a Zigbee device is one of its own", "tasmota", "tele/bridge/SENSOR", `{"ZbReceived":{"0x2F4C":{"Device":"0x2F4C","Name":"attic","Temperature":19.6,"Endpoint":1,"LinkQuality":70}}}`, "attic temperature=19.6; attic link_quality=70"},
	{"without a name it is its address", "tasmota", "tele/bridge/SENSOR", `{"ZbReceived":{"0x2F4C":{"Device":"0x2F4C","Humidity":50}}}`, "0x2F4C humidity=50"},
	{"a last will is not selected", "tasmota", "tele/hall/LWT", "Online", "ignored not_selected"},
	{"and none with a template that takes it", "tele/{sensor}/+=tasmota", "tele/hall/LWT", "Online", "ignored status"},
	{"nor is the state with its numbers", "tele/{sensor}/+=tasmota", "tele/hall/STATE", `{"Time":"2026-12-06T09:05:10","Uptime":"1T00:00:00","Heap":25,"Wifi":{"RSSI":90,"Signal":-55}}`, "ignored status"},
	{"nor other answers", "stat/{sensor}/+=tasmota", "stat/hall/STATUS5", `{"StatusNET":{"Hostname":"hall","WifiPower":17.0}}`, "ignored status"},
	{"an own template", "plant/{sensor}=tasmota", "plant/oven", `{"MAX31855":{"ProbeTemperature":95.5,"ReferenceTemperature":24}}`, "oven probe_temperature=95.5; oven reference_temperature=24"},
	{"a corrupted buffer is rejected", "tasmota", "tele/hall/SENSOR", "{\"Time\":\"2026-12-06T09:05:10\",\"Swi\xf4\x02", "rejected invalid_utf8"},
	{"a truncated one, too", "tasmota", "tele/hall/SENSOR", `{"Time":"2026-12-06T09:05:10","AM2301":{"Temp`, "rejected invalid_json"},

	{"a number", "esphome", "node-1/sensor/temperature/state", "21.3", "node-1 temperature=21.3"},
	{"a name of the user's own", "esphome", "node-1/sensor/freezer_temperature/state", "-21.3", "node-1 freezer_temperature=-21.3"},
	{"a prefix with slashes needs a template", "{sensor...}/sensor/{metric}/state=esphome", "site/a/sensor/humidity/state", "50", "site/a humidity=50"},
	{"a template without names", "+/sensor/+/state=esphome", "node-1/sensor/humidity/state", "50", "node-1 humidity=50"},
	{"a failed sensor", "esphome", "node-1/sensor/temperature/state", "nan", "!temperature not_finite; rejected not_finite"},
	{"text in place of a number", "esphome", "node-1/sensor/temperature/state", "21,3", "rejected decimal_comma"},
	{"an unknown state", "esphome", "node-1/sensor/temperature/state", "unknown", "ignored status"},
	{"a text sensor", "{sensor}/+/{metric}/state=esphome", "node-1/text_sensor/version/state", "2026.3.0", "ignored status"},
	{"the last will", "{sensor}/#=esphome", "node-1/status", "online", "ignored status"},
	{"the log", "{sensor}/#=esphome", "node-1/debug", "[D][dht:048]: Got Temperature=21.3°C", "ignored status"},

	{"a name with slashes", "zigbee2mqtt", "zigbee2mqtt/a/b", `{"temperature":19.64,"linkquality":112,"last_seen":"2026-12-06T10:05:10+01:00"}`, "a/b temperature=19.64 2026-12-06T09:05:10; a/b linkquality=112 2026-12-06T09:05:10"},
	{"last_seen in ms", "zigbee2mqtt", "zigbee2mqtt/a", `{"temperature":19.64,"last_seen":1796547910123}`, "a temperature=19.64 2026-12-06T09:05:10.123"},
	{"last_seen that is no time", "zigbee2mqtt", "zigbee2mqtt/a", `{"temperature":19.64,"last_seen":"3 minutes ago"}`, "a temperature=19.64; bad clock"},
	{"settings and what is nested are no readings", "zigbee2mqtt", "zigbee2mqtt/a", `{"temperature":19.64,"temperature_calibration":-0.5,"update":{"installed_version":587814449,"state":"idle"},"device":{"networkAddress":6129},"occupancy":true,"action":"1_single","elapsed":300}`, "a temperature=19.64"},
	{"a lamp has none", "zigbee2mqtt", "zigbee2mqtt/lamp", `{"state":"ON","color_temp":370,"color_mode":"color_temp"}`, "ignored status"},
	{"nothing yet", "zigbee2mqtt", "zigbee2mqtt/a", `{"temperature":null,"last_seen":null}`, "ignored status"},
	{"an attribute of its own", "zigbee2mqtt", "zigbee2mqtt/a/b/temperature", "19.64", "a/b temperature=19.64"},
	{"an attribute that is text", "zigbee2mqtt", "zigbee2mqtt/a/b/state", "ON", "ignored status"},
	{"availability as text", "zigbee2mqtt", "zigbee2mqtt/a/availability", "online", "ignored status"},
	{"availability as JSON", "zigbee2mqtt", "zigbee2mqtt/a/b/availability", `{"state":"offline"}`, "ignored status"},
	{"the bridge", "zigbee2mqtt", "zigbee2mqtt/bridge/info", `{"version":"2.1.0","config":{"advanced":{"channel":11}}}`, "ignored status"},
	{"an own base topic", "site/z2m/{sensor...}=zigbee2mqtt", "site/z2m/bridge/state", `{"state":"online"}`, "ignored status"},
	{"a command", "zigbee2mqtt", "zigbee2mqtt/a/set", `{"brightness":200}`, "ignored status"},

	{"a sensor of the first generation", "shelly", "shellies/shellyht-A1/sensor/temperature", "19.38", "shellyht-A1 temperature=19.38"},
	{"its battery", "shelly", "shellies/shellyht-A1/sensor/battery", "77", "shellyht-A1 battery=77"},
	{"its reasons", "shelly", "shellies/shellyht-A1/sensor/act_reasons", `["button"]`, "ignored status"},
	{"its error code", "shelly", "shellies/shellyht-A1/sensor/error", "0", "ignored status"},
	{"its supply", "shelly", "shellies/shellyht-A1/sensor/ext_power", "false", "ignored status"},
	{"a probe of an add-on", "shelly", "shellies/shelly1-A2/ext_temperature/1", "61.25", "shelly1-A2/1 temperature=61.25"},
	{"the same in °F is not read again", "shellies/{sensor}/#=shelly", "shellies/shelly1-A2/ext_temperature_f/1", "142.25", "ignored status"},
	{"the relay's own temperature", "shellies/{sensor}/#=shelly", "shellies/shelly1pm-A3/temperature", "48.1", "shelly1pm-A3 device_temperature=48.1"},
	{"a relay", "shellies/{sensor}/#=shelly", "shellies/shelly1pm-A3/relay/0", "on", "ignored status"},
	{"its power", "shellies/{sensor}/#=shelly", "shellies/shelly1pm-A3/relay/0/power", "12.5", "shelly1pm-A3 power=12.5"},
	{"online", "shellies/{sensor}/#=shelly", "shellies/shelly1pm-A3/online", "true", "ignored status"},
	{"an announcement", "shellies/#=shelly", "shellies/announce", `{"id":"shelly1pm-A3","model":"SHSW-PM","new_fw":false,"fw_ver":"20230913"}`, "ignored status"},
	{
		"a full status", "shelly", "shellyplusht-b1/events/rpc", `{"src":"shellyplusht-b1","method":"NotifyFullStatus","params":{"ts":1796547910.62,"devicepower:0":{"id":0,"battery":{"V":5.41,"percent":64}},"humidity:0":{"id":0,"rh":57.4},"sys":{"uptime":5,"unixtime":null},"temperature:0":{"id":0,"tC":17.5,"tF":63.5},"wifi":{"rssi":-61}}}`,
		"shellyplusht-b1 battery=64 2026-12-06T09:05:10.62; shellyplusht-b1 voltage=5.41 2026-12-06T09:05:10.62; shellyplusht-b1 humidity=57.4 2026-12-06T09:05:10.62; shellyplusht-b1 temperature=17.5 2026-12-06T09:05:10.62; shellyplusht-b1 rssi=-61 2026-12-06T09:05:10.62",
	},
	{
		"probes of an add-on, one at a time", "shelly", "shellyplus1-b2/events/rpc", `{"src":"shellyplus1-b2","method":"NotifyStatus","params":{"ts":1796547910,"temperature:100":{"id":100,"tC":4.1,"tF":39.4},"humidity:100":{"id":100,"rh":80},"temperature:101":{"id":101,"tC":null,"tF":null,"errors":["read"]}}}`,
		"shellyplus1-b2/100 temperature=4.1 2026-12-06T09:05:10; shellyplus1-b2/100 humidity=80 2026-12-06T09:05:10",
	},
	{"°F alone is converted", "shelly", "shellyplus1-b2/events/rpc", `{"src":"shellyplus1-b2","method":"NotifyStatus","params":{"temperature:0":{"id":0,"tF":68}}}`, "shellyplus1-b2 temperature=20"},
	{"a clock that is not set", "shelly", "shellyplus1-b2/events/rpc", `{"src":"shellyplus1-b2","method":"NotifyStatus","params":{"ts":17.1,"temperature:0":{"id":0,"tC":20}}}`, "shellyplus1-b2 temperature=20; bad clock"},
	{"an event", "shelly", "shellyplus1-b2/events/rpc", `{"src":"shellyplus1-b2","method":"NotifyEvent","params":{"ts":1796547910,"events":[{"component":"input:0","id":0,"event":"single_push","ts":1796547910}]}}`, "ignored status"},
	{
		"a power meter", "shelly", "shellyplus1pm-b3/events/rpc", `{"src":"shellyplus1pm-b3","method":"NotifyStatus","params":{"ts":1796547910,"switch:0":{"id":0,"apower":12.5,"voltage":231.2,"aenergy":{"by_minute":[1,2],"total":11.67},"temperature":{"tC":53.3,"tF":127.9}}}}`,
		"shellyplus1pm-b3 device_temperature=53.3 2026-12-06T09:05:10; shellyplus1pm-b3 power=12.5 2026-12-06T09:05:10; shellyplus1pm-b3 voltage=231.2 2026-12-06T09:05:10; shellyplus1pm-b3 energy=11.67 2026-12-06T09:05:10",
	},
	{"a status topic", "shelly", "shellyplus1-b2/status/temperature:100", `{"id":100,"tC":4.1,"tF":39.4}`, "shellyplus1-b2/100 temperature=4.1"},
	{"one without readings", "shelly", "shellyplus1-b2/status/sys", `{"mac":"AA","uptime":12345,"ram_free":1000}`, "ignored status"},
	{"an own prefix", "site/{sensor}/status/+=shelly", "site/cold/status/humidity:0", `{"id":0,"rh":50}`, "cold humidity=50"},

	{"a state", "homeassistant", "homeassistant/sensor/cold_room_temperature/state", "4.6", "cold_room_temperature temperature=4.6"},
	{"of a name that says the unit", "homeassistant", "homeassistant/sensor/attic_temp_f/state", "68.9", "attic_temp_f temperature=20.5"},
	{"of a name of two words", "homeassistant", "homeassistant/sensor/attic_dew_point/state", "4.6", "attic_dew_point dew_point=4.6"},
	{"of a name with a number", "homeassistant", "homeassistant/sensor/attic_humidity_2/state", "46", "attic_humidity_2 humidity=46"},
	{"of a name that says nothing", "homeassistant", "homeassistant/sensor/feed/state", "4.6", "feed value=4.6"},
	{"of a name that only seems to say something", "homeassistant", "homeassistant/sensor/attic_absolute_humidity/state", "12.5", "attic_absolute_humidity value=12.5"},
	{"a version", "homeassistant", "homeassistant/sensor/bridge_version/state", "2026.3.1", "ignored status"},
	{"a time of day", "homeassistant", "homeassistant/sensor/sun_setting/state", "16:41:05", "ignored status"},
	{"a state with its unit", "homeassistant", "homeassistant/sensor/attic_humidity/state", "46.5 %", "attic_humidity humidity=46.5"},
	{"of an implausible value", "homeassistant", "homeassistant/sensor/attic_humidity/state", "460", "!humidity out_of_range; rejected out_of_range"},
	{"no state", "homeassistant", "homeassistant/sensor/attic_humidity/state", "unavailable", "ignored status"},
	{"a state in words", "homeassistant", "homeassistant/sensor/attic_weather/state", "partly cloudy", "ignored status"},
	{"a state that is a time", "homeassistant", "homeassistant/sensor/next_alarm/state", "2026-12-06T09:05:10+00:00", "ignored status"},
	{"a decimal comma is none", "homeassistant", "homeassistant/sensor/attic_humidity/state", "46,5", "rejected decimal_comma"},
	{"an attribute", "homeassistant/#=homeassistant", "homeassistant/sensor/attic_humidity/unit_of_measurement", `"%"`, "ignored status"},
	{"an attribute that is a number", "homeassistant/#=homeassistant", "homeassistant/sensor/attic_humidity/precision", `1`, "ignored status"},
	{"a discovery message", "homeassistant/#=homeassistant", "homeassistant/sensor/x/config", `{"name":"x","expire_after":60}`, "ignored status"},
	{"a thermostat", "homeassistant", "homeassistant/climate/office/current_temperature", "21.5", "office temperature=21.5"},

	{"version 5", "homie", "homie/5/node-3/climate/temperature", "18.25", "node-3 temperature=18.25"},
	{"versions 3 and 4", "homie", "homie/node-3/climate/humidity", "61", "node-3 humidity=61"},
	{"a node that is a model", "homie", "homie/node-3/dht22/humidity", "61", "node-3 humidity=61"},
	{"a node of several", "homie", "homie/node-3/probe2/humidity", "61", "node-3/probe2 humidity=61"},
	{"a node that is the metric", "homie", "homie/node-3/temperature/degrees", "18.5", "node-3 temperature=18.5"},
	{"in another unit", "homie", "homie/node-3/temperature/fahrenheit", "68", "node-3 temperature=20"},
	{"nodes as a part of the name", "homie/5/{sensor...}/{metric}=homie", "homie/5/node-3/indoor/temperature", "18.25", "node-3/indoor temperature=18.25"},
	{"a state of a device", "homie", "homie/5/node-3/$state", "ready", "ignored status"},
	{"a description", "homie/#=homie", "homie/5/node-3/$description", `{"homie":"5.0","version":7,"nodes":{}}`, "ignored status"},
	{"an attribute with numbers", "homie/#=homie", "homie/node-3/$stats/uptime", "120", "ignored status"},
	{"an empty text", "homie", "homie/5/node-3/climate/mode", "\x00", "ignored status"},
	{"a colour", "homie", "homie/node-3/lights/color", "255,0,0", "ignored status"},
	{"a property that is a boolean", "homie", "homie/5/node-3/climate/heating", "true", "ignored status"},
	{"a property that is text", "homie", "homie/5/node-3/climate/mode", "cooling", "ignored status"},
	{"a command", "homie/5/{sensor}/+/{metric}/#=homie", "homie/5/node-3/climate/temperature/set", "20", "ignored status"},

	{
		"two units, one reading", "openmqttgateway", "home/gw/BTtoMQTT/A4C138AABBCC", `{"id":"A4:C1:38:AA:BB:CC","mac_type":0,"name":"ATC","rssi":-71,"model":"LYWSD03MMC","tempc":11.5,"tempf":52.7,"hum":63,"batt":58,"volt":2.741}`,
		"A4:C1:38:AA:BB:CC rssi=-71; A4:C1:38:AA:BB:CC temperature=11.5; A4:C1:38:AA:BB:CC humidity=63; A4:C1:38:AA:BB:CC battery=58; A4:C1:38:AA:BB:CC voltage=2.741",
	},
	{"a device with probes", "openmqttgateway", "home/gw/BTtoMQTT/A4C138AABBCC", `{"id":"A4:C1:38:AA:BB:CC","tempc":21,"tempf":69.8,"tempc2":80,"tempf2":176}`, "A4:C1:38:AA:BB:CC temperature=21; A4:C1:38:AA:BB:CC/2 temperature=80"},
	{"a probe on a cable", "openmqttgateway", "home/gw/BTtoMQTT/A4C138AABBCC", `{"id":"A4:C1:38:AA:BB:CC","tempc2_ext":-12.5,"tempf2_ext":9.5,"hum":40}`, "A4:C1:38:AA:BB:CC/2 temperature=-12.5; A4:C1:38:AA:BB:CC humidity=40"},
	{"a clock that counts from the start", "openmqttgateway", "home/gw/BTtoMQTT/A4C138AABBCC", `{"id":"A4:C1:38:AA:BB:CC","tempc":21,"unixtime":17}`, "A4:C1:38:AA:BB:CC temperature=21; bad clock"},
	{"an old version's key", "openmqttgateway", "home/gw/BTtoMQTT/A4C138AABBCC", `{"id":"A4:C1:38:AA:BB:CC","tem":21.5}`, "A4:C1:38:AA:BB:CC temperature=21.5"},
	{"a beacon", "openmqttgateway", "home/gw/BTtoMQTT/A4C138AABBCC", `{"id":"A4:C1:38:AA:BB:CC","model":"iBeacon","mfid":"4c00","major":0,"minor":7,"txpower":-66}`, "ignored status"},
	{"presence alone", "openmqttgateway", "home/gw/BTtoMQTT/A4C138AABBCC", `{"id":"A4:C1:38:AA:BB:CC","name":"tag","mac_type":1,"manufacturerdata":"4c00"}`, "ignored status"},
	{"the gateway itself", "home/#=openmqttgateway", "home/gw/SYStoMQTT", `{"uptime":1200,"rssi":-60,"tempc":51}`, "ignored status"},
	{"a code", "home/#=openmqttgateway", "home/gw/433toMQTT", `{"value":1315156,"protocol":1,"length":24}`, "ignored status"},
	{"its last will", "home/#=openmqttgateway", "home/gw/LWT", "online", "ignored status"},
	{"its own sensor", "openmqttgateway", "home/gw/CLIMAtoMQTT/dht1", `{"hum":41.5,"tempc":22.25,"tempf":72.05}`, "gw/dht1 humidity=41.5; gw/dht1 temperature=22.25"},
	{"its receiver", "openmqttgateway", "home/gw/RTL_433toMQTT/Nexus-TH/2/177", `{"model":"Nexus-TH","id":177,"channel":2,"battery_ok":1,"temperature_C":5.5,"rssi":-80}`, "Nexus-TH/2/177 temperature=5.5; Nexus-TH/2/177 rssi=-80"},

	{"an event", "rtl_433", "rtl_433/pi/events", `{"time":"2026-12-06 09:05:10","model":"Nexus-TH","id":177,"channel":2,"battery_ok":1,"temperature_C":-2.4,"humidity":83,"mic":"CRC"}`, "Nexus-TH/2/177 temperature=-2.4 2026-12-06T09:05:10; Nexus-TH/2/177 humidity=83 2026-12-06T09:05:10"},
	{"with an epoch as text", "rtl_433", "rtl_433/pi/events", `{"time":"1796547910.250000","model":"X","id":1,"temperature_F":68}`, "X/1 temperature=20 2026-12-06T09:05:10.25"},
	{"with seconds since the receiver's start", "rtl_433", "rtl_433/pi/events", `{"time":"@12.5s","model":"X","id":1,"humidity":50}`, "X/1 humidity=50"},
	{"units with capitals", "rtl_433", "rtl_433/pi/events", `{"time":"1796547910","model":"X","id":1,"pressure_hPa":1003.1,"light_lux":1200,"battery_V":1.45}`, "X/1 pressure=1003.1 2026-12-06T09:05:10; X/1 illuminance=1200 2026-12-06T09:05:10; X/1 battery_voltage=1.45 2026-12-06T09:05:10"},
	{"a tyre has its own pressure", "rtl_433", "rtl_433/pi/events", `{"time":"1796547910","model":"Schrader","type":"TPMS","id":"3B1C","pressure_kPa":221.5,"temperature_C":20}`, "Schrader/3B1C tire_pressure=2215 2026-12-06T09:05:10; Schrader/3B1C temperature=20 2026-12-06T09:05:10"},
	{"without readings", "rtl_433", "rtl_433/pi/events", `{"time":"2026-12-06 09:05:10","model":"Generic-Remote","id":30000,"cmd":"up","battery_ok":1}`, "ignored status"},
	{"a value of its own", "rtl_433/+/devices/#=rtl_433", "rtl_433/pi/devices/Nexus-TH/2/177/temperature_C", "18.2", "Nexus-TH/2/177 temperature=18.2"},
	{"one that is a flag", "rtl_433/+/devices/#=rtl_433", "rtl_433/pi/devices/Nexus-TH/2/177/battery_ok", "1", "ignored status"},
	{"an availability", "rtl_433/#=rtl_433", "rtl_433/pi/availability", "online", "ignored status"},

	{"an update", "aws", "$aws/things/rack-31/shadow/update", `{"state":{"reported":{"temperature":26.4,"windowOpen":false},"desired":{"temperature":20}},"clientToken":"t-7"}`, "rack-31 temperature=26.4"},
	{"of a named shadow", "aws", "$aws/things/rack-31/shadow/name/climate/update", `{"state":{"reported":{"sensors":{"temperature":26.4}}}}`, "rack-31 temperature=26.4"},
	{"with its own time", "aws", "$aws/things/rack-31/shadow/update", `{"state":{"reported":{"temperature":26.4,"ts":1796547910}}}`, "rack-31 temperature=26.4 2026-12-06T09:05:10"},
	{"desired alone", "aws", "$aws/things/rack-31/shadow/update", `{"state":{"desired":{"temperature":20}}}`, "ignored status"},
	{"reported null", "aws", "$aws/things/rack-31/shadow/update", `{"state":{"reported":null}}`, "ignored status"},
	{"the service's answer repeats it", "aws", "$aws/things/rack-31/shadow/update/accepted", `{"state":{"reported":{"temperature":26.4}},"timestamp":1796547910}`, "ignored not_selected"},
	{
		"which can be read instead, with its times", "$aws/things/{sensor}/shadow/get/accepted=aws", "$aws/things/rack-31/shadow/get/accepted", `{"state":{"reported":{"temperature":26.4,"humidity":48}},"metadata":{"reported":{"temperature":{"timestamp":1796547850},"humidity":{"timestamp":1796547910}}},"timestamp":1796547920}`,
		"rack-31 temperature=26.4 2026-12-06T09:04:10; rack-31 humidity=48 2026-12-06T09:05:10",
	},
	{"documents have it too", "$aws/things/{sensor}/shadow/update/documents=aws", "$aws/things/rack-31/shadow/update/documents", `{"previous":{"state":{"reported":{"temperature":1}}},"current":{"state":{"reported":{"temperature":26.4}}},"timestamp":1796547910}`, "rack-31 temperature=26.4 2026-12-06T09:05:10"},
	{"a difference is no reading", "$aws/things/{sensor}/shadow/update/+=aws", "$aws/things/rack-31/shadow/update/delta", `{"state":{"temperature":20},"timestamp":1796547910}`, "ignored status"},

	{
		"a gateway's", "thingsboard", "v1/gateway/telemetry", `{"rack-41":[{"ts":1796547910000,"values":{"temperature":21.0,"id":7}}],"rack-42":[{"ts":1796547911000,"values":{"temperature":22.0}},{"ts":1796547851000,"values":{"temperature":23.0}}]}`,
		"rack-41 temperature=21 2026-12-06T09:05:10; rack-42 temperature=22 2026-12-06T09:05:11; rack-42 temperature=23 2026-12-06T09:04:11",
	},
	{"of devices whose names mean something", "thingsboard", "v1/gateway/telemetry", `{"data":[{"ts":1796547910000,"values":{"temperature":21}}]}`, "data temperature=21 2026-12-06T09:05:10"},
	{"a device's own names nobody", "thingsboard", "v1/devices/me/telemetry", `{"ts":1796547910000,"values":{"temperature":21}}`, "!temperature no_sensor; rejected no_sensor"},
	{"an own template does", "site/{sensor}/telemetry=thingsboard", "site/rack-1/telemetry", `[{"ts":1796547910000,"values":{"temperature":21}},{"ts":1796547850000,"values":{"temperature":20}}]`, "rack-1 temperature=21 2026-12-06T09:05:10; rack-1 temperature=20 2026-12-06T09:04:10"},
	{"attributes", "v1/#=thingsboard", "v1/gateway/attributes", `{"rack-41":{"firmwareVersion":3}}`, "ignored status"},
	{"a call", "v1/#=thingsboard", "v1/devices/me/rpc/request/1", `{"method":"setValue","params":20}`, "ignored status"},

	{
		"good values are read", "plant/kepware=kepware", "plant/kepware", `{"timestamp":1796547914224,"values":[{"id":"A.B.Temp","v":26.4,"q":true,"t":1796547910000},{"id":"A.C.Temp","v":0,"q":false,"t":1796547910000},{"id":"A.C.Lot","v":"L-17","q":true,"t":1796547910000},{"id":"A.D","v":7,"q":true}]}`,
		"A.B.Temp value=26.4 2026-12-06T09:05:10; A.D value=7 2026-12-06T09:05:14.224",
	},
	{"bad ones alone", "plant/kepware=kepware", "plant/kepware", `{"timestamp":1796547914224,"values":[{"id":"A.C.Temp","v":0,"q":false,"t":1796547910000}]}`, "ignored status"},
	{"qualities as numbers", "plant/kepware=kepware", "plant/kepware", `{"values":[{"id":"a","v":1,"q":192},{"id":"b","v":2,"q":24},{"id":"c","v":3,"q":"Good"},{"id":"d","v":4,"q":"Bad"}]}`, "a value=1; c value=3"},
	{"a value without an id", "plant/kepware=kepware", "plant/kepware", `{"values":[{"v":1,"q":true}]}`, "!value no_sensor; rejected no_sensor"},
}

func TestDialects(t *testing.T) {
	for _, c := range dialectCases {
		t.Run(c.entry+": "+c.name, func(t *testing.T) {
			d := newDecoder(t, c.entry)
			m := Message{Topic: c.topic, Payload: []byte(c.payload), Received: received.UnixMilli()}
			var out Result
			d.Decode(m, &out)
			checkResult(t, m, &out)
			if got := describe(&out); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestAFleetTakesNoMessagesOfAnother(t *testing.T) {
	d := newDecoder(t, "esphome", "shelly", "homeassistant", "tasmota", "#")
	var out Result
	for topic, want := range map[string]string{
		"homeassistant/sensor/attic_humidity/state": "attic_humidity humidity=50",
		"attic/sensor/humidity/state":               "attic humidity=50",
		"attic/humidity":                            "attic humidity=50",
	} {
		d.Decode(Message{Topic: topic, Payload: []byte("50"), Received: received.UnixMilli()}, &out)
		if got := describe(&out); got != want {
			t.Errorf("topic %q: got %s, want %s", topic, got, want)
		}
	}
}

func TestNoFleetTakesATopicTwice(t *testing.T) {
	for _, f := range Fleets() {
		if pairs := newDecoder(t, f.Name).Overlaps(); len(pairs) > 0 {
			t.Errorf("fleet %q: filters overlap: %q", f.Name, pairs)
		}
	}
}

// Every sample of the documentation must be what it is shown as: a reading, or
// one of a kind that is ignored.
func TestSamplesAreSelected(t *testing.T) {
	var names []string
	for _, f := range Fleets() {
		names = append(names, f.Name)
	}
	for _, f := range Fleets() {
		alone, together := newDecoder(t, f.Name), newDecoder(t, names...)
		readings := 0
		for _, s := range f.Samples {
			if findFormat(f.Name).binary {
				continue
			}
			m := Message{Topic: s.Topic, Payload: []byte(s.Payload), Received: received.UnixMilli()}
			var out, again Result
			alone.Decode(m, &out)
			together.Decode(m, &again)
			checkResult(t, m, &out)
			if out.Outcome == reading.Rejected {
				t.Errorf("fleet %q: sample on %q is rejected: %s", f.Name, s.Topic, out.Detail)
			}
			if a, b := describe(&out), describe(&again); out.Outcome == reading.Pending && a != b {
				t.Errorf("fleet %q: sample on %q is %s alone and %s among all fleets", f.Name, s.Topic, a, b)
			}
			readings += len(out.Values)
		}
		if readings == 0 && !findFormat(f.Name).binary {
			t.Errorf("fleet %q: no sample has a reading", f.Name)
		}
	}
}

func BenchmarkDialect(b *testing.B) {
	done := make(map[string]bool)
	for _, c := range dialectCases {
		d, err := New(Config{Topics: []string{c.entry}, ClockAhead: time.Minute, ClockBehind: 8760 * time.Hour})
		if err != nil {
			b.Fatal(err)
		}
		m := Message{Topic: c.topic, Payload: []byte(c.payload), Received: received.UnixMilli()}
		var out Result
		d.Decode(m, &out)
		name := d.routes[0].format.name
		if done[name] || out.Outcome != reading.Pending {
			continue
		}
		done[name] = true
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(m.Payload)))
			for b.Loop() {
				d.Decode(m, &out)
			}
		})
	}
}
