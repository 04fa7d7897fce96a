package decode

// senMLUnits are units of SenML's registries (RFC 8428, section 12.1, and RFC
// 8798) with the metric that a bare device of that unit has, and the unit here
// into which a metric of any name is converted.
var senMLUnits = []struct{ unit, metric, canonical string }{
	{"Cel", "temperature", "°C"},
	{"K", "temperature", "°C"},
	{"%RH", "humidity", "%RH"},
	{"Pa", "pressure", "hPa"},
	{"hPa", "pressure", "hPa"},
	{"%EL", "battery", "%"},
	{"EL", "battery_remaining", ""},
	{"V", "voltage", ""},
	{"mV", "voltage", ""},
	{"A", "current", ""},
	{"mA", "current", ""},
	{"W", "power", ""},
	{"kW", "power", ""},
	{"Wh", "energy", ""},
	{"kWh", "energy", ""},
	{"J", "energy", ""},
	{"Hz", "frequency", ""},
	{"Ohm", "resistance", ""},
	{"lx", "illuminance", "lx"},
	{"lon", "longitude", ""},
	{"lat", "latitude", ""},
	{"m", "distance", ""},
	{"kg", "weight", ""},
	{"m/s", "velocity", ""},
	{"m/s2", "acceleration", ""},
	{"l", "volume", ""},
	{"m3", "volume", ""},
	{"l/s", "flow", ""},
	{"m3/s", "flow", ""},
	{"W/m2", "irradiance", ""},
	{"pH", "ph", ""},
	{"dB", "level", ""},
	{"dBm", "rssi", "dBm"},
	{"dBW", "power", ""},
	{"ug/m3", "concentration", "µg/m³"},
	{"ppm", "concentration", ""},
	{"beat/min", "heart_rate", ""},
	{"rad", "angle", ""},
	{"deg", "angle", ""},
	{"N", "force", ""},
	{"T", "magnetic_flux_density", ""},
	{"bit/s", "data_rate", ""},
	{"count", "count", ""},
	{"S/m", "conductivity", ""},
}

func senMLMetric(unit []byte) string {
	for i := range senMLUnits {
		if senMLUnits[i].unit == string(unit) {
			return senMLUnits[i].metric
		}
	}
	return ""
}

// senMLUnit gives a metric of no known kind the canonical unit of its kind, so
// that kelvins of whatever name become °C.
func (d *Decoder) senMLUnit(f *field, unit []byte) (*field, []byte) {
	if f.unit != "" || len(unit) == 0 {
		return f, unit
	}
	for i := range senMLUnits {
		if u := &senMLUnits[i]; u.unit == string(unit) && u.canonical != "" {
			kind := *f
			kind.unit = u.canonical
			return &kind, unit
		}
	}
	return f, unit
}
