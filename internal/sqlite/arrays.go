// Package sqlite is what the sink and the query side share of the embedded
// store: the arrays of a bucket, which are JSON text, for SQLite's json_each
// and every other tool.
package sqlite

import (
	"bytes"
	"errors"
	"strconv"
)

// AppendOffsets appends the text of a JSON array without its brackets.
func AppendOffsets(text []byte, offsets []int32) []byte {
	for i, off := range offsets {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(off), 10)
	}
	return text
}

// AppendValues does the same for values, in the shortest form that reads back
// as the same double.
func AppendValues(text []byte, values []float64) []byte {
	for i, v := range values {
		if i > 0 {
			text = append(text, ',')
		}
		text = AppendDouble(text, v)
	}
	return text
}

// AppendDouble writes 21 as 21.0: without the point json_each would make an
// integer of it, and somebody's average an integer division.
func AppendDouble(text []byte, v float64) []byte {
	begin := len(text)
	text = strconv.AppendFloat(text, v+0, 'g', -1, 64)
	if !bytes.ContainsAny(text[begin:], ".eIN") {
		text = append(text, '.', '0')
	}
	return text
}

// ErrArray is what is wrong with a text that is no array of numbers. What was
// read up to there is given all the same.
var ErrArray = errors.New("not a JSON array of numbers")

// ParseOffsets appends the elements of a JSON array of integers to offsets.
func ParseOffsets(offsets []int32, text []byte) ([]int32, error) {
	err := each(text, func(elem []byte) bool {
		n, digits, point := short(elem)
		if digits == 0 || point >= 0 || digits > 9 {
			long, err := strconv.ParseInt(string(elem), 10, 32)
			if err != nil {
				return false
			}
			n = long
		}
		offsets = append(offsets, int32(n))
		return true
	})
	return offsets, err
}

// ParseValues appends the elements of a JSON array of numbers to values. NaN
// and infinities, which JSON does not have, are none.
func ParseValues(values []float64, text []byte) ([]float64, error) {
	err := each(text, func(elem []byte) bool {
		n, digits, point := short(elem)
		v := float64(n)
		switch {
		case digits == 0 || n == 0:
			long, err := strconv.ParseFloat(string(elem), 64)
			if err != nil || long-long != 0 {
				return false
			}
			v = long
		case point > 0:
			v /= tens[point]
		}
		values = append(values, v)
		return true
	})
	return values, err
}

// mostDigits is how many digits always fit into the mantissa of a double, so
// that a division by a power of ten, which is exact as well, gives the double
// that is nearest to what is written.
const mostDigits = 15

var tens = [mostDigits + 1]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// short reads a number of the usual kind: a sign, at most 15 digits, and a point
// among them, behind which so many stand (-1: there is none). Of every other
// it says that it has no digits.
func short(elem []byte) (n int64, digits, point int) {
	point = -1
	rest, negative := elem, false
	if len(rest) > 0 && rest[0] == '-' {
		rest, negative = rest[1:], true
	}
	for i, c := range rest {
		switch {
		case c >= '0' && c <= '9':
			n = 10*n + int64(c-'0')
			digits++
		case c == '.' && point < 0 && i > 0:
			point = digits
		default:
			return 0, 0, -1
		}
		if digits > mostDigits {
			return 0, 0, -1
		}
	}
	if point >= 0 {
		point = digits - point
	}
	if negative {
		n = -n
	}
	return n, digits, point
}

// each calls yield for each element of a flat JSON array.
func each(text []byte, yield func(elem []byte) bool) error {
	inner, opened := bytes.CutPrefix(text, []byte{'['})
	inner, closed := bytes.CutSuffix(inner, []byte{']'})
	if !opened || !closed {
		return ErrArray
	}
	for from, more := 0, len(inner) > 0; more; {
		to := from
		for to < len(inner) && inner[to] != ',' {
			to++
		}
		elem := inner[from:to]
		if len(elem) > 0 && (elem[0] <= ' ' || elem[len(elem)-1] <= ' ') {
			elem = bytes.TrimSpace(elem)
		}
		if !yield(elem) {
			return ErrArray
		}
		from, more = to+1, to < len(inner)
	}
	return nil
}
