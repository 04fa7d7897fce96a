package decode

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gudang/internal/reading"
)

func newRows(t testing.TB, cfg RowsConfig) *Rows {
	t.Helper()
	r, err := NewRows(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// told is a result in a form that can be compared.
func told(out *RowsResult) string {
	var parts []string
	for _, r := range out.Readings {
		parts = append(parts, fmt.Sprintf("%s/%s=%v@%s", r.Sensor, r.Metric, r.Value, time.UnixMilli(r.Time).UTC().Format("2006-01-02T15:04:05.999Z07:00")))
	}
	for _, f := range out.Faults {
		parts = append(parts, string(f.Reason))
	}
	if out.Empty > 0 {
		parts = append(parts, fmt.Sprintf("%d empty", out.Empty))
	}
	if out.Text > 0 {
		parts = append(parts, fmt.Sprintf("%d text", out.Text))
	}
	return strings.Join(parts, " ")
}

var rowCases = []struct{ name, header, row, want string }{
	{"a value in each row", "sensor,metric,time,value", "S-1,temperature,2019-05-01T00:00:10Z,20.5", "S-1/temperature=20.5@2019-05-01T00:00:10Z"},
	{"as the API names them, in another order", "value,sensorId,time,metric", "-3,S-1,2019-05-01T00:00:10.123Z,dew_point", "S-1/dew_point=-3@2019-05-01T00:00:10.123Z"},
	{"a column for each metric", "Timestamp;Device;Temperature;RH", "1556668810;a b;20.5;51", "a b/temperature=20.5@2019-05-01T00:00:10Z a b/humidity=51@2019-05-01T00:00:10Z"},
	{"units in the names of columns", "time,id,temp_f,pressure_kpa", "1556668810000,x,68.9,101.3", "x/temperature=20.5@2019-05-01T00:00:10Z x/pressure=1013@2019-05-01T00:00:10Z"},
	{"a column of units", "time,id,metric,value,unit", "1556668810,x,temperature,68.9,F", "x/temperature=20.5@2019-05-01T00:00:10Z"},
	{"a unit that is none of the metric", "time,id,metric,value,unit", "1556668810,x,temperature,68.9,kPa", "invalid_value"},
	{"a time without a zone", "time,id,t", "2019-05-01 07:00:10,x,1", "x/temperature=1@2019-05-01T00:00:10Z"},
	{"t is the time where there is no other", "t,id,h", "1556668810,x,1", "x/humidity=1@2019-05-01T00:00:10Z"},
	{"a cell without a value", "time,id,t,h", "1556668810,x,,51", "x/humidity=51@2019-05-01T00:00:10Z 1 empty"},
	{"a word for no value", "time,id,t,h", "1556668810,x,unavailable,51", "x/humidity=51@2019-05-01T00:00:10Z 1 empty"},
	{"fewer cells than the header", "time,id,t,h", "1556668810,x,1", "x/temperature=1@2019-05-01T00:00:10Z"},
	{"more cells than the header", "time,id,t", "1556668810,x,1,2", "invalid_value"},
	{"a note", "time,id,t,note", "1556668810,x,1,a door was open", "x/temperature=1@2019-05-01T00:00:10Z 1 text"},
	{"what is no number", "time,id,t", "1556668810,x,warm", "invalid_value"},
	{"a decimal comma", "time;id;t", "1556668810;x;21,5", "decimal_comma"},
	{"NaN", "time,id,t", "1556668810,x,NaN", "not_finite"},
	{"an infinity", "time,id,t", "1556668810,x,-inf", "not_finite"},
	{"a number beyond all", "time,id,metric,value", "1556668810,x,y,1e400", "out_of_range"},
	{"what no thermometer shows", "time,id,t", "1556668810,x,-3276.7", "out_of_range"},
	{"no time", "time,id,t", ",x,1", "invalid_value"},
	{"a time that is none", "time,id,t", "yesterday,x,1", "invalid_value"},
	{"a time of 1970", "time,id,t", "86400,x,1", "invalid_value"},
	{"a time of 2100", "time,id,t", "2100-01-01T00:00:00Z,x,1", "invalid_value"},
	{"an old time", "time,id,t", "1990-01-01T00:00:00Z,x,1", "x/temperature=1@1990-01-01T00:00:00Z"},
	{"no sensor", "time,id,t", "1556668810, ,1", "no_sensor"},
	{"a sensor with a control character", "time,id,t", "1556668810,a\tb,1", "control_character"},
	{"a metric that is none", "time,id,metric,value", "1556668810,x,°,1", "invalid_metric"},
	{"a metric that is a time", "time,id,metric,value", "1556668810,x,time,1", "invalid_metric"},
	{"no UTF-8", "time,id,t", "1556668810,\xff,1", "invalid_utf8"},
	{"the better of two sensor columns", "id,sensorId,time,t", "17,S-1,1556668810,1", "S-1/temperature=1@2019-05-01T00:00:10Z"},
	{"a number beside a value is none of its own", "time,id,metric,value,battery", "1556668810,x,h,51,99", "x/humidity=51@2019-05-01T00:00:10Z"},
	{"minus zero", "time,id,t", "1556668810,x,-0.0", "x/temperature=0@2019-05-01T00:00:10Z"},
}

func TestRowsOfATable(t *testing.T) {
	zone, err := time.LoadLocation("Asia/Jakarta")
	if err != nil {
		t.Fatal(err)
	}
	r := newRows(t, RowsConfig{Zone: zone})
	for _, c := range rowCases {
		sep := ","
		if strings.Contains(c.header, ";") {
			sep = ";"
		}
		columns, err := r.Columns(strings.Split(c.header, sep))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var out RowsResult
		r.Row(columns, bytes.Split([]byte(c.row), []byte(sep)), &out)
		if have := told(&out); have != c.want {
			t.Errorf("%s: %s, want %s", c.name, have, c.want)
		}
	}
}

func TestHeadersThatAreNone(t *testing.T) {
	r := newRows(t, RowsConfig{})
	for _, header := range []string{"a,b,c", "time,id", "sensor,value", "time,value", "", "time,sensor,metric"} {
		if _, err := r.Columns(strings.Split(header, ",")); err == nil {
			t.Errorf("%q was taken", header)
		}
	}
	for _, cfg := range []RowsConfig{{Sensor: "a\nb"}, {Sensor: " "}, {Metric: "time"}, {Metric: "°"}, {Ranges: map[string][2]float64{"temperature": {5, 1}}}} {
		if _, err := NewRows(cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
	r = newRows(t, RowsConfig{Sensor: "S-1", Metric: "suhu", Ranges: map[string][2]float64{"temperature": {0, 10}}})
	columns, err := r.Columns([]string{"time", "value"})
	if err != nil {
		t.Fatal(err)
	}
	var out RowsResult
	r.Row(columns, [][]byte{[]byte("1556668810"), []byte("5")}, &out)
	r.Row(columns, [][]byte{[]byte("1556668820"), []byte("15")}, &out)
	if have := told(&out); have != "S-1/temperature=5@2019-05-01T00:00:10Z out_of_range" {
		t.Error(have)
	}
	var uses []string
	columns, err = r.Columns([]string{"sensor", "time", "metric", "value", "unit", "temperature", "version"})
	for _, c := range columns {
		uses = append(uses, c.Use())
	}
	if want := []string{"sensor", "time", "metric", "value", "unit", "ignored", "ignored"}; err != nil || !slices.Equal(uses, want) {
		t.Errorf("uses %q, want %q", uses, want)
	}
}

var jsonRowCases = []struct{ name, text, want string }{
	{"a reading of the API", `{"sensorId":"S-1","metric":"temperature","time":"2019-05-01T00:00:10.123Z","value":20.5}`, "S-1/temperature=20.5@2019-05-01T00:00:10.123Z"},
	{"its whole answer", `{"readings":[{"sensorId":"a","metric":"x","time":"2019-05-01T00:00:10Z","value":1},{"sensorId":"b","metric":"y","time":"2019-05-01T00:00:10Z","value":2}],"next":"abc"}`, "a/x=1@2019-05-01T00:00:10Z b/y=2@2019-05-01T00:00:10Z"},
	{"an answer with nothing in it", `{"readings":[]}`, ""},
	{"a list", `[{"id":"a","t":1,"ts":1556668810},{"id":"b","t":"2","ts":"1556668810"}]`, "a/temperature=1@2019-05-01T00:00:10Z b/temperature=2@2019-05-01T00:00:10Z"},
	{"null", `{"id":"a","metric":"x","ts":1556668810,"value":null}`, "1 empty"},
	{"NaN", `{"id":"a","metric":"x","ts":1556668810,"value":NaN}`, "not_finite"},
	{"a boolean", `{"id":"a","metric":"x","ts":1556668810,"value":true}`, "invalid_value"},
	{"no value", `{"id":"a","metric":"x","ts":1556668810}`, "no_reading"},
	{"no time", `{"id":"a","metric":"x","value":1}`, "invalid_value"},
	{"one of two is bad", `[{"id":"a","metric":"x","ts":1,"value":1},{"id":"a","metric":"x","ts":1556668810,"value":1}]`, "a/x=1@2019-05-01T00:00:10Z invalid_value"},
	{"a number", `7`, "no_reading"},
	{"a key twice", `{"id":"a","id":"b","ts":1556668810,"x":1}`, "duplicate_key"},
	{"cut off", `{"id":"a",`, "invalid_json"},
	{"something behind it", `{"id":"a","ts":1556668810,"x":1} {}`, "trailing_data"},
	{"too deep", strings.Repeat("[", 40) + strings.Repeat("]", 40), "too_deep"},
	{"no UTF-8", "{\"id\":\"\xff\"}", "invalid_utf8"},
	{"a name that was escaped", `{"id":"\u0061\"b","ts":1556668810,"x":1}`, `a"b/x=1@2019-05-01T00:00:10Z`},
}

func TestRowsOfJSON(t *testing.T) {
	r := newRows(t, RowsConfig{})
	for _, c := range jsonRowCases {
		var out RowsResult
		r.JSON([]byte(c.text), &out)
		if have := told(&out); have != c.want {
			t.Errorf("%s: %s, want %s", c.name, have, c.want)
		}
	}
}

// A metric that is stored has been named by us already: read again, it must
// keep its name, or a history would not come back as it was exported.
func TestAStoredNameStaysWhatItIs(t *testing.T) {
	n, err := newNames(nil)
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{"temp_2", "soilTemperature", "dewPoint", "PM2.5", "co2_ppm", "temp_f", "value", "a", "°C inside", "x-1", "battery mV", "9lives", "temperature_2_f"}
	for _, m := range known {
		keys = append(keys, m.Name)
		for _, a := range m.Aliases {
			keys = append(keys, a.Key, "soil_"+a.Key, a.Key+"2")
		}
	}
	for _, key := range keys {
		first := n.getString(key)
		if !first.namesMetric() {
			continue
		}
		again := n.getString(first.name)
		if again.name != first.name || again.declared != nil || !again.namesMetric() || again.lo > first.lo || again.hi < first.hi {
			t.Errorf("%q is stored as %q, which is read as %q (%+v)", key, first.name, again.name, again.declared)
		}
	}
}

func FuzzRows(f *testing.F) {
	for _, c := range rowCases {
		f.Add(c.header, c.row)
	}
	for _, c := range jsonRowCases {
		f.Add(c.text, c.text)
	}
	r, err := NewRows(RowsConfig{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, header, row string) {
		var out RowsResult
		r.JSON([]byte(row), &out)
		checkRows(t, &out)
		names, err := csv.NewReader(strings.NewReader(header)).Read()
		if err != nil {
			return
		}
		columns, err := r.Columns(names)
		if err != nil {
			return
		}
		var cells [][]byte
		for cell := range strings.SplitSeq(row, ",") {
			cells = append(cells, []byte(cell))
		}
		out = RowsResult{}
		r.Row(columns, cells, &out)
		checkRows(t, &out)
	})
}

// checkRows checks that what is to be stored may be stored.
func checkRows(t *testing.T, out *RowsResult) {
	t.Helper()
	for _, v := range out.Readings {
		if v.Sensor == "" || len(v.Sensor) > reading.MaxSensorID || !legalMetric.MatchString(v.Metric) || v.Time < firstTime || v.Time >= lastTime ||
			!(v.Value >= -reading.MaxValue && v.Value <= reading.MaxValue) {
			t.Errorf("%+v", v)
		}
	}
	for _, f := range out.Faults {
		if f.Reason == "" || f.Detail == "" || !slices.Contains(reading.RejectReasons, f.Reason) {
			t.Errorf("%+v", f)
		}
	}
}
