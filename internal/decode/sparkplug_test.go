package decode

import (
	"encoding/base64"
	"fmt"
	"math"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"gudang/internal/reading"
)

// sparkplug builds payloads, field by field.
type sparkplug []byte

func (b sparkplug) varint(num protowire.Number, v uint64) sparkplug {
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}

func (b sparkplug) text(num protowire.Number, s string) sparkplug {
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), s)
}

func (b sparkplug) float(v float32) sparkplug {
	return protowire.AppendFixed32(protowire.AppendTag(b, metricFloat, protowire.Fixed32Type), math.Float32bits(v))
}

func (b sparkplug) double(v float64) sparkplug {
	return protowire.AppendFixed64(protowire.AppendTag(b, metricDouble, protowire.Fixed64Type), math.Float64bits(v))
}

func named(name string) sparkplug          { return sparkplug(nil).text(metricName, name) }
func aliased(alias uint64) sparkplug       { return sparkplug(nil).varint(metricAlias, alias) }
func (b sparkplug) at(ms uint64) sparkplug { return b.varint(metricTimestamp, ms) }
func (b sparkplug) of(datatype uint64) sparkplug {
	return b.varint(metricDatatype, datatype)
}

func (b sparkplug) unit(unit string) sparkplug {
	value := sparkplug(nil).varint(1, 12).text(propertyString, unit)
	set := sparkplug(nil).text(propertyKeys, "engLow").text(propertyKeys, "engUnit").text(propertyValues, string(sparkplug(nil).varint(1, 9))).text(propertyValues, string(value))
	return b.text(metricProperties, string(set))
}

const sparkplugNow = 1796547910000 // 09:05:10 on 6 December 2026

func payload(metrics ...sparkplug) string {
	b := sparkplug(nil).varint(payloadTimestamp, sparkplugNow)
	for _, m := range metrics {
		b = b.text(payloadMetrics, string(m))
	}
	return string(b.varint(3, 7)) // seq
}

const onTime = " 2026-12-06T09:05:10"

var sparkplugCases = []struct {
	name     string
	messages [][2]string // topic under the group, payload
	want     string      // of the last one
}{
	{"data by name", [][2]string{{"DDATA/e/d", payload(named("temperature").at(sparkplugNow + 5).of(9).float(26.5))}}, "e/d temperature=26.5 2026-12-06T09:05:10.005"},
	{"a metric without a time has the message's", [][2]string{{"DDATA/e/d", payload(named("temperature").of(10).double(26.4))}}, "e/d temperature=26.4" + onTime},
	{"without any it is the receive time", [][2]string{{"DDATA/e/d", string(sparkplug(nil).text(payloadMetrics, string(named("temperature").double(26.4))))}}, "e/d temperature=26.4"},
	{"a time that is not believed, too", [][2]string{{"DDATA/e/d", payload(named("temperature").at(99).double(26.4))}}, "e/d temperature=26.4; bad clock"},
	{"an edge node has metrics of its own", [][2]string{{"NDATA/e", payload(named("temperature").double(26.4))}}, "e temperature=26.4" + onTime},
	{"a birth holds readings", [][2]string{{"DBIRTH/e/d", payload(named("temperature").varint(metricAlias, 3).of(10).double(26.4))}}, "e/d temperature=26.4" + onTime},
	{"a birth without values is a status", [][2]string{{"NBIRTH/e", payload(named("temperature").of(10).varint(metricIsNull, 1))}}, "ignored status"},
	{"data by an alias that the birth gave", [][2]string{
		{"DBIRTH/e/d", payload(named("temperature").varint(metricAlias, 3).of(3).unit("F").varint(metricInt, 50))},
		{"DDATA/e/d", payload(aliased(3).varint(metricInt, 41))},
	}, "e/d temperature=5" + onTime},
	{"data by name has the birth's type", [][2]string{
		{"DBIRTH/e/d", payload(named("temperature").of(2).varint(metricInt, 50))},
		{"DDATA/e/d", payload(named("temperature").varint(metricInt, 0xfff6))},
	}, "e/d temperature=-10" + onTime},
	{"alias 0 is one", [][2]string{
		{"NBIRTH/e", payload(named("humidity").varint(metricAlias, 0).of(10).double(50))},
		{"NDATA/e", payload(aliased(0).double(51))},
	}, "e humidity=51" + onTime},
	{"an alias of nobody is refused", [][2]string{{"DDATA/e/d", payload(aliased(3).double(26.4))}}, "rejected invalid_metric"},
	{"it costs no other metric", [][2]string{{"DDATA/e/d", payload(aliased(3).double(26.4), named("humidity").double(50))}}, "!alias invalid_metric; e/d humidity=50" + onTime},
	{"another device's alias is another", [][2]string{
		{"DBIRTH/e/d", payload(named("temperature").varint(metricAlias, 3).of(10).double(1))},
		{"DDATA/e/other", payload(aliased(3).double(26.4))},
	}, "rejected invalid_metric"},
	{"a birth replaces the one before", [][2]string{
		{"DBIRTH/e/d", payload(named("temperature").varint(metricAlias, 3).of(10).double(1))},
		{"DBIRTH/e/d", payload(named("humidity").varint(metricAlias, 3).of(10).double(1))},
		{"DDATA/e/d", payload(aliased(3).double(40))},
	}, "e/d humidity=40" + onTime},
	{"a node's birth makes its devices' void", [][2]string{
		{"DBIRTH/e/d", payload(named("temperature").varint(metricAlias, 3).of(10).double(1))},
		{"NBIRTH/e", payload(named("temperature").of(10).double(1))},
		{"DDATA/e/d", payload(aliased(3).double(40))},
	}, "rejected invalid_metric"},
	{"so does its death", [][2]string{
		{"DBIRTH/e/d", payload(named("temperature").varint(metricAlias, 3).of(10).double(1))},
		{"NDEATH/e", payload(named("bdSeq").of(4).varint(metricLong, 1))},
		{"DDATA/e/d", payload(aliased(3).double(40))},
	}, "rejected invalid_metric"},
	{"a death is ignored", [][2]string{{"NDEATH/e", payload(named("bdSeq").of(4).varint(metricLong, 1))}}, "ignored status"},
	{"so is a command", [][2]string{{"DCMD/e/d", payload(named("temperature").double(26.4))}}, "ignored status"},
	{"negative integers are in two's complement, of all sizes", [][2]string{{"DDATA/e/d", payload(
		named("a").of(1).varint(metricInt, 0xfe), named("b").of(1).varint(metricInt, 0xfffffffe), named("c").of(2).varint(metricInt, 0xfffe),
		named("d").of(3).varint(metricInt, 0xfffffffe), named("e").of(4).varint(metricLong, math.MaxUint64-1), named("f").of(7).varint(metricInt, 0xfffffffe),
	)}}, "e/d a=-2" + onTime + "; e/d b=-2" + onTime + "; e/d c=-2" + onTime + "; e/d d=-2" + onTime + "; e/d e=-2" + onTime + "; e/d f=4.294967294e+09" + onTime},
	{"truth values, texts and dates are no readings", [][2]string{{"DDATA/e/d", payload(
		named("open").of(11).varint(metricBoolean, 1), named("note").of(12).text(15, "x"), named("since").of(13).varint(metricLong, sparkplugNow), named("humidity").double(50),
	)}}, "e/d humidity=50" + onTime},
	{"nor are Sparkplug's own metrics", [][2]string{{"NBIRTH/e", payload(
		named("bdSeq").of(4).varint(metricLong, 1), named("Node Control/Scan Rate").of(3).varint(metricInt, 1000), named("Properties/Cores").of(3).varint(metricInt, 4), named("humidity").double(50),
	)}}, "e humidity=50" + onTime},
	{"a null is no 0", [][2]string{{"DDATA/e/d", payload(named("temperature").of(10).varint(metricIsNull, 1).double(0), named("humidity").double(50))}}, "e/d humidity=50" + onTime},
	{
		"history is of its time",
		[][2]string{{"DDATA/e/d", payload(named("temperature").at(sparkplugNow-60000).varint(5, 1).double(1), named("temperature").at(sparkplugNow).double(2))}},
		"e/d temperature=1 2026-12-06T09:04:10; e/d temperature=2" + onTime,
	},
	{"a battery in volts is a voltage", [][2]string{{"DDATA/e/d", payload(named("Battery").unit("V").double(3.25))}}, "e/d battery_voltage=3.25" + onTime},
	{"a folder is a part of the name", [][2]string{{"DDATA/e/d", payload(named("Inputs/Temperature").unit("K").double(300.15))}}, "e/d inputs_temperature=27" + onTime},
	{"NaN is not finite", [][2]string{{"DDATA/e/d", payload(named("temperature").double(math.NaN()), named("humidity").double(50))}}, "!temperature not_finite; e/d humidity=50" + onTime},
	{"a truncated message is refused whole", [][2]string{{"DDATA/e/d", payload(named("temperature").double(1), named("humidity").double(50))[:40]}}, "rejected invalid_value"},
	{"so is text", [][2]string{{"DDATA/e/d", `{"temperature":1}`}}, "rejected invalid_value"},
	{"so is a metric of another type on the wire", [][2]string{{"DDATA/e/d", payload(sparkplug(nil).varint(metricName, 3))}}, "rejected invalid_value"},
	{"so is a name that is no text", [][2]string{{"DDATA/e/d", payload(named("\xff").double(1))}}, "rejected invalid_value"},
	{"a compressed payload is not lost in silence", [][2]string{{"DDATA/e/d", string(sparkplug(payload()).text(payloadUUID, sparkplugCompressed).text(5, "\x78\x9c"))}}, "rejected no_reading"},
	{"an empty list of metrics is ignored", [][2]string{{"DDATA/e/d", payload()}}, "ignored status"},
	{"an unknown type of message is refused", [][2]string{{"XDATA/e/d", payload(named("temperature").double(1))}}, "rejected no_reading"},
}

func TestSparkplug(t *testing.T) {
	for _, c := range sparkplugCases {
		t.Run(c.name, func(t *testing.T) {
			d := newDecoder(t, "sparkplug")
			var out Result
			for _, p := range c.messages {
				m := Message{Topic: "spBv1.0/g/" + p[0], Payload: []byte(p[1]), Received: received.UnixMilli()}
				d.Decode(m, &out)
				checkResult(t, m, &out)
				// Neither the payload nor the topic may be kept.
				clear(m.Payload)
			}
			if got := describe(&out); got != c.want {
				t.Errorf("got  %s\nwant %s\n(%s)", got, c.want, out.Detail)
			}
		})
	}
}

func TestSparkplugBehindABridge(t *testing.T) {
	d := newDecoder(t, "site-3/#=sparkplug")
	var out Result
	d.Decode(Message{Topic: "site-3/spBv1.0/g/NDATA/e", Payload: []byte(payload(named("temperature").double(1))), Received: received.UnixMilli()}, &out)
	if got := describe(&out); got != "e temperature=1"+onTime {
		t.Error(got)
	}
	d.Decode(Message{Topic: "site-3/spBv1.0/STATE/host", Payload: []byte("ONLINE"), Received: received.UnixMilli()}, &out)
	if got := describe(&out); got != "ignored status" {
		t.Error(got)
	}
}

func TestBirthsAreBounded(t *testing.T) {
	d := newDecoder(t, "sparkplug")
	var out Result
	var metrics []sparkplug
	for i := range 1000 {
		metrics = append(metrics, named(fmt.Sprintf("m%d", i)).varint(metricAlias, uint64(i)).double(1))
	}
	birth := []byte(payload(metrics...))
	for i := range 200 {
		topic := fmt.Sprintf("spBv1.0/g/DBIRTH/e%d/d", i)
		d.Decode(Message{Topic: topic, Payload: birth, Received: received.UnixMilli()}, &out)
		if d.births.count > maxBirths {
			t.Fatalf("%d metrics remembered", d.births.count)
		}
	}
	first := Message{Topic: "spBv1.0/g/DDATA/e0/d", Payload: []byte(payload(aliased(7).double(2))), Received: received.UnixMilli()}
	if d.Decode(first, &out); describe(&out) != "e0/d m7=2"+onTime {
		t.Errorf("the first node is forgotten: %s", describe(&out))
	}
	for i := range 200 {
		d.Decode(Message{Topic: fmt.Sprintf("spBv1.0/g/NDEATH/e%d", i), Payload: birth, Received: received.UnixMilli()}, &out)
	}
	if d.births.count != 0 || len(d.births.nodes) != 0 {
		t.Errorf("%d metrics of %d nodes are left", d.births.count, len(d.births.nodes))
	}
}

func TestSparkplugSamplesAreThoseOfTheBuilder(t *testing.T) {
	want := []string{
		payload(named("temperature").varint(metricAlias, 7).of(10).double(12.75), named("humidity").varint(metricAlias, 8).of(10).double(63.5)),
		payload(aliased(7).at(sparkplugNow + 2000).double(13)),
	}
	for i, s := range sparkplugFleet().Samples {
		if got := base64.StdEncoding.EncodeToString([]byte(want[i])); got != s.Payload {
			t.Errorf("sample %d: got %s, want %s", i, s.Payload, got)
		}
	}
}

// FuzzSparkplug feeds a birth and data to a decoder that remembers and to one
// that does not: the first may know more, and neither may fail.
func FuzzSparkplug(f *testing.F) {
	for _, c := range sparkplugCases {
		last := c.messages[len(c.messages)-1]
		f.Add([]byte(c.messages[0][1]), []byte(last[1]))
	}
	f.Fuzz(func(t *testing.T, birth, data []byte) {
		d := newDecoder(t, "sparkplug")
		var out Result
		used := allocated(func() {
			for topic, payload := range map[string][]byte{"spBv1.0/g/NBIRTH/e": birth, "spBv1.0/g/DBIRTH/e/d": birth, "spBv1.0/g/NDATA/e": data, "spBv1.0/g/DDATA/e/d": data} {
				m := Message{Topic: topic, Payload: payload, Received: received.UnixMilli()}
				d.Decode(m, &out)
				checkResult(t, m, &out)
			}
		})
		if limit := uint64(256*(len(birth)+len(data)) + 64<<10); used > limit {
			t.Fatalf("%d and %d bytes allocated %d", len(birth), len(data), used)
		}
		d.Decode(Message{Topic: "spBv1.0/g/NDEATH/e", Payload: []byte{0}, Received: received.UnixMilli()}, &out)
		if d.births.count != 0 {
			t.Fatalf("%d metrics are left of a dead node", d.births.count)
		}
	})
}

func BenchmarkSparkplug(b *testing.B) {
	d := newDecoder(b, "sparkplug")
	var out Result
	d.Decode(Message{Topic: "spBv1.0/g/DBIRTH/e/d", Payload: []byte(payload(named("temperature").varint(metricAlias, 1).of(10).double(1), named("humidity").varint(metricAlias, 2).of(10).double(1))), Received: received.UnixMilli()}, &out)
	m := Message{Topic: "spBv1.0/g/DDATA/e/d", Payload: []byte(payload(aliased(1).double(2), aliased(2).double(50))), Received: received.UnixMilli()}
	b.ReportAllocs()
	for b.Loop() {
		d.Decode(m, &out)
	}
	if out.Outcome != reading.Pending || len(out.Values) != 2 {
		b.Fatal(describe(&out))
	}
}
