package decode

import (
	"bytes"

	"gudang/internal/reading"
)

// This file finds out why a document is broken, of the mistakes that senders
// make with numbers.

// trailing is the failure of a document that has something behind it.
func (j *document) trailing() {
	if j.nodes[0].kind == aNumber {
		if why := whyNoNumber(trim(j.buf)); why == reading.DecimalComma || why == reading.ThousandsSeparator || why == reading.NumberSyntax {
			j.fail(why, ReasonText(why))
			return
		}
	}
	j.fail(reading.TrailingData, "something follows the JSON")
}

// noKey is the failure of an object that has no key at i. Behind a number and a
// comma it may be the rest of that number: {"temperature": 26,4}.
func (j *document) noKey(i int) int {
	last := &j.nodes[len(j.nodes)-1]
	if last.kind == aNumber && isDigit(j.buf[i]) && int(last.val.end)+1 == i {
		end := i
		for end < len(j.buf) && bytes.IndexByte([]byte("0123456789.,"), j.buf[end]) >= 0 {
			end++
		}
		number := bytes.TrimSuffix(j.buf[last.val.start:end], []byte{','})
		if why := whyNoNumber(number); why == reading.DecimalComma || why == reading.ThousandsSeparator {
			return j.fail(why, ReasonText(why))
		}
	}
	return j.fail(reading.InvalidJSON, "a key of the JSON is no string")
}

// noComma is the failure of an object or array that goes on at i where it should
// not. Behind a number it may be the rest of that number: 0x1A, 1_000.
func (j *document) noComma(i int, detail string) int {
	if last := &j.nodes[len(j.nodes)-1]; last.kind == aNumber && int(last.val.end) == i {
		end := i
		for end < len(j.buf) && bytes.IndexByte([]byte(" \t\r\n,]}"), j.buf[end]) < 0 && end-i <= longestNumber {
			end++
		}
		if goNumber(j.buf[last.val.start:end]) {
			return j.fail(reading.NumberSyntax, ReasonText(reading.NumberSyntax))
		}
	}
	return j.fail(reading.InvalidJSON, detail)
}

// noValue is the failure of the word at a node that is no value. What an object
// or array ends with is cut off rather: {"temperature": 26.
func (j *document) noValue(word []byte, at int) int {
	cut := at > 0 && int(j.nodes[at].val.end) == len(j.buf)
	if _, ok := parseDecimal(word); !cut && (ok || whyNoNumber(word) == reading.NumberSyntax) {
		return j.fail(reading.NumberSyntax, ReasonText(reading.NumberSyntax))
	}
	return j.fail(reading.InvalidJSON, "a value of the JSON is neither number nor text")
}
