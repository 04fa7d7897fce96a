package decode

import (
	"unicode/utf8"

	"gudang/internal/reading"
)

// str parses the string at i. Its end is -1 if it is none.
func (j *document) str(i int) (s span, escaped bool, end int) {
	start := i + 1
	for i = start; i < len(j.buf); i++ {
		switch c := j.buf[i]; {
		case c == '"':
			return span{uint32(start), uint32(i)}, false, i + 1
		case c == '\\':
			s, end = j.unescape(start, i)
			return s, true, end
		case c < ' ':
			return span{}, false, j.fail(reading.ControlCharacter, "a string of the JSON holds a control character")
		}
	}
	return span{}, false, j.fail(reading.InvalidJSON, cutOff)
}

// unescape copies the string that began at start and has its first escape at i.
func (j *document) unescape(start, i int) (span, int) {
	from := len(j.text)
	for {
		j.text = append(j.text, j.buf[start:i]...)
		if i >= len(j.buf) {
			return span{}, j.fail(reading.InvalidJSON, cutOff)
		}
		switch c := j.buf[i]; {
		case c == '"':
			return span{uint32(from), uint32(len(j.text))}, i + 1
		case c == '\\':
			if i = j.escape(i + 1); i < 0 {
				return span{}, -1
			}
		case c < ' ':
			return span{}, j.fail(reading.ControlCharacter, "a string of the JSON holds a control character")
		}
		for start = i; i < len(j.buf) && j.buf[i] != '"' && j.buf[i] != '\\' && j.buf[i] >= ' '; i++ {
		}
	}
}

// escape appends the character whose escape has its letter at i.
func (j *document) escape(i int) int {
	if i >= len(j.buf) {
		return j.fail(reading.InvalidJSON, cutOff)
	}
	c := j.buf[i]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return j.escapeUnicode(i + 1)
	default:
		return j.fail(reading.InvalidJSON, "a string of the JSON holds an unknown escape")
	}
	j.text = append(j.text, c)
	return i + 1
}

func (j *document) escapeUnicode(i int) int {
	r, ok := j.hex(i)
	i += 4
	if ok && 0xd800 <= r && r < 0xdc00 && i+2 <= len(j.buf) && j.buf[i] == '\\' && j.buf[i+1] == 'u' {
		var low rune
		if low, ok = j.hex(i + 2); 0xdc00 <= low && low < 0xe000 {
			r = (r-0xd800)<<10 + (low - 0xdc00) + 0x10000
			i += 6
		}
	}
	if !ok {
		return j.fail(reading.InvalidJSON, "a string of the JSON holds a broken escape")
	}
	if 0xd800 <= r && r < 0xe000 { // half of a pair: no text can hold it
		return j.fail(reading.InvalidUTF8, "a string of the JSON holds half of a surrogate pair")
	}
	j.text = utf8.AppendRune(j.text, r)
	return i
}

func (j *document) hex(i int) (r rune, ok bool) {
	if i+4 > len(j.buf) {
		return 0, false
	}
	for _, c := range j.buf[i : i+4] {
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
