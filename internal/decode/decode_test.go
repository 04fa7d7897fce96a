package decode

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gudang/internal/reading"
)

// received is when the messages of the tests arrive.
var received = time.Date(2026, 12, 6, 9, 5, 30, 0, time.UTC)

func newDecoder(t testing.TB, topics ...string) *Decoder {
	t.Helper()
	d, err := New(Config{
		Topics: topics, ClockAhead: time.Minute, ClockBehind: 8760 * time.Hour,
		Ranges: map[string][2]float64{"oven_temperature": {0, 400}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// describe writes a result as the tables below have it: what is dropped first,
// then the readings with the time of day they have from the payload, or what
// became of the message.
func describe(r *Result) string {
	var parts []string
	for _, x := range r.Dropped {
		parts = append(parts, fmt.Sprintf("!%s %s", x.Metric, x.Reason))
	}
	for _, v := range r.Values {
		s := fmt.Sprintf("%s %s=%v", v.Sensor, v.Metric, v.Value)
		if v.FromPayload {
			s += time.UnixMilli(v.Time).UTC().Format(" 2006-01-02T15:04:05.999")
		}
		parts = append(parts, s)
	}
	if r.Outcome != reading.Pending {
		parts = append(parts, fmt.Sprintf("%s %s", r.Outcome, r.Reason))
	}
	if r.BadClock {
		parts = append(parts, "bad clock")
	}
	return strings.Join(parts, "; ")
}

type decodeCase struct{ name, topic, payload, want string }

var textCases = []decodeCase{
	{"a plain number is of the topic's metric", "w/a/s1/temperature", "26.4", "s1 temperature=26.4"},
	{"blanks and a line end around it do not matter", "w/a/s1/humidity", "  47.20\r\n", "s1 humidity=47.2"},
	{"a sign, no leading digit and an exponent are numbers", "w/a/s1/flow", "+.5e1", "s1 flow=5"},
	{"a negative zero is zero", "w/a/s1/temperature", "-0.0", "s1 temperature=0"},
	{"a quoted number is a number", "w/a/s1/temperature", `"26.4"`, "s1 temperature=26.4"},
	{"a topic level in another language is the same metric", "w/a/s1/Suhu", "26.4", "s1 temperature=26.4"},
	{"a topic level can declare a unit", "w/a/s1/temp_f", "68.9", "s1 temperature=20.5"},
	{"an unknown metric is kept under its name", "w/a/s1/Flow Rate (l-min)", "3", "s1 flow_rate_l_min=3"},
	{"a level that is no metric gives no reading", "w/a/s1/timestamp", "3", "rejected no_reading"},
	{"a level without a letter is no metric", "w/a/s1/%%%", "3", "!%%% invalid_metric; rejected invalid_metric"},
	{"a decimal comma is not guessed at", "w/a/s1/temperature", "26,4", "rejected decimal_comma"},
	{"nor is a thousands separator", "w/a/s1/pressure", "1,008.31", "rejected thousands_separator"},
	{"hexadecimal is Go's syntax, not a number", "w/a/s1/temperature", "0x1p4", "rejected number_syntax"},
	{"so are underscores", "w/a/s1/pressure", "1_000", "rejected number_syntax"},
	{"a boolean is not 1", "w/a/s1/temperature", "true", "rejected boolean"},
	{"null is not 0", "w/a/s1/temperature", "null", "rejected invalid_value"},
	{"a unit behind the number is that of the metric", "w/a/s1/temperature", "26.4 C", "s1 temperature=26.4"},
	{"and is honoured", "w/a/s1/temperature", "79.5 °F", "s1 temperature=26.388889"},
	{"also without a blank", "w/a/s1/humidity", "45%", "s1 humidity=45"},
	{"or with one that does not break", "w/a/s1/pressure", "1008.31 hPa", "s1 pressure=1008.31"},
	{"also where the topic declares it", "w/a/s1/temp_f", "68.9 F", "s1 temperature=20.5"},
	{"but not against it", "w/a/s1/temp_f", "20.5 °C", "rejected invalid_value"},
	{"a unit of something else is none", "w/a/s1/temperature", "26.4 %", "rejected invalid_value"},
	{"nor is a word", "w/a/s1/temperature", "26.4 warm", "rejected invalid_value"},
	{"what has no known unit has none in the text", "w/a/s1/flow", "3 l", "rejected invalid_value"},
	{"a comma with a unit is not guessed at", "w/a/s1/temperature", "26,4 °C", "rejected invalid_value"},
	{"a battery in volts is a voltage", "w/a/s1/battery", "3.1 V", "s1 battery_voltage=3.1"},
	{"thousands as the French group them", "w/a/s1/pressure", "1\u202f008,31", "rejected thousands_separator"},
	{"as the Swiss do", "w/a/s1/pressure", "1'008", "rejected thousands_separator"},
	{"as the Germans do", "w/a/s1/pressure", "-1.008,31", "rejected thousands_separator"},
	{"a comma before three digits may be either", "w/a/s1/pressure", "1,008", "rejected thousands_separator"},
	{"before others it is one of decimals", "w/a/s1/temperature", "-0,125e1", "rejected decimal_comma"},
	{"also without a digit before it", "w/a/s1/temperature", ",5", "rejected decimal_comma"},
	{"several commas are a list", "w/a/s1/temperature", "26,4,48", "rejected invalid_value"},
	{"an address is no grouped number", "w/a/s1/temperature", "192.168.100.200", "rejected invalid_value"},
	{"the end of a C string is a control character", "w/a/s1/temperature", "26.4\x00", "rejected control_character"},
	{"two numbers are none", "w/a/s1/temperature", "26.4 48", "rejected invalid_value"},
	{"a lone exponent is none", "w/a/s1/temperature", "e5", "rejected invalid_value"},
	{"NaN is not finite", "w/a/s1/temperature", "nan", "!temperature not_finite; rejected not_finite"},
	{"nor is an infinity", "w/a/s1/temperature", "-Infinity", "!temperature not_finite; rejected not_finite"},
	{"a number too large for a float64 is out of range", "w/a/s1/flow", "1e400", "!flow out_of_range; rejected out_of_range"},
	{"a finite one that overflows a sum is, too", "w/a/s1/flow", "-1e308", "!flow out_of_range; rejected out_of_range"},
	{"the disconnected marker of a DS18B20 is out of range", "w/a/s1/temperature", "-127.00", "!temperature out_of_range; rejected out_of_range"},
	{"its power-on value is a temperature", "w/a/s1/temperature", "85.0", "s1 temperature=85"},
	{"a configured range counts", "w/a/s1/oven_temperature", "250", "s1 oven_temperature=250"},
	{"a metric of a known kind has its range", "w/a/s1/freezer_temp", "-127", "!freezer_temperature out_of_range; rejected out_of_range"},
	{"saturated humidity is kept as it is", "w/a/s1/humidity", "102.5", "s1 humidity=102.5"},
	{"an empty payload is ignored", "w/a/s1/temperature", "", "ignored empty"},
	{"so is a blank one", "w/a/s1/temperature", " \r\n", "ignored empty"},
	{"a status word is ignored", "w/a/s1/temperature", "Unavailable", "ignored status"},
	{"also in quotes", "w/a/s1/temperature", `"offline"`, "ignored status"},
	{"an empty topic level names no sensor", "w/a//temperature", "26.4", "!temperature no_sensor; rejected no_sensor"},
	{"dollar and dot are letters like any other in an id", "w/b.2/$s.7/temperature", "26.4", "$s.7 temperature=26.4"},
	{"a control character in the topic is refused", "w/a/s\n1/temperature", "26.4", "!temperature control_character; rejected control_character"},
	{"so is a C1 control character", "w/a/s\u00851/temperature", "26.4", "!temperature control_character; rejected control_character"},
	{"and an id that is too long", "w/a/" + strings.Repeat("s", 257) + "/temperature", "26.4", "!temperature id_too_long; rejected id_too_long"},
	{"a topic that is no UTF-8 is refused", "w/a/s\xff/temperature", "26.4", "rejected invalid_utf8"},
	{"so is a payload that is none", "w/a/s1/temperature", "26.4\xff", "rejected invalid_utf8"},
	{"a topic that nothing matches is not selected", "other", "26.4", "ignored not_selected"},
	{"without {metric} a number is a value", "v/s1", "26.4", "s1 value=26.4"},
	{"a decoder that is named does not look for JSON", "n/s1", `{"temperature":26.4}`, "rejected invalid_value"},
	{"the JSON decoder wants JSON", "j/s1", "26.4 C", "rejected trailing_data"},
	{"it takes a number, which is JSON", "j/s1", "26.4", "s1 value=26.4"},
	{"and a status word, which is not", "j/s1", "Online", "ignored status"},
}

var jsonCases = []decodeCase{
	{"units stand behind the numbers", "j/s1", `{"temperature":"26.4 °C","humidity":"45 %","pressure":"1008.31 hPa","note":"3 of 4"}`, "s1 temperature=26.4; s1 humidity=45; s1 pressure=1008.31"},
	{"they count more than what is said of all", "j/s1", `{"TempUnit":"F","temperature":"26.4 °C"}`, "s1 temperature=26.4"},
	{"and are of that metric or none", "j/s1", `{"temperature":"26.4 %","humidity":45}`, "!temperature invalid_value; s1 humidity=45"},
	{"flat JSON with an id and a time", "r/x", `{"sensorId":"S-1","time":"2026-12-06T09:05:10.250Z","temperature":26.4}`, "S-1 temperature=26.4 2026-12-06T09:05:10.25"},
	{"the topic names the sensor if the payload does not", "r/x", `{"temperature":26.4,"humidity":48}`, "x temperature=26.4; x humidity=48"},
	{"an integer is an id", "r/x", `{"id":17,"t":26.4}`, "17 temperature=26.4"},
	{"a fraction is none", "r/x", `{"id":1.5,"t":26.4}`, "x temperature=26.4"},
	{"the better of two ids counts, in any order", "r/x", `{"id":881,"Device_ID":"d1","t":26.4}`, "d1 temperature=26.4"},
	{"an empty id is none", "r/x", `{"id":"","t":26.4}`, "x temperature=26.4"},
	{"an id with a control character is refused", "r/x", `{"id":"a\u0000b","t":26.4}`, "!temperature control_character; rejected control_character"},
	{"without any id there is no sensor", "fixed", `{"t":26.4}`, "!temperature no_sensor; rejected no_sensor"},
	{"short keys and epoch seconds", "r/x", `{"t":24.1,"h":49,"ts":1796547910}`, "x temperature=24.1 2026-12-06T09:05:10; x humidity=49 2026-12-06T09:05:10"},
	{"Indonesian keys", "r/x", `{"suhu":29.3,"kelembapan":71.0,"waktu":"2026-12-06 09:05:10"}`, "x temperature=29.3 2026-12-06T09:05:10; x humidity=71 2026-12-06T09:05:10"},
	{"a number in a string is a number", "r/x", `{"temperature":" 26.4 ","soil":"31"}`, "x temperature=26.4; x soil=31"},
	{"a part number is none", "r/x", `{"temperature":26.4,"part":"0071","batch no":"1e9"}`, "x temperature=26.4"},
	{"a decimal comma costs its metric alone", "r/x", `{"temperature":"26,4","humidity":48}`, "!temperature decimal_comma; x humidity=48"},
	{"null is skipped", "r/x", `{"temperature":null,"humidity":48}`, "x humidity=48"},
	{"so is a status word", "r/x", `{"temperature":"unavailable","humidity":48}`, "x humidity=48"},
	{"NaN as Python prints it costs its metric alone", "r/x", `{"temperature":NaN,"humidity":48}`, "!temperature not_finite; x humidity=48"},
	{"so does nan in a string", "r/x", `{"temperature":"nan","humidity":48}`, "!temperature not_finite; x humidity=48"},
	{"a lone NaN rejects the message", "r/x", `{"temperature":-Infinity}`, "!temperature not_finite; rejected not_finite"},
	{"a boolean is no temperature", "r/x", `{"temperature":true,"humidity":48}`, "!temperature boolean; x humidity=48"},
	{"other text and booleans are no matter", "r/x", `{"temperature":26.4,"door":false,"name":"cold room","fw":1.2}`, "x temperature=26.4"},
	{"a clone's two's complement costs its metric alone", "r/x", `{"temperature":-3276.7,"humidity":64.1}`, "!temperature out_of_range; x humidity=64.1"},
	{"an unknown metric with a wild value is refused", "r/x", `{"flow":1e308}`, "!flow out_of_range; rejected out_of_range"},
	{"a value one level down", "r/x", `{"temperature":{"value":22.4},"humidity":{"val":"41","unit":"%"}}`, "x temperature=22.4; x humidity=41"},
	{"in a declared unit", "r/x", `{"temperature":{"value":72.5,"unit":"°F"},"pressure":{"value":101.3,"unit":"kPa"}}`, "x temperature=22.5; x pressure=1013"},
	{"in a unit that is not known", "r/x", `{"temperature":{"value":72.5,"unit":"furlong"}}`, "!temperature invalid_value; rejected invalid_value"},
	{"a unit of its own key", "r/x", `{"temp_f":68.9,"pressure_pa":101300,"battery_mv":2985}`, "x temperature=20.5; x pressure=1013; x battery_voltage=2.985"},
	{"with the capitals that it has", "r/x", `{"pressure_hPa":1003,"temp_degF":68.9}`, "x pressure=1003; x temperature=20.5"},
	{"or behind a name in camel case", "r/x", `{"airPressureMmHg":750}`, "x pressure=999.917906"},
	{"a battery in volts is a voltage", "r/x", `{"battery":{"value":3.7,"unit":"V"},"backup_battery":{"value":2.9,"unit":"V"}}`, "x battery_voltage=3.7; x backup_battery_voltage=2.9"},
	{"the chip behind a metric is a part of its name", "r/x", `{"temperature_ds18b20":-127,"temperature_dht22":20.5,"tempF_bme280":68}`, "!temperature_ds18b20 out_of_range; x temperature_dht22=20.5; x temperature_bme280=20"},
	{"a humidity in grams is no relative one", "r/x", `{"absolute_humidity":120.5,"soil_humidity":40}`, "x absolute_humidity=120.5; x soil_humidity=40"},
	{"the colour of a lamp is no temperature", "r/x", `{"color_temp":300,"temperature":20}`, "x temperature=20"},
	{"a unit named by the inner key", "r/x", `{"temperature":{"fahrenheit":68.9,"celsius":20.5,"max":23}}`, "x temperature=20.5; x temperature_max=23"},
	{"one unit of all temperatures", "r/x", `{"BME280":{"Temperature":68.9,"Humidity":43},"TempUnit":"F"}`, "x temperature=20.5; x humidity=43"},
	{"also as other senders write it", "r/x", `{"temp":"79.7","tempunits":"F"}`, "x temperature=26.5"},
	{"a unit beside a flat metric is applied to what it fits", "r/x", `{"temperature":68.9,"humidity":43,"unit":"F"}`, "x temperature=20.5; x humidity=43"},
	{"two units are one reading, the sent one before the converted", "r/x", `{"tempf":52.7,"tempc":11.5}`, "x temperature=11.5"},
	{"an alias gives way to the name", "r/x", `{"t":20,"temperature":21}`, "x temperature=21"},
	{"unless only the alias is good", "r/x", `{"t":20,"temperature":-127}`, "x temperature=20"},
	{"nested metrics have their own names", "r/x", `{"temperature":21.7,"computed":{"heat_index":21.26,"dewPoint":{"value":9}}}`, "x temperature=21.7; x heat_index=21.26; x dew_point=9"},
	{"one probe is the device", "r/x", `{"AM2301":{"Temperature":4.6,"Id":"0A"}}`, "x temperature=4.6"},
	{"several that measure the same have names", "r/x", `{"in":{"t":21,"h":40},"out":{"t":4}}`, "x/in temperature=21; x/in humidity=40; x/out temperature=4"},
	{"also when one is not there", "r/x", `{"in":{"t":21},"out":{"t":null}}`, "x/in temperature=21"},
	{"the device's own stays the device's", "r/x", `{"t":21,"out":{"t":4}}`, "x temperature=21; x/out temperature=4"},
	{"a value whose metric stands beside it", "r/x", `{"sensor":"s1","metric":"temp","value":21,"unit":"C"}`, "s1 temperature=21"},
	{"a name that is no metric does not name it", "r/x", `{"name":"cold room","value":21}`, "x value=21"},
	{"else the topic does", "w/a/s1/temperature", `{"value":26.4,"t":1796547910}`, "s1 temperature=26.4 2026-12-06T09:05:10"},
	{"t beside a temperature is a time if it is one", "r/x", `{"temperature":21,"t":1796547910}`, "x temperature=21 2026-12-06T09:05:10"},
	{
		"an array of readings with their own times and ids", "r/x", `[{"id":"a","ts":1796547910,"t":1},{"ts":1796547920000,"t":2},{"t":3}]`,
		"a temperature=1 2026-12-06T09:05:10; x temperature=2 2026-12-06T09:05:20; x temperature=3",
	},
	{
		"readings under a key, in the order that they came", "r/x", `{"id":"a","readings":[{"ts":1796547920,"t":4.2},{"ts":1796547910,"t":4.1}]}`,
		"a temperature=4.2 2026-12-06T09:05:20; a temperature=4.1 2026-12-06T09:05:10",
	},
	{"elements with names are probes", "r/x", `{"sensors":[{"name":"in","t":21,"h":40},{"name":"out","t":4}]}`, "x/in temperature=21; x/in humidity=40; x/out temperature=4"},
	{"a probe keeps its name alone", "r/x", `{"sensors":[{"name":"in","t":21}]}`, "x/in temperature=21"},
	{"of the device that the payload names", "r/x", `{"id":"a","sensors":[{"label":"in","t":21},{"label":"out","t":4}]}`, "a/in temperature=21; a/out temperature=4"},
	{"or are sensors where nothing names a device", "fixed", `[{"name":"s1","t":21},{"name":"s2","t":4}]`, "s1 temperature=21; s2 temperature=4"},
	{"but not with ids", "r/x", `[{"id":"a","name":"in","t":21},{"id":"b","name":"out","t":4}]`, "a temperature=21; b temperature=4"},
	{"nor with one name for all", "r/x", `[{"name":"x1","ts":1796547910,"t":21},{"name":"x1","ts":1796547920,"t":4}]`, "x temperature=21 2026-12-06T09:05:10; x temperature=4 2026-12-06T09:05:20"},
	{"nor if the name is that of a metric", "r/x", `[{"name":"temp","value":21},{"name":"hum","value":40}]`, "x temperature=21; x humidity=40"},
	{"nor if some have none", "r/x", `[{"name":"in","t":21},{"h":4}]`, "x temperature=21; x humidity=4"},
	{"a time outside is of all inside", "r/x", `{"ts":1796547910000,"values":{"temperature":26.4,"in":{"humidity":3}}}`, "x temperature=26.4 2026-12-06T09:05:10; x humidity=3 2026-12-06T09:05:10"},
	{"the same reading twice is one", "r/x", `[{"ts":1796547910,"t":1},{"ts":1796547910,"t":1}]`, "x temperature=1 2026-12-06T09:05:10"},
	{"another value for its time is a conflict", "r/x", `[{"ts":1796547910,"t":1},{"ts":1796547910,"t":2}]`, "!temperature conflict; x temperature=1 2026-12-06T09:05:10"},
	{"1970 is not believed", "r/x", `{"ts":"1970-01-01T00:00:17Z","t":1}`, "x temperature=1; bad clock"},
	{"an uptime in ms is not", "r/x", `{"ts":86412345,"t":1}`, "x temperature=1; bad clock"},
	{"the future is not", "r/x", `{"ts":"2096-01-01T00:00:00Z","t":1}`, "x temperature=1; bad clock"},
	{"more than CLOCK_BEHIND ago is not", "r/x", `{"ts":"2025-12-06T09:05:29.999Z","t":1}`, "x temperature=1; bad clock"},
	{"CLOCK_BEHIND ago is", "r/x", `{"ts":"2025-12-06T09:05:30Z","t":1}`, "x temperature=1 2025-12-06T09:05:30"},
	{"CLOCK_AHEAD is", "r/x", `{"ts":"2026-12-06T09:06:30Z","t":1}`, "x temperature=1 2026-12-06T09:06:30"},
	{"a time that cannot be read is not", "r/x", `{"time":"yesterday","t":1}`, "x temperature=1; bad clock"},
	{"a second time is believed when the first is not", "r/x", `{"time":"yesterday","lastSeen":1796547910,"t":1}`, "x temperature=1 2026-12-06T09:05:10"},
	{"operators of a database mean nothing", "r/x", `{"$inc":{"n":5},"$where":"sleep(5000)","temperature":{"$gt":0},"humidity":48}`, "x humidity=48"},
	{"PM1.0 is not PM10", "r/x", `{"PM1.0":1,"PM2.5":2,"PM10":3}`, "x pm1=1; x pm2_5=2; x pm10=3"},
	{"a dot in a key is no path", "r/x", `{"a.b":1}`, "x a_b=1"},
	{"a device's description is no group of readings", "r/x", `{"device":{"networkAddress":9},"t":1}`, "x temperature=1"},
	{"nothing numeric is ignored", "r/x", `{"state":"online","ssid":"w","up":true}`, "ignored status"},
	{"so is a heartbeat", "r/x", `{"id":7,"ts":1796547910}`, "ignored status"},
	{"so is an empty array", "r/x", `[]`, "ignored status"},
	{"so is an array of words", "r/x", `["button"]`, "ignored status"},
	{"numbers without names are no readings", "r/x", `[1,2,3]`, "rejected no_reading"},
	{"nor are numbers deep inside", "r/x", `{"state":{"reported":{"a":{"b":1}}}}`, "rejected no_reading"},
	{"a key twice is ambiguous", "r/x", `{"temperature":26.4,"temperature":99}`, "rejected duplicate_key"},
	{"also when it is escaped", "r/x", `{"temperature":26.4,"temper\u0061ture":99}`, "rejected duplicate_key"},
	{"truncated JSON", "r/x", `{"temperature":26.4,"humi`, "rejected invalid_json"},
	{"trailing data", "r/x", `{"temperature":26.4}}`, "rejected trailing_data"},
	{"a second object", "r/x", `{"temperature":26.4}{"temperature":26.5}`, "rejected trailing_data"},
	{"the end of a C string", "r/x", `{"temperature":26.4}` + "\x00", "rejected trailing_data"},
	{"a decimal comma that broke the JSON", "r/x", `{"temperature":26,4,"humidity":48}`, "rejected decimal_comma"},
	{"a grouped number that did", "r/x", `{"pressure":1,008.31}`, "rejected thousands_separator"},
	{"a member without a key is another mistake", "r/x", `{"a":1, 2}`, "rejected invalid_json"},
	{"a plus that JSON does not have", "r/x", `{"temperature":+26.4}`, "rejected number_syntax"},
	{"nor a lone point", "r/x", `{"temperature":.5,"humidity":1.}`, "rejected number_syntax"},
	{"nor leading zeros", "r/x", `{"temperature":026.4}`, "rejected number_syntax"},
	{"nor hexadecimal", "r/x", `[{"t":0x1A}]`, "rejected number_syntax"},
	{"a number that is cut off is cut off", "r/x", `{"temperature":26.`, "rejected invalid_json"},
	{"a control character in a text", "r/x", "{\"id\":\"a\nb\",\"t\":1}", "rejected control_character"},
	{"numbers in other syntax in texts cost their metrics alone", "r/x", `{"temperature":"0x1A","pressure":"1.008,31","co2":"True","humidity":"48\u0007","battery":77}`, "!temperature number_syntax; !pressure thousands_separator; !co2 boolean; !humidity control_character; x battery=77"},
	{"a boolean beside a number of a group", "r/x", `{"AM2301":{"Temperature":false,"Humidity":48}}`, "!temperature boolean; x humidity=48"},
	{"a byte order mark", "r/x", "\uFEFF" + `{"temperature":26.4}`, "rejected invalid_json"},
	{"bytes that are no UTF-8 in an id", "r/x", "{\"id\":\"r\xff1\",\"t\":1}", "rejected invalid_utf8"},
	{"half of a surrogate pair in an id", "r/x", `{"id":"r\ud8001","t":1}`, "rejected invalid_utf8"},
	{"too deep", "r/x", strings.Repeat("[", 100000), "rejected too_deep"},
	{"just not too deep", "r/x", strings.Repeat(`{"data":`, 31) + `{"t":1}` + strings.Repeat("}", 31), "x temperature=1"},
	{"over the size limit", "r/x", `{"t":1,"pad":"` + strings.Repeat("x", DefaultMaxPayload) + `"}`, "rejected too_large"},
	{"too many readings", "r/x", "[" + strings.Repeat(`{"t":1},`, MaxReadings) + `{"t":1}]`, "rejected too_many_readings"},
	{"a metric name that is too long", "r/x", `{"` + strings.Repeat("m", 129) + `":1,"t":1}`, "!" + strings.Repeat("m", 128) + " invalid_metric; x temperature=1"},
}

var testTopics = []string{"w/+/{sensor}/{metric}", "r/{sensor}", "v/{sensor}", "n/{sensor}=number", "j/{sensor}=json", "fixed"}

// A fault of ours costs the message that hit it, and nothing else.
func TestADecoderSurvivesItsOwnFaults(t *testing.T) {
	d := newDecoder(t, "bad/{sensor}=json", "good/{sensor}=json")
	broken := *d.routes[0].format
	broken.decode = func(d *Decoder) {
		d.doc.nodes = nil
		panic("index out of range")
	}
	d.routes[0].format = &broken
	var out Result
	for range 2 {
		d.Decode(Message{Topic: "bad/S-01", Payload: []byte(`{"t":1}`), Received: received.UnixMilli()}, &out)
		if out.Outcome != reading.Rejected || out.Reason != reading.DecoderFault || !strings.Contains(out.Detail, "index out of range") {
			t.Errorf("%+v", out)
		}
		d.Decode(Message{Topic: "good/S-01", Payload: []byte(`{"temperature":26.4}`), Received: received.UnixMilli()}, &out)
		if out.Outcome != reading.Pending || len(out.Values) != 1 || out.Values[0].Value != 26.4 {
			t.Errorf("the next message: %+v", out)
		}
	}
}

func TestDecode(t *testing.T) {
	d := newDecoder(t, testTopics...)
	var out Result
	for _, c := range append(textCases, jsonCases...) {
		t.Run(c.name, func(t *testing.T) {
			m := Message{Topic: c.topic, Payload: []byte(c.payload), Received: received.UnixMilli()}
			d.Decode(m, &out)
			if got := describe(&out); got != c.want {
				t.Errorf("got  %s\nwant %s\n(%s)", got, c.want, out.Detail)
			}
			checkResult(t, m, &out)
			if (out.Outcome != reading.Pending || out.BadClock) && out.Detail == "" {
				t.Error("no words for the reason")
			}
		})
	}
}

func TestRetainedMessages(t *testing.T) {
	d := newDecoder(t, testTopics...)
	for _, c := range []decodeCase{
		{"a number has no time of its own", "w/a/s1/temperature", "19.8", "ignored retained"},
		{"a reading with its own time is the same each time", "r/x", `{"t":1,"ts":1796547910}`, "x temperature=1 2026-12-06T09:05:10"},
		{"one with a time that is not believed has none", "r/x", `{"t":1,"ts":17}`, "ignored retained; bad clock"},
		{"each reading of an array counts for itself", "r/x", `[{"t":1,"ts":1796547910},{"t":2}]`, "x temperature=1 2026-12-06T09:05:10"},
		{"a status is a status", "r/x", "online", "ignored status"},
		{"broken JSON is broken", "r/x", "{", "rejected invalid_json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out Result
			d.Decode(Message{Topic: c.topic, Payload: []byte(c.payload), Retained: true, Received: received.UnixMilli()}, &out)
			if got := describe(&out); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestUnitsAreTold(t *testing.T) {
	d := newDecoder(t, testTopics...)
	var out Result
	for payload, want := range map[string]string{
		`{"t":1}`:                      "°C",
		`{"temp_f":50}`:                "°C",
		`{"h":50}`:                     "%RH",
		`{"value":1,"unit":"l/min"}`:   "l/min",
		`{"value":1,"unit":"a\u0000"}`: "",
		`{"value":1}`:                  "",
	} {
		d.Decode(Message{Topic: "r/x", Payload: []byte(payload), Received: received.UnixMilli()}, &out)
		if len(out.Values) != 1 || out.Values[0].Unit != want {
			t.Errorf("%s: got %+v, want unit %q", payload, out.Values, want)
		}
	}
}

func TestNewRefusesWrongSettings(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no topics":                 {},
		"a negative clock":          {Topics: []string{"a"}, ClockAhead: -1},
		"a negative size":           {Topics: []string{"a"}, MaxPayload: -1},
		"a range upside down":       {Topics: []string{"a"}, Ranges: map[string][2]float64{"co2": {2, 1}}},
		"a range of what is no one": {Topics: []string{"a"}, Ranges: map[string][2]float64{"timestamp": {1, 2}}},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestRangesOverrideTheTable(t *testing.T) {
	d, err := New(Config{Topics: []string{"{sensor}"}, Ranges: map[string][2]float64{"temp": {-200, 900}, "value": {0, 1}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []*Decoder{d, d.Clone()} {
		var out Result
		d.Decode(Message{Topic: "x", Payload: []byte(`{"temperature":850,"value":2}`)}, &out)
		if got, want := describe(&out), "!value out_of_range; x temperature=850"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A hostile message must not cost more than a small multiple of its size, on a
// decoder that has no memory from before.
func TestMemoryIsBoundedByTheMessage(t *testing.T) {
	fill := func(unit, end string) []byte {
		return []byte(strings.Repeat(unit, (DefaultMaxPayload-len(end))/len(unit)) + end)
	}
	unknown := []byte("{")
	for i := 0; len(unknown) < DefaultMaxPayload-16; i++ {
		unknown = fmt.Appendf(unknown, `"%x":1,`, i)
	}
	unknown = append(unknown, `"z":1}`...)
	for name, payload := range map[string][]byte{
		"numbers":        append([]byte("["), fill("1,", "1]")[2:]...),
		"objects":        append([]byte("["), fill("{},", "{}]")[3:]...),
		"readings":       append([]byte("["), []byte(strings.Repeat(`{"t":1},`, MaxReadings-1)+`{"t":1}]`)...),
		"unknown keys":   unknown,
		"escapes":        []byte(`{"a":"` + strings.Repeat(`\u00e9`, 40000) + `"}`),
		"long number":    fill("1", ""),
		"long exponent":  append([]byte("1e"), fill("1", "")[2:]...),
		"a long word":    fill("x", ""),
		"quotes":         fill(`"`, ""),
		"a long id":      []byte(`{"id":"` + strings.Repeat("a", 200000) + `","t":1}`),
		"long keys":      []byte("{" + strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("k", 1000)+`":1,`, 1), ",") + "}"),
		"few bytes":      []byte("1"),
		"nested arrays":  []byte(strings.Repeat("[", 32) + strings.Repeat("]", 32)),
		"broken at last": append(unknown[:len(unknown)-1:len(unknown)-1], ','),
	} {
		t.Run(name, func(t *testing.T) {
			d := newDecoder(t, testTopics...)
			var out Result
			m := Message{Topic: "r/x", Payload: payload, Received: received.UnixMilli()}
			used := allocated(func() { d.Decode(m, &out) })
			checkResult(t, m, &out)
			t.Logf("%d bytes: %s %s, %d bytes allocated", len(payload), out.Outcome, out.Reason, used)
			if limit := uint64(64*len(payload) + 64<<10); used > limit {
				t.Errorf("%d bytes of payload allocated %d, more than %d", len(payload), used, limit)
			}
		})
	}
}

func TestKnownSensorsCostNoAllocation(t *testing.T) {
	d := newDecoder(t, testTopics...)
	var out Result
	for _, payload := range []string{flatJSON, nestedJSON, batchJSON, "26.4", "offline", `{"t":`} {
		m := Message{Topic: "r/x", Payload: []byte(payload), Received: received.UnixMilli()}
		d.Decode(m, &out)
		if n := testing.AllocsPerRun(100, func() { d.Decode(m, &out) }); n > 0 {
			t.Errorf("%s: %v allocations", payload, n)
		}
	}
}

// What is kept for speed must be forgotten when it gets large.
func TestCachesAreBounded(t *testing.T) {
	d := newDecoder(t, testTopics...)
	var out Result
	for i := range internTexts + 10 {
		m := Message{Topic: fmt.Sprintf("w/a/s%d/m%d", i, i), Payload: []byte("1"), Received: 1}
		if d.Decode(m, &out); len(out.Values) != 1 || out.Values[0].Sensor != fmt.Sprintf("s%d", i) {
			t.Fatalf("%s: %+v", m.Topic, out)
		}
	}
	if n := len(d.sensors.texts); n > internTexts {
		t.Errorf("%d sensors kept", n)
	}
	if n := len(d.names.cache); n > cachedNames {
		t.Errorf("%d names kept", n)
	}
}

func TestReasonsAndTablesAreDocumented(t *testing.T) {
	for _, r := range append(append([]reading.Reason{}, reading.RejectReasons...), reading.IgnoreReasons...) {
		if ReasonText(r) == "" {
			t.Errorf("reason %q has no words", r)
		}
	}
	ref := NewReference()
	if len(ref.Decoders) != len(formats()) || len(ref.Metrics) != len(known) {
		t.Errorf("the reference lacks something: %+v", ref)
	}
	seen := make(map[string]string)
	for _, m := range ref.Metrics {
		if !(m.Min < m.Max) {
			t.Errorf("metric %q has no range", m.Name)
		}
		for _, a := range m.Aliases {
			if other, ok := seen[squash(a.Key)]; ok && other != m.Name {
				t.Errorf("key %q is of %s and %s", a.Key, other, m.Name)
			}
			seen[squash(a.Key)] = m.Name
		}
		if seen[squash(m.Name)] != m.Name {
			t.Errorf("metric %q is not found by its name", m.Name)
		}
	}
}
