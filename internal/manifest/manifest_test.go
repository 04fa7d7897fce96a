package manifest

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"gudang/internal/reading"
)

func sample(t testing.TB) ([]byte, []Entry) {
	t.Helper()
	entries := []Entry{
		{1, reading.Reading{Series: reading.Series{Sensor: "S-0001", Metric: "temperature"}, Time: 1796547610000, Value: 26.4}},
		{1, reading.Reading{Series: reading.Series{Sensor: "S-0001", Metric: "humidity"}, Time: 1796547610000, Value: -0.1}},
		{2, reading.Reading{Series: reading.Series{Sensor: "gudang \"é\",\n", Metric: "co2"}, Time: -5, Value: 1e-300}},
		{3, reading.Reading{Series: reading.Series{Sensor: "S-0001", Metric: "temperature"}, Time: 1796547620000, Value: math.MaxFloat64}},
	}
	var b bytes.Buffer
	w, err := NewWriter(&b, Header{Seed: 7, Start: 1796547600000, Flags: "-sensors 2"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := w.Write(e.Seq, e.Reading); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), entries
}

func readAll(text []byte) (h Header, all []Entry, err error) {
	h, err = Read(bytes.NewReader(text), func(e Entry) error { all = append(all, e); return nil })
	return h, all, err
}

func TestRoundTrip(t *testing.T) {
	text, want := sample(t)
	h, have, err := readAll(text)
	if err != nil {
		t.Fatal(err)
	}
	if h != (Header{Manifest: name, Version: Version, Seed: 7, Start: 1796547600000, Flags: "-sensors 2"}) {
		t.Errorf("header %+v", h)
	}
	if len(have) != len(want) {
		t.Fatalf("%d entries, want %d", len(have), len(want))
	}
	for i := range want {
		if have[i] != want[i] {
			t.Errorf("entry %d: have %+v, want %+v", i, have[i], want[i])
		}
	}
}

func TestACutManifestIsNoticedWhereverItWasCut(t *testing.T) {
	text, _ := sample(t)
	for n := range len(text) {
		if _, _, err := readAll(text[:n]); err == nil {
			t.Fatalf("cut to %d of %d bytes: no error", n, len(text))
		}
	}
}

func TestAChangedByteIsNoticedWhereverItIs(t *testing.T) {
	text, _ := sample(t)
	for i := range text {
		for _, by := range []byte{1, 0x20, 0x80} {
			changed := bytes.Clone(text)
			changed[i] ^= by
			if _, _, err := readAll(changed); err == nil {
				t.Fatalf("byte %d changed from %q to %q: no error", i, text[i], changed[i])
			}
		}
	}
}

func TestAChangedValueIsReadBeforeTheChecksumIs(t *testing.T) {
	text, want := sample(t)
	_, have, err := readAll(bytes.Replace(text, []byte("26.4"), []byte("26.5"), 1))
	if !errors.Is(err, ErrChecksum) {
		t.Errorf("error %v, want ErrChecksum", err)
	}
	if len(have) != len(want) || have[0].Value != 26.5 {
		t.Errorf("entries %+v", have)
	}
}

func TestReadRefuses(t *testing.T) {
	const head = `{"manifest":"gudang","version":1,"seed":0,"start":0,"flags":""}` + "\n"
	f := func(name, text, want string) {
		t.Run(name, func(t *testing.T) {
			if _, _, err := readAll([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("have %v, want an error with %q", err, want)
			}
		})
	}
	f("nothing", "", "empty")
	f("another file", "PK\x03\x04\n", "line 1: cannot parse the header")
	f("another program's JSON", `{"manifest":"npm","version":1,"seed":0,"start":0,"flags":""}`+"\n", `"npm" stands where`)
	f("a newer version", `{"manifest":"gudang","version":2,"seed":0,"start":0,"flags":""}`+"\n", "line 1: format version 2")
	f("no footer", head+`{"n":1,"s":"a","m":"b","t":1,"v":2}`+"\n", "ends after line 2 without its footer")
	f("a footer that counts otherwise", head+`{"end":true,"readings":3,"crc":"0"}`+"\n", "line 2: the footer counts 3 readings")
	f("a reading without a value", head+`{"n":1,"s":"a","m":"b","t":1}`+"\n", "line 2: a reading needs")
	f("a value that is text", head+`{"n":1,"s":"a","m":"b","t":1,"v":"NaN"}`+"\n", "line 2: cannot parse a reading")
	f("an unknown field", head+`{"n":1,"s":"a","m":"b","t":1,"v":2,"x":3}`+"\n", `unknown field "x"`)
	f("two values on one line", head+`{"n":1,"s":"a","m":"b","t":1,"v":2}{}`+"\n", "stands behind it")
	f("an empty sensor", head+`{"n":1,"s":"","m":"b","t":1,"v":2}`+"\n", "sensor id of 0 bytes")
	f("an empty line", head+"\n", "line 2: cannot parse")
	f("an endless line", head+strings.Repeat("x", 1<<20), "longer than")
	text, _ := sample(t)
	f("something behind the footer", string(text)+"x", "line 7: something stands behind")
}

func TestWriterPassesErrorsOn(t *testing.T) {
	broken := errors.New("disk full")
	w, err := NewWriter(failing{broken}, Header{})
	if err != nil {
		t.Fatal(err)
	}
	r := reading.Reading{Series: reading.Series{Sensor: strings.Repeat("s", 200), Metric: "m"}}
	for range 1000 {
		if err = w.Write(1, r); err != nil {
			break
		}
	}
	if !errors.Is(err, broken) || !errors.Is(w.Close(), broken) {
		t.Errorf("Write: %v, Close: %v", err, w.Close())
	}
	if err := w.Write(1, reading.Reading{Value: math.NaN()}); err == nil {
		t.Error("NaN was written")
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func FuzzRead(f *testing.F) {
	text, _ := sample(f)
	f.Add(text)
	f.Add([]byte(""))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, entries, err := readAll(text)
		if err != nil {
			return
		}
		// What can be read can be written and read again.
		var b bytes.Buffer
		w, err := NewWriter(&b, h)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if err := w.Write(e.Seq, e.Reading); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if _, again, err := readAll(b.Bytes()); err != nil || len(again) != len(entries) {
			t.Errorf("again: %d of %d entries, error %v", len(again), len(entries), err)
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	b.ReportAllocs()
	w, err := NewWriter(&bytes.Buffer{}, Header{})
	if err != nil {
		b.Fatal(err)
	}
	r := reading.Reading{Series: reading.Series{Sensor: "S-0001", Metric: "temperature"}, Time: 1796547610000, Value: 26.4}
	for b.Loop() {
		if err := w.Write(1, r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	b.ReportAllocs()
	var text bytes.Buffer
	w, err := NewWriter(&text, Header{})
	if err != nil {
		b.Fatal(err)
	}
	const n = 10000
	for i := range int64(n) {
		if err := w.Write(i, reading.Reading{Series: reading.Series{Sensor: "S-0001", Metric: "temperature"}, Time: i, Value: 26.4}); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, err := Read(bytes.NewReader(text.Bytes()), func(Entry) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/reading")
}
