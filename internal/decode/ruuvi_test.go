package decode

import (
	"strings"
	"testing"
)

// adv is what a gateway publishes of an advertisement.
func adv(data string) string {
	return `{"gw_mac":"C8:25:00:00:00:01","rssi":-62,"aoa":[],"gwts":"1796547911","ts":"1796547910","data":"` + data + `","coords":""}`
}

// stamped writes the readings of tag F4 at the time of adv.
func stamped(metrics string) string {
	parts := strings.Fields(metrics + " rssi=-62")
	for i, p := range parts {
		parts[i] = "F4 " + p + " 2026-12-06T09:05:10"
	}
	return strings.Join(parts, "; ")
}

var ruuviCases = []decodeCase{
	// The values are those of the test vectors in Ruuvi's description of each format.
	{
		"format 5 is a tag", "ruuvi/C8/F4", adv("0201061BFF99040512FC5394C37C0004FFFC040CAC364200CDCBB8334C884F"),
		stamped("temperature=24.3 humidity=53.49 pressure=1000.44 acceleration_x=0.004 acceleration_y=-0.004 acceleration_z=1.036 battery_voltage=2.977 tx_power=4 movement_counter=66 measurement_sequence=205"),
	},
	{
		"the address in the topic is the sensor's", "ruuvi/C8:25:00:00:00:01/CB:B8:33:4C:88:4F", adv("1BFF99040580005394FFFF800080008000FFFFFFFFFFCBB8334C884F"),
		"CB:B8:33:4C:88:4F humidity=53.49 2026-12-06T09:05:10; CB:B8:33:4C:88:4F rssi=-62 2026-12-06T09:05:10",
	},
	{
		"its largest values are values", "ruuvi/C8/F4", adv("1BFF9904057FFFFFFEFFFE7FFF7FFF7FFFFFDEFEFFFECBB8334C884F"),
		"!temperature out_of_range; !humidity out_of_range; " + stamped("pressure=1155.34 acceleration_x=32.767 acceleration_y=32.767 acceleration_z=32.767 battery_voltage=3.646 tx_power=20 movement_counter=254 measurement_sequence=65534"),
	},
	{"a blank is no hexadecimal digit", "ruuvi/C8/F4", adv("1BFF990405800053 94FFFF800080008000FFFFFFFFFFCBB8334C884F"), "rejected invalid_value"},
	{"what it marks as not available is no reading", "ruuvi/C8/F4", adv("1BFF99040580005394FFFF800080008000FFFFFFFFFFCBB8334C884F"), stamped("humidity=53.49")},
	{"a sensor without any value is no error", "ruuvi/C8/F4", adv("1BFF9904058000FFFFFFFF800080008000FFFFFFFFFFFFFFFFFFFFFF"), "ignored status"},
	{"small letters are hexadecimal as well", "ruuvi/C8/F4", adv("1bff99040580005394ffff800080008000ffffffffffcbb8334c884f"), stamped("humidity=53.49")},
	{
		"format 3 is an old tag", "ruuvi/C8/F4", adv("02010611FF990403291A1ECE1EFC18F94202CA0B53"),
		stamped("temperature=26.3 humidity=20.5 pressure=1027.66 acceleration_x=-1 acceleration_y=-1.726 acceleration_z=0.714 battery_voltage=2.899"),
	},
	{
		"its temperature has a sign and no complement", "ruuvi/C8/F4", adv("11FF99040329811ECE1EFC18F94202CA0B53"),
		stamped("temperature=-1.3 humidity=20.5 pressure=1027.66 acceleration_x=-1 acceleration_y=-1.726 acceleration_z=0.714 battery_voltage=2.899"),
	},
	{
		"format 6 is Ruuvi Air", "ruuvi/C8/F4", adv("17FF990406170C5668C79E007000C90501D900CD004C884F"),
		stamped("temperature=29.5 humidity=55.3 pressure=1011.02 pm2_5=11.2 co2=201 voc_index=10 nox_index=2 illuminance=13026.67 measurement_sequence=205"),
	},
	{
		"its largest values", "ruuvi/C8/F4", adv("17FF9904067FFF9C40FFFE27109C40FAFBFEFFFFC14C8F4F"),
		"!temperature out_of_range; " + stamped("humidity=100 pressure=1155.34 pm2_5=1000 co2=40000 voc_index=501 nox_index=503 illuminance=65535 measurement_sequence=255"),
	},
	{"it numbers what it cannot measure", "ruuvi/C8/F4", adv("17FF9904068000FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"), stamped("measurement_sequence=255")},
	{
		"format E1 is Ruuvi Air, heard by a receiver of long advertisements", "ruuvi/C8/F4", adv("2BFF9904E1170C5668C79E0065007004BD11CA00C90A0213E0ACFFFFFFDECDEE100000000000CBB8334C884F"),
		stamped("temperature=29.5 humidity=55.3 pressure=1011.02 pm1=10.1 pm2_5=11.2 pm4=121.3 pm10=455.4 co2=201 voc_index=20 nox_index=4 illuminance=13027 measurement_sequence=1.460171e+07"),
	},
	{
		"its largest values, too", "ruuvi/C8/F4", adv("2BFF9904E17FFF9C40FFFE27102710271027109C40FAFADC28F0000000FFFFFE300000000000CBB8334C884F"),
		"!temperature out_of_range; " + stamped("humidity=100 pressure=1155.34 pm1=1000 pm2_5=1000 pm4=1000 pm10=1000 co2=40000 voc_index=500 nox_index=500 illuminance=144284 measurement_sequence=1.6777214e+07"),
	},
	{"none of which it has", "ruuvi/C8/F4", adv("2BFF9904E18000FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF000000FFFFFFFE0000000000FFFFFFFFFFFF"), "ignored status"},
	{
		"without {sensor} the address in the data names it", "r2/x", adv("1BFF99040580005394FFFF800080008000FFFFFFFFFFCBB8334C884F"),
		"CB:B8:33:4C:88:4F humidity=53.49 2026-12-06T09:05:10; CB:B8:33:4C:88:4F rssi=-62 2026-12-06T09:05:10",
	},
	{
		"a gateway that decodes sends pascals", "ruuvi/C8/F4", `{"gw_mac":"C8","rssi":-62,"ts":1796547910,"dataFormat":5,"temperature":24.3,"humidity":53.49,"pressure":100044,"accelX":0.004,"voltage":2.977,"txPower":4,"movementCounter":66,"measurementSequenceNumber":205,"id":"CB:B8:33:4C:88:4F"}`,
		stamped("temperature=24.3 humidity=53.49 pressure=1000.44 acceleration_x=0.004 battery_voltage=2.977 tx_power=4 movement_counter=66 measurement_sequence=205"),
	},
	{"what it cannot measure is null", "ruuvi/C8/F4", `{"rssi":-62,"ts":1796547910,"dataFormat":5,"temperature":24.3,"humidity":null}`, stamped("temperature=24.3")},
	{"without times it is the receive time", "ruuvi/C8/F4", `{"data":"1BFF99040580005394FFFF800080008000FFFFFFFFFFCBB8334C884F"}`, "F4 humidity=53.49"},
	{"the time of the gateway stands for one that is not believed", "ruuvi/C8/F4", `{"ts":"5","gwts":"1796547911","data":"1BFF99040580005394FFFF800080008000FFFFFFFFFFCBB8334C884F"}`, "F4 humidity=53.49 2026-12-06T09:05:11"},
	{"advertisements of others are ignored", "ruuvi/C8/F4", adv("0201061AFF4C000215000000000000000000000000000000000001000200"), "ignored status"},
	{"so is one without manufacturer's data", "ruuvi/C8/F4", adv("020106"), "ignored status"},
	{"the state of the gateway is a status", "ruuvi/C8/gw_status", `{"state":"online"}`, "ignored status"},
	{"an unknown format is said", "ruuvi/C8/F4", adv("05FF9904F001"), "rejected no_reading"},
	{"a truncated advertisement is refused", "ruuvi/C8/F4", adv("0201061BFF99040512FC5394"), "rejected invalid_value"},
	{"so is truncated data", "ruuvi/C8/F4", adv("09FF99040512FC5394C3"), "rejected invalid_value"},
	{"and half a byte", "ruuvi/C8/F4", adv("0201061"), "rejected invalid_value"},
}

func TestRuuvi(t *testing.T) {
	for _, c := range ruuviCases {
		// Each on a decoder that has met no sensor.
		runCases(t, newDecoder(t, "ruuvi", "r2/x=ruuvi"), []decodeCase{c})
	}
}

func BenchmarkRuuvi(b *testing.B) {
	benchmarkDecode(b, "ruuvi", "ruuvi/C8/F4", strings.NewReplacer("1796547910", "1735689610").Replace(adv("0201061BFF99040512FC5394C37C0004FFFC040CAC364200CDCBB8334C884F")))
}
