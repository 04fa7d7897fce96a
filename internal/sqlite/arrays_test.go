package sqlite

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
)

func TestArraysAreReadAsTheyWereWritten(t *testing.T) {
	values := []float64{0, 21, -0.5, 26.4, 1e21, 1e-7, 123456789012345, 12345678901234.5, 1234567890123456, 0.000001, math.MaxFloat64, math.SmallestNonzeroFloat64, -273.15, 1.0 / 3}
	text := append(AppendValues([]byte{'['}, values), ']')
	if have, err := ParseValues(nil, text); err != nil || !slices.Equal(have, values) {
		t.Errorf("%s is read as %v, error %v", text, have, err)
	}
	if want := "[0.0,21.0,-0.5,26.4,1e+21,1e-07,"; string(text[:len(want)]) != want {
		t.Errorf("%s", text)
	}
	offsets := []int32{0, 59_999, math.MaxInt32, math.MinInt32, -1}
	text = append(AppendOffsets([]byte{'['}, offsets), ']')
	if have, err := ParseOffsets(nil, text); err != nil || !slices.Equal(have, offsets) {
		t.Errorf("%s is read as %v, error %v", text, have, err)
	}
}

func TestWhatIsReadBeforeAFaultIsGiven(t *testing.T) {
	if have, err := ParseValues(nil, []byte(`[1,2.5,"x",3]`)); err == nil || !slices.Equal(have, []float64{1, 2.5}) {
		t.Errorf("%v, error %v", have, err)
	}
	if have, err := ParseOffsets(nil, []byte(`[1, 2 ,2.5]`)); err == nil || !slices.Equal(have, []int32{1, 2}) {
		t.Errorf("%v, error %v", have, err)
	}
}

// The short way must give what strconv gives, to the last bit.
func FuzzNumbers(f *testing.F) {
	for _, seed := range []string{"", "-", ".", "-.5", "5.", "1", "-0", "-0.0", "0.1", "26.4", "999999999999999", "9999999999999999", "0.000000000000001", "2147483648", "1e5", "+1", "0x1p4", "1_0", "NaN", "Inf", "1e999", " 7", "00012"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want, err := strconv.ParseFloat(text, 64)
		have, bad := ParseValues(nil, []byte("["+text+"]"))
		switch {
		case slices.ContainsFunc([]byte(text), func(c byte) bool { return c == ',' || c <= ' ' || c >= 0x80 }) || text == "":
		case (err != nil || want-want != 0) != (bad != nil):
			t.Errorf("%q: %v, %v; strconv says %v, %v", text, have, bad, want, err)
		case bad == nil && math.Float64bits(have[0]) != math.Float64bits(want):
			t.Errorf("%q is read as %v, want %v", text, have[0], want)
		}
		whole, err := strconv.ParseInt(text, 10, 32)
		offsets, bad := ParseOffsets(nil, []byte("["+text+"]"))
		switch {
		case slices.ContainsFunc([]byte(text), func(c byte) bool { return c == ',' || c <= ' ' || c >= 0x80 }) || text == "":
		case (err != nil) != (bad != nil) || bad == nil && int64(offsets[0]) != whole:
			t.Errorf("%q: %v, %v; strconv says %v, %v", text, offsets, bad, whole, err)
		}
	})
}

func FuzzArrays(f *testing.F) {
	for _, seed := range []string{"", "[", "]", "[]", "[1]", "[1,2]", "[1.5,-2e-7]", "[,]", "[1,]", "[NaN]", "[1e999]", " [1]", "[ 1 , 2 ]", `["1"]`, "[[1]]", "[0x1p4]", "[1_0]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if offsets, err := ParseOffsets(nil, text); err == nil {
			again, err := ParseOffsets(nil, append(AppendOffsets([]byte{'['}, offsets), ']'))
			if err != nil || !slices.Equal(again, offsets) {
				t.Errorf("offsets %v of %q read back as %v, error %v", offsets, text, again, err)
			}
		}
		if values, err := ParseValues(nil, text); err == nil {
			again, err := ParseValues(nil, append(AppendValues([]byte{'['}, values), ']'))
			if err != nil || !slices.Equal(again, values) {
				t.Errorf("values %v of %q read back as %v, error %v", values, text, again, err)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	var offsets []int32
	var values []float64
	for i := range 6 {
		offsets, values = append(offsets, int32(i*10_000+417)), append(values, 20+float64(i)/10)
	}
	texts := [2][]byte{append(AppendOffsets([]byte{'['}, offsets), ']'), append(AppendValues([]byte{'['}, values), ']')}
	b.Run(fmt.Sprintf("readings=%d", len(values)), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			offsets, _ = ParseOffsets(offsets[:0], texts[0])
			values, _ = ParseValues(values[:0], texts[1])
		}
	})
}
