package decode

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"gudang/internal/reading"
)

func ruuviFleet() Fleet {
	return Fleet{
		Name:   "ruuvi",
		Doc:    "Ruuvi Gateway: what it hears of RuuviTag and Ruuvi Air (data formats 3, 5, 6 and E1), raw or decoded. Other devices' advertisements are ignored.",
		Topics: []string{"ruuvi/+/{sensor}"},
		Samples: []Sample{
			{"ruuvi/C8:25:00:00:00:01/F4:1F:00:00:00:0A", `{"gw_mac":"C8:25:00:00:00:01","rssi":-71,"aoa":[],"gwts":"1796547911","ts":"1796547910","data":"0201061BFF9904051388526CC8F60010FFE403F8A8F612006AF41F0000000A","coords":""}`},
			{"ruuvi/C8:25:00:00:00:01/gw_status", `{"state":"online"}`},
		},
	}
}

// decodeRuuvi reads what a Ruuvi Gateway publishes: an object for each
// advertisement that it hears, with the raw bytes in "data", or their meaning,
// or both. Of both the raw bytes count: they have no rounding.
func decodeRuuvi(d *Decoder) {
	if !d.parseObject() {
		return
	}
	sc := d.newScope()
	d.ofTopic(&sc)
	d.firstTime(&sc, d.child(0, "ts"), d.child(0, "timestamp"), d.child(0, "gwts"))
	data := d.child(0, "data")
	text := d.text(data)
	switch {
	case len(text) > 0:
		if !d.readAdvertisement(text, &sc) {
			return
		}
	case d.child(0, "temperature") >= 0 || d.child(0, "humidity") >= 0 || d.child(0, "dataFormat") >= 0:
		d.ruuviSensor(d.text(d.child(0, "id")), &sc)
		d.readRuuviJSON(&sc)
	default:
		d.ignore(reading.StatusWord, "the state of the gateway")
	}
	if len(d.found) == 0 {
		return
	}
	if rssi := d.child(0, "rssi"); rssi >= 0 {
		d.readScalar(&d.doc.nodes[rssi], d.names.getString("rssi"), &sc)
	}
}

// ruuviSensor takes {sensor}, which is the tag's address in the topics of a
// gateway, or else the address in the message: not every format has it whole.
func (d *Decoder) ruuviSensor(mac []byte, sc *scope) {
	if !d.topic.route.sensor && len(mac) > 0 {
		d.named(sc, mac)
	}
}

// readRuuviJSON reads an advertisement that the gateway has decoded.
func (d *Decoder) readRuuviJSON(sc *scope) {
	for _, m := range [...]struct{ key, metric string }{
		{"temperature", "temperature"},
		{"humidity", "humidity"},
		{"pressure", "pressure"},
		{"accelX", "acceleration_x"},
		{"accelY", "acceleration_y"},
		{"accelZ", "acceleration_z"},
		{"voltage", "battery_voltage"},
		{"txPower", "tx_power"},
		{"movementCounter", "movement_counter"},
		{"measurementSequenceNumber", "measurement_sequence"},
		{"PM1.0", "pm1"},
		{"PM2.5", "pm2_5"},
		{"PM4.0", "pm4"},
		{"PM10.0", "pm10"},
		{"CO2", "co2"},
		{"VOC", "voc_index"},
		{"NOx", "nox_index"},
		{"luminosity", "illuminance"},
	} {
		at := d.child(0, m.key)
		if at < 0 {
			continue
		}
		n, f := &d.doc.nodes[at], d.names.getString(m.metric)
		if v, why := parseNumber(d.doc.val(n)); m.metric == "pressure" && n.kind == aNumber && why == "" && v > 2000 {
			d.add(sc, f, []byte("Pa"), v, "") // the gateway sends Pa
			continue
		}
		d.readScalar(n, f, sc)
	}
}

// ruuviCompany is Ruuvi Innovations in Bluetooth's list of companies.
const ruuviCompany = 0x0499

// readAdvertisement finds the manufacturer's data among the parts of a
// Bluetooth advertisement: each is its length, its type and so many bytes less
// one (Core Specification, volume 3, part C, section 11).
func (d *Decoder) readAdvertisement(text []byte, sc *scope) bool {
	const manufacturer = 0xff
	if len(text) > 2*2048 {
		d.reject(reading.InvalidValue, "the advertisement is too long")
		return false
	}
	adv, err := hex.AppendDecode(d.scratch[:0], text)
	d.scratch = adv[:0]
	if err != nil {
		d.reject(reading.InvalidValue, "the advertisement is no hexadecimal text")
		return false
	}
	for len(adv) > 0 && adv[0] > 0 {
		size := int(adv[0])
		if size >= len(adv) {
			d.reject(reading.InvalidValue, "the advertisement is truncated")
			return false
		}
		part := adv[1 : 1+size]
		if part[0] == manufacturer && len(part) > 3 && binary.LittleEndian.Uint16(part[1:]) == ruuviCompany {
			return d.readRuuvi(part[3:], sc)
		}
		adv = adv[1+size:]
	}
	d.ignore(reading.StatusWord, "an advertisement of a device that is not Ruuvi's")
	return false
}

// readRuuvi reads the data of a sensor. Each format has a value of each kind
// that means "not available".
func (d *Decoder) readRuuvi(b []byte, sc *scope) bool {
	size := map[byte]int{3: 14, 5: 24, 6: 20, 0xe1: 40}[b[0]]
	switch {
	case size == 0:
		d.reject(reading.NoReading, fmt.Sprintf("data format %d of Ruuvi is not known", b[0]))
		return false
	case len(b) < size:
		d.reject(reading.InvalidValue, "the data of the sensor is truncated")
		return false
	}
	r := ruuvi{d: d, sc: sc, b: b}
	switch b[0] {
	case 3:
		r.format3()
	case 5:
		r.format5()
	case 6:
		r.format6()
	default:
		r.formatE1()
	}
	if len(d.found) == 0 {
		d.ignore(reading.StatusWord, "the sensor says that none of its values is available")
		return false
	}
	return true
}

// ruuvi adds values of a sensor's data.
type ruuvi struct {
	d  *Decoder
	sc *scope
	b  []byte
}

func (r ruuvi) uint16(i int) int { return int(binary.BigEndian.Uint16(r.b[i:])) }
func (r ruuvi) int16(i int) int  { return int(int16(binary.BigEndian.Uint16(r.b[i:]))) }

// add adds a value that has a resolution of 1/per and an offset. It divides,
// since 4860 × 0.005 is not 24.3.
func (r ruuvi) add(metric string, raw, none int, per, offset float64) {
	if raw != none {
		r.d.add(r.sc, r.d.names.getString(metric), nil, (float64(raw)+offset)/per, "")
	}
}

// climate is what all formats but the oldest begin with.
func (r ruuvi) climate() {
	r.add("temperature", r.int16(1), math.MinInt16, 200, 0)
	r.add("humidity", r.uint16(3), math.MaxUint16, 400, 0)
	r.add("pressure", r.uint16(5), math.MaxUint16, 100, 50000)
}

func (r ruuvi) acceleration(i int) {
	for k, metric := range [...]string{"acceleration_x", "acceleration_y", "acceleration_z"} {
		r.add(metric, r.int16(i+2*k), math.MinInt16, 1000, 0) // in g
	}
}

func (r ruuvi) mac(i int) {
	m := r.b[i : i+6]
	r.d.ruuviSensor(fmt.Appendf(nil, "%02X:%02X:%02X:%02X:%02X:%02X", m[0], m[1], m[2], m[3], m[4], m[5]), r.sc)
}

func (r ruuvi) format3() {
	// The temperature has a sign and two digits behind the point.
	whole, hundredths := int(r.b[2]&0x7f), int(r.b[3])
	t := whole*100 + hundredths
	if r.b[2]&0x80 != 0 {
		t = -t
	}
	const none = math.MinInt // the format has no such marks
	r.add("temperature", t, none, 100, 0)
	r.add("humidity", int(r.b[1]), none, 2, 0)
	r.add("pressure", r.uint16(4), none, 100, 50000)
	r.acceleration(6)
	r.add("battery_voltage", r.uint16(12), none, 1000, 0)
}

func (r ruuvi) format5() {
	if !r.d.topic.route.sensor {
		r.mac(18)
	}
	r.climate()
	r.acceleration(7)
	power := r.uint16(13)
	r.add("battery_voltage", power>>5, 2047, 1000, 1600)
	r.add("tx_power", power&31, 31, 0.5, -20)
	r.add("movement_counter", int(r.b[15]), 255, 1, 0)
	r.add("measurement_sequence", r.uint16(16), math.MaxUint16, 1, 0)
}

// format6 is of Ruuvi Air for receivers that hear no longer advertisements.
func (r ruuvi) format6() {
	r.climate()
	r.add("pm2_5", r.uint16(7), math.MaxUint16, 10, 0)
	r.add("co2", r.uint16(9), math.MaxUint16, 1, 0)
	r.indices(11, 16)
	if code := r.b[13]; code != 255 { // logarithmic: 254 is 65535 lx
		lux := math.Expm1(float64(code) * math.Log(65536) / 254)
		r.d.add(r.sc, r.d.names.getString("illuminance"), nil, math.Round(lux*100)/100, "")
	}
	r.add("measurement_sequence", int(r.b[15]), -1, 1, 0)
}

// formatE1 is of Ruuvi Air for receivers that hear long advertisements.
func (r ruuvi) formatE1() {
	if !r.d.topic.route.sensor {
		r.mac(34)
	}
	r.climate()
	for k, metric := range [...]string{"pm1", "pm2_5", "pm4", "pm10"} {
		r.add(metric, r.uint16(7+2*k), math.MaxUint16, 10, 0)
	}
	r.add("co2", r.uint16(15), math.MaxUint16, 1, 0)
	r.indices(17, 28)
	r.add("illuminance", int(r.b[19])<<16|r.uint16(20), 0xffffff, 100, 0)
	r.add("measurement_sequence", int(r.b[25])<<16|r.uint16(26), 0xffffff, 1, 0)
}

// indices are of nine bits, the lowest of which are among the flags.
func (r ruuvi) indices(i, flags int) {
	f := int(r.b[flags])
	r.add("voc_index", int(r.b[i])<<1|f>>6&1, 511, 1, 0)
	r.add("nox_index", int(r.b[i+1])<<1|f>>7&1, 511, 1, 0)
}
