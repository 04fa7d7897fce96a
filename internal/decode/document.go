package decode

import (
	"bytes"
	"slices"

	"gudang/internal/reading"
)

// document is a JSON text, checked and split into nodes that lie in a slice in
// the order of the text. A message of a few fields takes a few hundred ns,
// where a decoder that builds a map takes microseconds and a dozen
// allocations; and reading it needs no recursion into unknown depths.
//
// It accepts what RFC 8259 does, and refuses what that leaves open: duplicate
// keys, text that is no UTF-8, and nesting deeper than MaxDepth. It accepts
// one thing more: NaN and infinities as C and Python print them, so that one
// failed sensor costs its own value and not its neighbours'.
type document struct {
	buf   []byte // must be valid UTF-8
	text  []byte // strings that had escapes, without them
	nodes []node
	order []int32 // scratch, to sort keys

	members int // of all objects together

	why    reading.Reason // of the failure
	detail string
}

// node is a value. The nodes of an object or array follow it, up to next.
type node struct {
	kind    kind
	escaped uint8 // which of key and val are spans of text and not of buf
	key     span  // empty in an array
	val     span  // of a string: without its quotes
	next    int32 // the node behind this one and all that is in it
}

type kind uint8

const (
	aNull kind = iota
	aBool
	aNumber
	aNotFinite
	aString
	anObject
	anArray
)

const (
	escapedKey = 1 << iota
	escapedVal
)

// parse checks and splits buf, which the document keeps. It reports false, and
// why, if it is no JSON.
func (j *document) parse(buf []byte) bool {
	j.buf, j.text, j.nodes = buf, j.text[:0], j.nodes[:0]
	j.why, j.detail, j.members = "", "", 0
	if most := len(buf)/2 + 1; most > cap(j.nodes) {
		count := bytes.Count(buf, []byte{','}) + bytes.Count(buf, []byte{'['}) + bytes.Count(buf, []byte{'{'}) + 1
		j.nodes = room(j.nodes, min(most, count))
	}
	i := j.space(0)
	if bytes.HasPrefix(buf[i:], []byte("\uFEFF")) {
		j.fail(reading.InvalidJSON, "a byte order mark before the JSON")
		return false
	}
	i = j.value(i, 0, span{}, 0)
	if i < 0 {
		return false
	}
	if i = j.space(i); i < len(buf) {
		j.trailing()
		return false
	}
	return true
}

// room is an empty slice with room for n elements, s if it has it. append would
// copy what a hostile message makes of it several times.
func room[T any](s []T, n int) []T {
	if cap(s) >= n {
		return s[:0]
	}
	return make([]T, 0, n)
}

func (j *document) key(n *node) []byte { return j.span(n.key, n.escaped&escapedKey) }
func (j *document) val(n *node) []byte { return j.span(n.val, n.escaped&escapedVal) }

func (j *document) span(s span, escaped uint8) []byte {
	if escaped != 0 {
		return j.text[s.start:s.end]
	}
	return j.buf[s.start:s.end]
}

// fail notes the failure and returns what the parsing functions return then.
func (j *document) fail(why reading.Reason, detail string) int {
	j.why, j.detail = why, detail
	return -1
}

const cutOff = "the JSON is truncated"

func (j *document) space(i int) int {
	for i < len(j.buf) && isBlank(j.buf[i]) {
		i++
	}
	return i
}

// value parses the value at i and returns the index behind it, or -1.
func (j *document) value(i, depth int, key span, escaped uint8) int {
	if i >= len(j.buf) {
		return j.fail(reading.InvalidJSON, cutOff)
	}
	at := len(j.nodes)
	j.nodes = append(j.nodes, node{key: key, escaped: escaped, next: int32(at + 1)})
	switch c := j.buf[i]; c {
	case '"':
		val, esc, end := j.str(i)
		n := &j.nodes[at]
		n.kind, n.val = aString, val
		if esc {
			n.escaped |= escapedVal
		}
		return end
	case '{', '[':
		if depth == MaxDepth {
			return j.fail(reading.TooDeep, ReasonText(reading.TooDeep))
		}
		var end int
		if c == '{' {
			j.nodes[at].kind = anObject
			end = j.object(i+1, depth+1, at)
		} else {
			j.nodes[at].kind = anArray
			end = j.array(i+1, depth+1)
		}
		j.nodes[at].next = int32(len(j.nodes))
		return end
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if end := j.number(i); end >= 0 {
			j.nodes[at].kind, j.nodes[at].val = aNumber, span{uint32(i), uint32(end)}
			return end
		}
	}
	return j.word(i, at)
}

func (j *document) object(i, depth, at int) int {
	members := 0
	for i = j.space(i); ; i = j.space(i + 1) {
		switch {
		case i >= len(j.buf):
			return j.fail(reading.InvalidJSON, cutOff)
		case j.buf[i] == '}' && members == 0:
			return i + 1
		case j.buf[i] != '"':
			return j.noKey(i)
		}
		key, esc, end := j.str(i)
		if end < 0 {
			return -1
		}
		i = j.space(end)
		if i >= len(j.buf) {
			return j.fail(reading.InvalidJSON, cutOff)
		}
		if j.buf[i] != ':' {
			return j.fail(reading.InvalidJSON, "no colon behind a key of the JSON")
		}
		escaped := uint8(0)
		if esc {
			escaped = escapedKey
		}
		if i = j.value(j.space(i+1), depth, key, escaped); i < 0 {
			return -1
		}
		members++
		j.members++
		i = j.space(i)
		if i >= len(j.buf) {
			return j.fail(reading.InvalidJSON, cutOff)
		}
		if j.buf[i] == '}' {
			if j.duplicateKey(at, members) {
				return j.fail(reading.DuplicateKey, ReasonText(reading.DuplicateKey))
			}
			return i + 1
		}
		if j.buf[i] != ',' {
			return j.noComma(i, "no comma between members of the JSON")
		}
	}
}

func (j *document) array(i, depth int) int {
	i = j.space(i)
	if i < len(j.buf) && j.buf[i] == ']' {
		return i + 1
	}
	for {
		if i = j.value(i, depth, span{}, 0); i < 0 {
			return -1
		}
		i = j.space(i)
		switch {
		case i >= len(j.buf):
			return j.fail(reading.InvalidJSON, cutOff)
		case j.buf[i] == ']':
			return i + 1
		case j.buf[i] != ',':
			return j.noComma(i, "no comma between elements of the JSON")
		}
		i = j.space(i + 1)
	}
}

// fewKeys is up to where comparing each key with each is the fastest way.
const fewKeys = 12

// duplicateKey says whether two members of the object are named alike. Which
// one is meant nobody can know, and parsers differ.
func (j *document) duplicateKey(at, members int) bool {
	end := int32(len(j.nodes))
	if members <= fewKeys {
		for a := int32(at + 1); a < end; a = j.nodes[a].next {
			for b := j.nodes[a].next; b < end; b = j.nodes[b].next {
				if bytes.Equal(j.key(&j.nodes[a]), j.key(&j.nodes[b])) {
					return true
				}
			}
		}
		return false
	}
	j.order = room(j.order, members)
	for a := int32(at + 1); a < end; a = j.nodes[a].next {
		j.order = append(j.order, a)
	}
	compare := func(a, b int32) int { return bytes.Compare(j.key(&j.nodes[a]), j.key(&j.nodes[b])) }
	slices.SortFunc(j.order, compare)
	for i := range j.order[1:] {
		if compare(j.order[i], j.order[i+1]) == 0 {
			return true
		}
	}
	return false
}

// number returns the index behind the number at i, -1 if it is none: RFC 8259,
// section 6.
func (j *document) number(i int) int {
	b := j.buf
	if b[i] == '-' {
		i++
	}
	start := i
	i = j.digits(i)
	if i == start || b[start] == '0' && i > start+1 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		start = i + 1
		if i = j.digits(start); i == start {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '-' || b[i] == '+') {
			i++
		}
		start = i
		if i = j.digits(start); i == start {
			return -1
		}
	}
	return i
}

func (j *document) digits(i int) int {
	for i < len(j.buf) && isDigit(j.buf[i]) {
		i++
	}
	return i
}

// word parses true, false, null and the spellings of numbers that are none.
func (j *document) word(i, at int) int {
	end := i
	for end < len(j.buf) && !bytes.ContainsRune([]byte(" \t\r\n,]}:[{\""), rune(j.buf[end])) && end-i <= 16 {
		end++
	}
	word, n := j.buf[i:end], &j.nodes[at]
	n.val = span{uint32(i), uint32(end)}
	switch string(word) {
	case "null":
		n.kind = aNull
		return end
	case "true", "false":
		n.kind = aBool
		return end
	}
	if isNotFinite(word) {
		n.kind = aNotFinite
		return end
	}
	return j.noValue(word, at)
}
