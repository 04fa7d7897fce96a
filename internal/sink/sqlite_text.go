package sink

import (
	"bytes"
	"errors"
	"strconv"
)

// The arrays of a bucket are stored as JSON text, for SQLite's json_each and
// every other tool. internal/query reads the same form.

// appendOffsetsJSON appends the text of a JSON array without its brackets.
func appendOffsetsJSON(text []byte, offsets []int32) []byte {
	for i, off := range offsets {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(off), 10)
	}
	return text
}

// appendValuesJSON does the same for values, in the shortest form that reads back
// as the same double.
func appendValuesJSON(text []byte, values []float64) []byte {
	for i, v := range values {
		if i > 0 {
			text = append(text, ',')
		}
		text = appendDoubleJSON(text, v)
	}
	return text
}

// appendDoubleJSON writes 21 as 21.0: without the point json_each would make an
// integer of it, and somebody's average an integer division.
func appendDoubleJSON(text []byte, v float64) []byte {
	begin := len(text)
	text = strconv.AppendFloat(text, v+0, 'g', -1, 64)
	if !bytes.ContainsAny(text[begin:], ".eIN") {
		text = append(text, '.', '0')
	}
	return text
}

var errArray = errors.New("not a JSON array of numbers")

// parseOffsetsJSON appends the elements of a JSON array of integers to offsets.
func parseOffsetsJSON(offsets []int32, text []byte) ([]int32, error) {
	err := eachElement(text, func(elem []byte) error {
		n, err := strconv.ParseInt(string(elem), 10, 32)
		if err == nil {
			offsets = append(offsets, int32(n))
		}
		return err
	})
	return offsets, err
}

// parseValuesJSON appends the elements of a JSON array of numbers to values.
func parseValuesJSON(values []float64, text []byte) ([]float64, error) {
	err := eachElement(text, func(elem []byte) error {
		v, err := strconv.ParseFloat(string(elem), 64)
		if err != nil || v-v != 0 { // NaN or an infinity, which JSON does not have
			return errArray
		}
		values = append(values, v)
		return nil
	})
	return values, err
}

func eachElement(text []byte, yield func(elem []byte) error) error {
	inner, opened := bytes.CutPrefix(text, []byte{'['})
	inner, closed := bytes.CutSuffix(inner, []byte{']'})
	if !opened || !closed {
		return errArray
	}
	for more := len(inner) > 0; more; {
		var elem []byte
		elem, inner, more = bytes.Cut(inner, []byte{','})
		if err := yield(bytes.TrimSpace(elem)); err != nil {
			return errArray
		}
	}
	return nil
}
