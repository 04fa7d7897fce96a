package decode

import "testing"

var influxCases = []decodeCase{
	{
		"a tag is the sensor, a field the metric", "i/a", `climate,site=dc1,sensor=dht22-11 temperature=26.4,humidity=48i 1796547910000000000`,
		"dht22-11 temperature=26.4 2026-12-06T09:05:10; dht22-11 humidity=48 2026-12-06T09:05:10",
	},
	{"the special tag comes before the vague", "i/a", `m,id=7,host=x,sensor_id=s1 t=1`, "s1 temperature=1"},
	{"the host is better than wildcards", "i/a", `mem,host=pi-3 used_percent=41.5`, "pi-3 used_percent=41.5"},
	{"but worse than {sensor}", "is/s9", `mem,host=pi-3 used_percent=41.5`, "s9 used_percent=41.5"},
	{"without a tag the topic names the sensor", "i/a/b", `m t=1`, "a/b temperature=1"},
	{"the field value is of the metric that the measurement names", "i/a", `temperature,device=d1 value=21.5 1796547910`, "d1 temperature=21.5 2026-12-06T09:05:10"},
	{
		"a time is of the precision that its magnitude says", "i/a", "m,id=a t=1 1796547910\nm,id=b t=1 1796547910123\nm,id=c t=1 1796547910123456\nm,id=d t=1 1796547910123456789",
		"a temperature=1 2026-12-06T09:05:10; b temperature=1 2026-12-06T09:05:10.123; c temperature=1 2026-12-06T09:05:10.123; d temperature=1 2026-12-06T09:05:10.123",
	},
	{"without a time it is the receive time", "i/a", `m,id=a t=1`, "a temperature=1"},
	{"a time that is not believed, too", "i/a", `m,id=a t=1 17`, "a temperature=1; bad clock"},
	{"blanks, commas and signs are escaped", "i/a", `my\ room,sensor=cold\ room\,\ 2,x=a\=b dew\ point=3.5`, "cold room, 2 dew_point=3.5"},
	{"integers, unsigned ones and exponents are numbers", "i/a", `m,id=a a=-3i,b=18446744073709551615u,c=1.5e3`, "a a=-3; a b=1.8446744073709552e+19; a c=1500"},
	{"truth values and texts are none", "i/a", `m,id=a open=true,state="a \"b\", c=3",t=1`, "a temperature=1"},
	{"a line of nothing else is ignored", "i/a", `m,id=a open=T`, "ignored status"},
	{"comments, empty lines and line ends are skipped", "i/a", "# c\r\n\r\nm,id=a t=1\r\nm,id=b t=2\r\n", "a temperature=1; b temperature=2"},
	{"a malformed line costs itself", "i/a", "m,id=a t=1\nm,id=b t=\nm,id=c t=3 1796547910", "!line invalid_value; a temperature=1; c temperature=3 2026-12-06T09:05:10"},
	{"a field that is malformed costs its line", "i/a", "m,id=b h=1,t=nan\nm,id=c t=3", "!line invalid_value; c temperature=3"},
	{"a plausible range holds here as well", "i/a", "m,id=a t=-3276.8,h=50", "!temperature out_of_range; a humidity=50"},
	{"a key can declare a unit", "i/a", "m,id=a temp_f=68.9", "a temperature=20.5"},
	{"so can a tag", "i/a", "m,id=a,unit=F temperature=68.9,humidity=40", "a temperature=20.5; a humidity=40"},
	{"fields that are no metrics are skipped", "i/a", "m,id=a timestamp=5i,version=3i,t=1", "a temperature=1"},
	{"a status word is no error", "i/a", "offline", "ignored status"},
	{"text is no line protocol", "i/a", "hello", "rejected invalid_value"},
	{"nor is JSON", "i/a", `{"t":1}`, "rejected invalid_value"},
	{
		"unless it is Telegraf's", "i/a", `{"fields":{"temperature":26.4,"humidity":48,"state":"x"},"name":"climate","tags":{"host":"pi-3","sensor":"dht22-11"},"timestamp":1796547910}`,
		"dht22-11 temperature=26.4 2026-12-06T09:05:10; dht22-11 humidity=48 2026-12-06T09:05:10",
	},
	{
		"of which there can be a batch", "i/a", `{"metrics":[{"fields":{"value":26.4},"name":"temperature","tags":{"host":"pi-3"},"timestamp":1796547910},{"fields":{"value":68},"name":"temperature","tags":{"sensor":"b","unit":"F"},"timestamp":1796547910}]}`,
		"pi-3 temperature=26.4 2026-12-06T09:05:10; b temperature=20 2026-12-06T09:05:10",
	},
	{"two lines of one time and two values conflict", "i/a", "m,id=a t=1 1796547910\nm,id=a t=2 1796547910", "!temperature conflict; a temperature=1 2026-12-06T09:05:10"},
}

func TestInflux(t *testing.T) {
	runCases(t, newDecoder(t, "i/#=influx", "is/{sensor}=influx"), influxCases)
}

func BenchmarkInflux(b *testing.B) {
	benchmarkDecode(b, "i/#=influx", "i/x", `climate,site=dc1,sensor=dht22-11 temperature=26.4,humidity=48i 1735689610000000000`)
}
