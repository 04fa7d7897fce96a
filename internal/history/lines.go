package history

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// lines gives the lines of a text.
type lines struct {
	in  *bufio.Reader
	n   int64
	buf []byte
}

// next is the next line without its end, valid until the next call. Of one
// that is too long whole is false, and it is passed over.
func (l *lines) next() (line []byte, whole bool, err error) {
	l.buf, whole = l.buf[:0], true
	for {
		part, err := l.in.ReadSlice('\n')
		if len(l.buf)+len(part) > maxLine+2 {
			whole = false
		}
		if whole {
			l.buf = append(l.buf, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (len(l.buf) > 0 || !whole):
			l.n++
			return bytes.TrimRight(l.buf, "\r\n"), whole, nil
		case err != nil:
			return nil, false, err
		}
		l.n++
		return bytes.TrimRight(l.buf, "\r\n"), whole, nil
	}
}

// separator is what separates the columns of a header: the one of the usual
// ones that occurs most.
func separator(header []byte) byte {
	best, most := byte(','), 0
	for _, sep := range []byte(",;\t|") {
		if n := bytes.Count(header, []byte{sep}); n > most {
			best, most = sep, n
		}
	}
	return best
}

// split takes a line of CSV (RFC 4180) apart into cells, which are parts of it:
// a quote within a quoted cell is two in the line, and is made one in place. A
// cell does not go on in the next line, since nothing that is stored has a
// line break in it. It reports false if a quote is not closed.
func split(line []byte, sep byte, cells [][]byte) ([][]byte, bool) {
	for {
		if len(line) == 0 || line[0] != '"' {
			cell, rest, more := bytes.Cut(line, []byte{sep})
			cells = append(cells, cell)
			if !more {
				return cells, true
			}
			line = rest
			continue
		}
		cell, rest, ok := quoted(line[1:])
		if !ok || len(rest) > 0 && rest[0] != sep {
			return cells, false
		}
		cells = append(cells, cell)
		if len(rest) == 0 {
			return cells, true
		}
		line = rest[1:]
	}
}

// quoted reads up to the closing quote, and what follows it.
func quoted(text []byte) (cell, rest []byte, ok bool) {
	n := 0
	for i := 0; i < len(text); i++ {
		if text[i] == '"' {
			if i+1 == len(text) || text[i+1] != '"' {
				return text[:n], text[i+1:], true
			}
			i++
		}
		text[n] = text[i]
		n++
	}
	return nil, nil, false
}
