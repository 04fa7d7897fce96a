package history

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"gudang/internal/decode"
	"gudang/internal/reading"
)

// store keeps readings as a store does.
type store struct {
	have   map[reading.Series]map[int64]float64
	writes int
	most   int // readings in one write
	fail   error
}

func (s *store) write(_ context.Context, buckets []*reading.Bucket) (refused []reading.Refusal, err error) {
	if s.fail != nil {
		return nil, s.fail
	}
	s.writes++
	n := 0
	for _, b := range buckets {
		if s.have[b.Series] == nil {
			s.have[b.Series] = map[int64]float64{}
		}
		for i, off := range b.Offsets {
			n++
			t := b.Start + int64(off)
			if v, there := s.have[b.Series][t]; !there {
				s.have[b.Series][t] = b.Values[i]
			} else if v == b.Values[i] {
				refused = append(refused, reading.Refusal{Bucket: b, Offset: off, Verdict: reading.Duplicate})
			} else {
				refused = append(refused, reading.Refusal{Bucket: b, Offset: off, Verdict: reading.Conflict})
			}
		}
	}
	s.most = max(s.most, n)
	return refused, nil
}

func (s *store) config() Config {
	return Config{Span: 60_000, Admit: func(string) bool { return true }, Write: s.write}
}

func newStore() *store { return &store{have: map[reading.Series]map[int64]float64{}} }

const table = `time,sensor,temperature
2019-05-01T00:00:10Z,a,1
2019-05-01T00:00:20Z,a,2

bad,a,3
2019-05-01T00:00:10Z,b,4
2019-05-01T00:00:10Z,b,4
2019-05-01T00:00:10Z,b,5
`

func TestAFileTwiceChangesNothing(t *testing.T) {
	s := newStore()
	sum, err := Import(t.Context(), strings.NewReader(table), s.config())
	if err != nil || sum.Lines != 6 || sum.Readings != 5 || sum.Stored != 3 || sum.Already != 1 || sum.Conflicts != 1 || sum.Bad != 1 {
		t.Errorf("%+v, error %v", sum, err)
	}
	if want := []BadLine{{5, reading.InvalidValue, "its time cannot be read"}}; !slices.Equal(sum.BadLines, want) {
		t.Errorf("bad lines %v, want %v", sum.BadLines, want)
	}
	before := fmt.Sprint(s.have)
	sum, err = Import(t.Context(), strings.NewReader(table), s.config())
	if err != nil || sum.Stored != 0 || sum.Already != 4 || sum.Conflicts != 1 || fmt.Sprint(s.have) != before {
		t.Errorf("again: %+v, error %v", sum, err)
	}
}

func TestTheContentSaysWhatItIs(t *testing.T) {
	answer := `{"readings":[{"sensorId":"a","metric":"temperature","time":"2019-05-01T00:00:10Z","value":1},{"sensorId":"b","metric":"temperature","time":1556668810,"value":4}]}`
	lines := `{"sensorId":"a","metric":"temperature","time":1556668810,"value":1}` + "\n\n" + `{"sensorId":"b","metric":"temperature","time":1556668810000,"value":4}`
	for name, text := range map[string]string{
		"a whole answer":           answer,
		"answers, one a line":      answer + "\n" + answer + "\n",
		"objects, one a line":      lines,
		"with a byte order mark":   "\uFEFFsensor,time,t\na,1556668810,1\nb,1556668810,4",
		"with semicolons":          "sensor;time;t\r\na;1556668810;1\r\nb;1556668810;4\r\n",
		"with tabs":                "sensor\ttime\tt\na\t1556668810\t1\nb\t1556668810\t4\n",
		"with lines ahead":         "# exported\n\nsensor,time,t\na,1556668810,1\nb,1556668810,4\n",
		"with quotes":              `"sensor","time","metric","value"` + "\n" + `"a","1556668810","temperature","1"` + "\n" + `b,1556668810,"temperature",4`,
		"in a column for each":     "time,metric,sensorId,value\n1556668810,suhu,a,1\n1556668810,temperature,b,4\n",
		"with blanks in the names": "Sensor ID, Time , Temperature (°C)\na,1556668810,1\nb,1556668810,4\n",
	} {
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		w.Write([]byte(text))
		w.Close()
		for how, in := range map[string]io.Reader{"": strings.NewReader(text), ", compressed": &zipped, ", a byte at a time": iotest.OneByteReader(strings.NewReader(text))} {
			s := newStore()
			sum, err := Import(t.Context(), in, s.config())
			want := map[reading.Series]float64{{Sensor: "a", Metric: "temperature"}: 1, {Sensor: "b", Metric: "temperature"}: 4}
			if err != nil || sum.Stored != 2 || sum.Bad != 0 || len(s.have) != 2 {
				t.Errorf("%s%s: %+v, error %v, %v", name, how, sum, err, s.have)
				continue
			}
			for id, v := range want {
				if s.have[id][1556668810000] != v {
					t.Errorf("%s%s: %v", name, how, s.have)
				}
			}
		}
	}
}

func TestWhatIsNoHistoryIsSaid(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":              "",
		"blank lines":          "\n\n",
		"no header":            "1,2,3\n4,5,6\n",
		"an open quote":        `"time,sensor,t`,
		"bytes":                "\xff\xfe\x00",
		"half of a compressed": "\x1f\x8b\x08\x00\x00",
	} {
		if sum, err := Import(t.Context(), strings.NewReader(text), newStore().config()); err == nil {
			t.Errorf("%s: taken, %+v", name, sum)
		}
	}
}

// A file that is in no order at all is imported in little memory.
func TestAnyOrderInBoundedMemory(t *testing.T) {
	const n = 60_000
	in, out := io.Pipe()
	go func() {
		fmt.Fprintln(out, "time,sensor,x")
		var buf bytes.Buffer
		for i := range int64(n) {
			fmt.Fprintf(&buf, "%d,s%d,%d\n", 1556668800000+(i*7919%n)*1000, i%3, i%100)
			if buf.Len() > 1<<16 {
				out.Write(buf.Bytes())
				buf.Reset()
			}
		}
		out.Write(buf.Bytes())
		out.Close()
	}()
	s := newStore()
	told := 0
	cfg := s.config()
	cfg.Gather = 40_000
	cfg.Progress = func(Summary) { told++ }
	sum, err := Import(t.Context(), in, cfg)
	if err != nil || sum.Stored != n || sum.Already+sum.Conflicts+sum.Bad != 0 {
		t.Errorf("%+v, error %v", sum, err)
	}
	if s.most > readingsAtOnce || told != s.writes || s.writes < 3 {
		t.Errorf("%d writes of at most %d readings, told %d times", s.writes, s.most, told)
	}
}

func TestSensorsBeyondTheLimitAreBadLines(t *testing.T) {
	s := newStore()
	cfg := s.config()
	cfg.Admit = func(id string) bool { return id == "a" }
	sum, err := Import(t.Context(), strings.NewReader(table), cfg)
	if err != nil || sum.Stored != 2 || sum.Bad != 4 || sum.BadLines[1].Reason != reading.TooManySensors || len(s.have) != 1 {
		t.Errorf("%+v, error %v", sum, err)
	}
}

func TestAStoreThatFailsEndsTheImport(t *testing.T) {
	s := newStore()
	s.fail = errors.New("gone")
	if sum, err := Import(t.Context(), strings.NewReader(table), s.config()); !errors.Is(err, s.fail) || sum.Stored != 0 {
		t.Errorf("%+v, error %v", sum, err)
	}
	s = newStore()
	broken := io.MultiReader(strings.NewReader(table), iotest.ErrReader(errors.New("unplugged")))
	if sum, err := Import(t.Context(), broken, s.config()); err == nil || sum.Stored != 3 {
		t.Errorf("what was read before is not stored: %+v, error %v", sum, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Import(ctx, strings.NewReader(table), newStore().config()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestALineThatIsTooLongCostsItself(t *testing.T) {
	long := strings.Repeat("x", maxLine+10)
	s := newStore()
	sum, err := Import(t.Context(), strings.NewReader("time,sensor,t\n1556668810,"+long+",1\n1556668810,a,2\n1556668820,"+long), s.config())
	if err != nil || sum.Lines != 3 || sum.Stored != 1 || sum.Bad != 2 || sum.BadLines[0] != (BadLine{2, reading.TooLarge, "the line is longer than 8388608 bytes"}) || sum.BadLines[1].Line != 4 {
		t.Errorf("%+v, error %v", sum, err)
	}
}

func TestManyBadLinesAreCounted(t *testing.T) {
	sum, err := Import(t.Context(), strings.NewReader("time,sensor,t\n"+strings.Repeat("x,x,x\n", 300)), newStore().config())
	if err != nil || sum.Bad != 300 || len(sum.BadLines) != maxBadLines {
		t.Errorf("%d bad, %d told, error %v", sum.Bad, len(sum.BadLines), err)
	}
}

// FuzzSplit compares with encoding/csv on what is one line.
func FuzzSplit(f *testing.F) {
	for _, line := range []string{"a,b", `"a","b"`, `"a""b",c`, `"a`, `"a"b`, ",", "", `a"b,c`, `"",""`, " a, b"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsAny(line, "\r\n") || line == "" {
			return
		}
		cells, ok := split([]byte(line), ',', nil)
		r := csv.NewReader(strings.NewReader(line))
		want, err := r.Read()
		if errors.Is(err, csv.ErrBareQuote) {
			return // a quote within a cell without quotes: it is taken as it stands
		}
		if ok != (err == nil) {
			t.Fatalf("%q: %q, taken %t, encoding/csv says %v", line, cells, ok, err)
		}
		if !ok {
			return
		}
		var have []string
		for _, c := range cells {
			have = append(have, string(c))
		}
		if !slices.Equal(have, want) {
			t.Errorf("%q: %q, want %q", line, have, want)
		}
	})
}

// FuzzImport reads anything twice: the second time must change nothing.
func FuzzImport(f *testing.F) {
	f.Add([]byte(table))
	f.Add([]byte(`{"readings":[{"sensorId":"a","metric":"x","time":1556668810,"value":1}]}`))
	f.Add([]byte("\uFEFFa;time;id\n1;1556668810;\"x\""))
	f.Add([]byte("{\n[\n{}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		s := newStore()
		first, err := Import(t.Context(), bytes.NewReader(content), s.config())
		have := fmt.Sprint(s.have)
		if first.Readings != first.Stored+first.Already+first.Conflicts {
			t.Errorf("not each reading is accounted for: %+v", first)
		}
		again, err2 := Import(t.Context(), bytes.NewReader(content), s.config())
		if (err == nil) != (err2 == nil) || again.Stored != 0 || fmt.Sprint(s.have) != have || again.Lines != first.Lines || again.Bad != first.Bad {
			t.Errorf("first %+v (%v), then %+v (%v)", first, err, again, err2)
		}
	})
}

func TestTheFormatIsTold(t *testing.T) {
	for text, want := range map[string]string{
		"{}":                       "JSON, a line each",
		"time;id;t;note;version\n": "a table, columns separated by ';': time, id (sensor), t (readings of temperature), note (readings of note), version (ignored)",
	} {
		r, err := NewReader(strings.NewReader(text), decode.RowsConfig{})
		if err != nil || r.Format() != want {
			t.Errorf("%v, error %v, want %s", r.Format(), err, want)
		}
	}
}
