package decode

import (
	"bytes"
	"errors"
	"strconv"

	"gudang/internal/reading"
)

// whyNoNumber says what a text is that parseDecimal does not take, so that who
// has to mend the sender reads it off the counter.
func whyNoNumber(text []byte) reading.Reason {
	switch {
	case isNotFinite(text):
		return reading.NotFinite
	case oneOf(text, booleans):
		return reading.Boolean
	case grouped(text):
		return reading.ThousandsSeparator
	case decimalComma(text):
		return reading.DecimalComma
	case goNumber(text):
		return reading.NumberSyntax
	case hasControl(text):
		return reading.ControlCharacter
	}
	return reading.InvalidValue
}

// notNumeric says whether a text with that reason is no number of any kind.
// What is not finite or out of range is one, of a metric that can be named.
func notNumeric(why reading.Reason) bool {
	return why != "" && why != reading.NotFinite && why != reading.OutOfRange
}

// notANumber says the same as the reason in words, as closely as it can.
func notANumber(text []byte, why reading.Reason, otherwise string) string {
	switch {
	case why != reading.InvalidValue:
		return ReasonText(why)
	case string(text) == "null":
		return "null is no number"
	}
	return otherwise
}

// numberLike says whether a text among others that may stand there is meant as
// a number: it is one, is written as one elsewhere, or has its unit behind it.
// 2026.3.1, 12:30 and 255,0,0 are other things.
func numberLike(text []byte) bool {
	if _, ok := parseDecimal(text); ok {
		return true
	}
	switch whyNoNumber(text) {
	case reading.DecimalComma, reading.ThousandsSeparator, reading.NumberSyntax:
		return true
	case reading.InvalidValue, reading.ControlCharacter:
	default:
		return false
	}
	_, rest, ok := leadingNumber(text)
	const longestUnit = 8
	return ok && len(rest) <= longestUnit && !bytes.ContainsAny(rest, "0123456789")
}

var booleans = []string{"true", "false"}

func unsigned(text []byte) []byte {
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		return text[1:]
	}
	return text
}

// longestNumber is up to how many bytes a text that is no number may be one
// that was written in another way.
const longestNumber = 64

// decimalComma says whether text is a number but for a comma in place of its
// point.
func decimalComma(text []byte) bool {
	text = unsigned(text)
	i := bytes.IndexByte(text, ',')
	if i < 0 || len(text) > longestNumber || len(text) == 1 || !allDigits(text[:i]) {
		return false
	}
	fraction := text[i+1:]
	digits := 0
	for digits < len(fraction) && isDigit(fraction[digits]) {
		digits++
	}
	return digits == len(fraction) || digits > 0 && isExponent(fraction[digits:])
}

// grouped says whether the digits of a number come in groups of three, as
// people and locales write thousands: 1,008.31, 1.008,31, 1 008.31, 1'008. So
// may be 1,008 alone: if it is not, the comma is a decimal one, and the advice
// to send a point and digits is the same.
func grouped(text []byte) bool {
	text = unsigned(text)
	if len(text) > longestNumber {
		return false
	}
	first := 0
	for first < len(text) && isDigit(text[first]) {
		first++
	}
	if first == 0 || first > 3 || text[0] == '0' || first == len(text) {
		return false
	}
	separator, rest := groupSeparator(text[first:]), text[first:]
	groups := 0
	for separator != "" && len(rest) >= len(separator)+3 && string(rest[:len(separator)]) == separator && allDigits(rest[len(separator):len(separator)+3]) {
		rest = rest[len(separator)+3:]
		groups++
	}
	switch {
	case groups == 0 || len(rest) > 0 && isDigit(rest[0]):
		return false
	case separator == ".": // 1.008 is a number, 1.008.310 might be a version
		return len(rest) > 1 && rest[0] == ',' && allDigits(rest[1:])
	}
	return len(rest) == 0 || rest[0] == '.' && allDigits(rest[1:]) || rest[0] == ',' && separator != "," && allDigits(rest[1:])
}

// groupSeparator is what separates thousands at the beginning of b, empty if
// nothing does.
func groupSeparator(b []byte) string {
	for _, s := range []string{",", ".", " ", "'", "\u00a0", "\u202f", "\u2019"} {
		if bytes.HasPrefix(b, []byte(s)) {
			return s
		}
	}
	return ""
}

// goNumber says whether strconv would take the text: hexadecimal, octal and
// binary numbers, and underscores between digits.
func goNumber(text []byte) bool {
	if digits := unsigned(text); len(digits) == 0 || len(digits) > longestNumber || !isDigit(digits[0]) {
		return false
	}
	if _, err := strconv.ParseInt(string(text), 0, 64); !isSyntaxError(err) {
		return true
	}
	_, err := strconv.ParseFloat(string(text), 64)
	return !isSyntaxError(err)
}

func isSyntaxError(err error) bool { return errors.Is(err, strconv.ErrSyntax) }
