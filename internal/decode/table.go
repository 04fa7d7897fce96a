package decode

import "gudang/internal/reading"

// Metric is a metric that is known: its values have one unit, and a range
// outside which they are a fault of the sensor.
type Metric struct {
	Name     string
	Unit     string
	Min, Max float64 // what is plausible; METRIC_RANGES overrides it
	Aliases  []Alias
}

// Alias is another key for a metric. Case, blanks, underscores and all other
// punctuation in a key don't matter, but that something is between two digits.
type Alias struct {
	Key  string
	Unit string // what it says of the unit, if it does: a spelling in the units table
}

// known is the table of metrics. Humidity reaches to 105 and not 100 because
// capacitive sensors read a few percent over at saturation; what they say is
// stored, since a clamped value would be an invented one. 85 °C, where a
// DS18B20 starts, is a temperature like any other; -127, where it is
// unplugged, is not.
var known = []Metric{
	{"temperature", "°C", -60, 120, keys("temperature temp tmp tem t suhu temperatur temperatura température temperature_celsius air_temperature ambient_temperature 温度").unit("c", "tc tempc").unit("f", "tf tempf").unit("k", "tempk")},
	{"humidity", "%RH", 0, 105, keys("humidity hum h rh humid relative_humidity kelembaban kelembapan lembab kelembaban_udara kelembapan_udara humedad umidade umidita umidità humidité humidite feuchte luftfeuchte luftfeuchtigkeit nem 湿度")},
	{"pressure", "hPa", 300, 1200, keys("pressure press pres p baro barometer barometric_pressure air_pressure atmospheric_pressure tekanan tekanan_udara presion presión pressione pression druck luftdruck 気圧")},
	{"battery", "%", 0, 100, keys("battery batt bat baterai battery_level battery_percent battery_percentage batt_level batt_pct bat_pct soc")},
	{"battery_voltage", "V", 0, 100, keys("battery_voltage batt_voltage bat_voltage vbat vbatt batv battv battery_v battery_volt battery_volts batt_v bat_v").unit("mv", "battery_mv batt_mv bat_mv battery_millivolts")},
	{"co2", "ppm", 0, 50000, keys("co2 carbon_dioxide karbondioksida co2_ppm")},
	{"eco2", "ppm", 0, 65535, keys("eco2 co2eq co2_equivalent equivalent_co2")},
	{"tvoc", "ppb", 0, 65535, keys("tvoc")},
	{"pm1", "µg/m³", 0, 10000, keys("pm1 pm1_0 pm01")},
	{"pm2_5", "µg/m³", 0, 10000, keys("pm2_5 pm25 pm2p5")},
	{"pm10", "µg/m³", 0, 10000, keys("pm10 pm10_0")},
	{"dew_point", "°C", -100, 120, keys("dew_point dewpt dp titik_embun").unit("c", "dewptc").unit("f", "dewptf")},
	{"heat_index", "°C", -100, 200, keys("heat_index hi feels_like apparent_temperature")},
	{"illuminance", "lx", 0, 300000, keys("illuminance lux light_lux illumination light_level cahaya intensitas_cahaya")},
	{"ph", "", 0, 14, keys("ph")},
	{"rssi", "dBm", -200, 50, keys("rssi wifi_rssi signal_strength")},
	{"snr", "dB", -100, 100, keys("snr")},
	{"voltage", "", -reading.MaxValue, reading.MaxValue, keys("voltage volt volts tegangan")},
}

// aliases lets the table above be written as words.
type aliases []Alias

func keys(words string) aliases { return aliases(nil).unit("", words) }

// Unit is a spelling of a unit and how to come from it to the canonical one:
// (value + Add) × Mul ÷ Div.
type Unit struct {
	Canonical     string
	Spellings     []string // in lower case, without blanks and degree signs
	Add, Mul, Div float64
}

// units is the table of units that are understood. A unit is looked up among
// those of the metric's canonical unit, so "c" is never Coulomb.
var units = []Unit{
	{"°C", []string{"c", "celsius", "cel", "centigrade", "degc"}, 0, 1, 1},
	{"°C", []string{"f", "fahrenheit", "degf"}, -32, 5, 9},
	{"°C", []string{"k", "kelvin"}, -273.15, 1, 1},
	{"%RH", []string{"%rh", "%", "rh", "pct", "percent"}, 0, 1, 1},
	{"%RH", []string{"/"}, 0, 100, 1}, // SenML's ratio
	{"hPa", []string{"hpa", "mbar", "mb", "millibar"}, 0, 1, 1},
	{"hPa", []string{"pa", "pascal"}, 0, 1, 100},
	{"hPa", []string{"kpa"}, 0, 10, 1},
	{"hPa", []string{"bar"}, 0, 1000, 1},
	{"hPa", []string{"inhg"}, 0, 33.8638866667, 1},
	{"hPa", []string{"mmhg", "torr"}, 0, 1.33322387415, 1},
	{"hPa", []string{"psi"}, 0, 68.9475729318, 1},
	{"%", []string{"%", "pct", "percent", "perc", "%el"}, 0, 1, 1},
	{"%", []string{"/"}, 0, 100, 1},
	{"V", []string{"v", "volt", "volts"}, 0, 1, 1},
	{"V", []string{"mv", "millivolt", "millivolts"}, 0, 1, 1000},
	{"ppm", []string{"ppm"}, 0, 1, 1},
	{"ppm", []string{"ppb"}, 0, 1, 1000},
	{"ppb", []string{"ppb"}, 0, 1, 1},
	{"ppb", []string{"ppm"}, 0, 1000, 1},
	{"µg/m³", []string{"µg/m³", "μg/m³", "ug/m3", "µg/m3", "μg/m3", "ugm3"}, 0, 1, 1},
	{"µg/m³", []string{"mg/m3", "mg/m³"}, 0, 1000, 1},
	{"lx", []string{"lx", "lux"}, 0, 1, 1},
	{"dBm", []string{"dbm", "dbmw", "db"}, 0, 1, 1},
	{"dB", []string{"db"}, 0, 1, 1},
}

// The keys that say something of a reading and are no metrics, each list with
// the best one first: where an object has several, that one counts.
var (
	// sensorKeys: the special comes before the vague, since "id" beside
	// "device" is often a message counter, and each of its values would
	// become a sensor.
	sensorKeys = []string{
		"sensorId", "sensor", "sensorName", "deviceId", "device", "deviceName", "devId", "devName", "id", "nodeId", "node", "nodeName",
		"stationId", "station", "probeId", "thingName", "clientId", "uid", "uuid", "mac", "macAddress", "devEui", "serial", "serialNumber", "perangkat", "alat",
	}
	timeKeys = []string{
		"time", "timestamp", "ts", "datetime", "epoch", "unixtime", "unix", "unixTimestamp", "timeUtc", "utc", "utcTime", "timestampMs", "tsMs", "epochMs", "timeMs",
		"measuredAt", "measurementTime", "sampledAt", "sampleTime", "recordedAt", "observedAt", "eventTime", "waktu", "tanggal", "date", "localTime",
		"createdAt", "reportedAt", "sentAt", "lastSeen", "receivedAt", "updatedAt", "lastUpdated", "lastUpdate",
	}
	valueKeys  = []string{"value", "v", "val", "reading", "nilai"}
	unitKeys   = []string{"unit", "units", "uom", "unitOfMeasurement", "u", "satuan"}
	metricKeys = []string{"metric", "metricName", "parameter", "quantity", "measurement", "property", "field", "type", "name", "n", "kind", "key"}
	// holderKeys hold readings and add nothing to their names.
	holderKeys = []string{
		"readings", "values", "data", "measurements", "samples", "records", "points", "metrics", "observations", "telemetry", "sensors", "payload", "fields", "batch", "items",
	}
	// otherKeys describe the device. Their numbers are no readings.
	otherKeys = []string{
		"version", "ver", "firmware", "firmwareVersion", "fw", "fwVersion", "sw", "swVersion", "hw", "hwVersion", "model", "modelId", "brand", "vendor", "manufacturer",
		"bn", "bt", "bu", "bv", "bs", "bver", // SenML's base fields (RFC 8428)
		"macType", "ip", "ipAddress", "ssid", "bssid", "port", "host", "hostname", "qos", "retain", "topic", "schema", "format", "timezone", "tz", "clientToken",
		"colorTemp", "colorTemperature", "colourTemperature", // what a lamp is set to
	}
)

// statusWords are what devices say on the topics of their readings when they
// have none. A message of one is no error, and a text of one is no value.
var statusWords = []string{
	"online", "offline", "available", "unavailable", "not_available", "unknown", "none", "n/a", "na", "-", "--", "connected", "disconnected", "lost", "init",
	"ready", "sleeping", "sleep", "alert", "alive", "dead", "up", "down", "on", "off", "ok", "error", "idle", "open", "closed", "low", "normal", "full",
	"charging", "starting", "stopped", "restarting", "rebooting", "active", "inactive", "undefined", "no_data",
}

// notFinite are the spellings of numbers that are none, as C, Python,
// JavaScript and Arduino print them.
var notFinite = []string{"nan", "inf", "infinity", "nan(ind)", "nan(snan)", "1.#inf", "1.#qnan", "1.#ind", "ovf"}

var reasonTexts = map[reading.Reason]string{
	reading.InvalidJSON:        "the payload is not JSON, or is truncated",
	reading.TrailingData:       "something is behind the JSON",
	reading.InvalidUTF8:        "topic or payload holds bytes that are no UTF-8 text",
	reading.TooLarge:           "the payload is over the size limit",
	reading.TooDeep:            "the JSON is nested too deep",
	reading.DuplicateKey:       "a JSON object has one key twice, so that its value is ambiguous",
	reading.InvalidValue:       "text, null or an unknown unit where a number belongs",
	reading.Boolean:            "true or false where a number belongs: it is not taken for 1 or 0",
	reading.DecimalComma:       "a comma where the point of a number belongs, as in `26,4`: send a point",
	reading.ThousandsSeparator: "the digits of a number are grouped, as in `1,008.31`, or a comma may mean that, as in `1,008`: send the digits alone",
	reading.NumberSyntax:       "a number in the syntax of a programming language (`0x1p4`, `1_000`), or one in JSON that JSON does not allow (`+1`, `.5`, `01`)",
	reading.ControlCharacter:   "a sensor id, a text in JSON or the text of a value holds a control character",
	reading.NotFinite:          "the value is NaN or an infinity",
	reading.OutOfRange:         "the value is not plausible for the metric",
	reading.NoReading:          "nothing in it can be understood as a reading",
	reading.NoSensor:           "neither payload nor topic names a sensor",
	reading.IDTooLong:          "the sensor id is over its limit of bytes",
	reading.InvalidSensor:      "the sensor id has characters that its format does not allow (SenML)",
	reading.InvalidMetric:      "no metric name can be made of the key or topic level, or it is too long",
	reading.TooManyReadings:    "more readings in one message than the limit",
	reading.TooManySensors:     "a new sensor beyond MAX_SENSORS",
	reading.ValueConflict:      "another value came for this series and time: the first stays",
	reading.StoreRefused:       "the store will never take it",
	reading.DecoderFault:       "a fault of gudang's own: please report it, with the message",
	reading.QueueFull:          "no room for a message that will not be sent again (QoS 0)",
	reading.Retained:           "a retained message, replayed at subscribe, without a believable time of its own",
	reading.EmptyPayload:       "empty, which is how a retained message is deleted",
	reading.StatusWord:         "a status or description, without a number that could be a reading",
	reading.NotSelected:        "no MQTT_TOPICS entry wants the topic",
}

// vagueMetricKeys is where in metricKeys those begin that name other things
// than metrics too.
const vagueMetricKeys = 5
