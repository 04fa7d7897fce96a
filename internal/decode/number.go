package decode

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"gudang/internal/reading"
)

// decodeNumber reads a payload that is one plain number, as a topic for each
// metric has it. The metric is the topic's, see topicMetric.
func decodeNumber(d *Decoder) { d.readText(trim(d.msg.Payload)) }

// trim cuts off what senders put around a number: the blanks of dtostrf, the
// line end of println.
func trim(text []byte) []byte {
	for len(text) > 0 && isBlank(text[0]) {
		text = text[1:]
	}
	for len(text) > 0 && isBlank(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	return text
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// readText reads a payload that is one word: a number, or not.
func (d *Decoder) readText(text []byte) {
	if len(text) == 0 {
		d.ignore(reading.EmptyPayload, ReasonText(reading.EmptyPayload))
		return
	}
	f := d.topicMetric()
	v, unit, why := measured(text, f, nil)
	switch {
	case why == reading.InvalidValue && isStatus(text):
		d.ignore(reading.StatusWord, ReasonText(reading.StatusWord))
		return
	case notNumeric(why):
		d.reject(why, notANumber(text, why, "the payload is neither a number nor JSON"))
		return
	}
	if f.role != roleMetric && f.role != roleValue {
		d.reject(reading.NoReading, "the topic names no metric for the number")
		return
	}
	sc := d.newScope()
	d.add(&sc, f, unit, v, why)
}

// measured reads a number that may have its unit behind it, "26.4 °C" or "45%",
// if that is one which f is measured in; it takes the place of a unit that was
// said elsewhere. One that contradicts the key is none.
func measured(text []byte, f *field, unit []byte) (float64, []byte, reading.Reason) {
	v, why := parseNumber(text)
	if why != reading.InvalidValue || f.unit == "" {
		return v, unit, why
	}
	v, rest, ok := leadingNumber(text)
	spelled := bytes.TrimSpace(rest)
	if !ok || len(spelled) == 0 {
		return 0, unit, why
	}
	u := findUnit(f.unit, string(spelled))
	if u == nil && f.kind == "battery" {
		u = findUnit("V", string(spelled))
	}
	if u == nil || f.declared != nil && u != f.declared {
		return 0, unit, why
	}
	return v, spelled, ""
}

// leadingNumber is the number that text begins with, without an exponent, and
// what stands behind it.
func leadingNumber(text []byte) (v float64, rest []byte, ok bool) {
	rest = bytes.TrimLeft(unsigned(text), "0123456789.")
	v, ok = parseDecimal(text[:len(text)-len(rest)])
	return v, rest, ok
}

// parseNumber reads a decimal number as people and devices write it: sign,
// digits, point, exponent. strconv.ParseFloat alone would take "0x1p4",
// "1_000" and "nan" too. Commas are refused, not guessed at: "1,000" is one
// here and a thousand there.
func parseNumber(text []byte) (v float64, why reading.Reason) {
	if v, ok := parseDecimal(text); ok {
		if math.IsInf(v, 0) {
			return 0, reading.OutOfRange // 1e400
		}
		return v, ""
	}
	return 0, whyNoNumber(text)
}

// parseDecimal reads [+-]digits[.digits][e[+-]digits] with at least one digit
// before the exponent. Too large a number is an infinity.
func parseDecimal(text []byte) (v float64, ok bool) {
	i, negative := 0, false
	if i < len(text) && (text[i] == '-' || text[i] == '+') {
		negative = text[i] == '-'
		i++
	}
	var mantissa uint64
	digits, places := 0, 0
	for ; i < len(text) && isDigit(text[i]); i++ {
		mantissa = mantissa*10 + uint64(text[i]-'0')
		digits++
	}
	if i < len(text) && text[i] == '.' {
		for i++; i < len(text) && isDigit(text[i]); i++ {
			mantissa = mantissa*10 + uint64(text[i]-'0')
			digits++
			places++
		}
	}
	if digits == 0 {
		return 0, false
	}
	if i == len(text) && digits <= 15 {
		// Both are exact in a float64, and so the quotient is rounded once:
		// it is the number nearest to the decimal one.
		v = float64(mantissa) / pow10[places]
		if negative {
			v = -v
		}
		return v, true
	}
	if i < len(text) && !isExponent(text[i:]) {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(text), 64)
	return v, err == nil || math.IsInf(v, 0)
}

var pow10 = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

func isExponent(b []byte) bool {
	if b[0] != 'e' && b[0] != 'E' {
		return false
	}
	b = b[1:]
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		b = b[1:]
	}
	return len(b) > 0 && allDigits(b)
}

// isNotFinite says whether the text is a spelling of NaN or an infinity.
func isNotFinite(text []byte) bool {
	return oneOf(unsigned(text), notFinite)
}

// isStatus says whether the text is what a device says when it has no value.
func isStatus(text []byte) bool { return oneOf(text, statusWords) }

func oneOf(text []byte, words []string) bool {
	if len(text) > 16 {
		return false
	}
	for _, w := range words {
		if len(w) == len(text) && strings.EqualFold(w, string(text)) {
			return true
		}
	}
	return false
}
