// Package history reads files of readings: CSV with a header, or JSON by the
// line. What is wrong with a line costs that line, and memory does not depend
// on the size of the file.
package history

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"gudang/internal/decode"
	"gudang/internal/reading"
)

// maxLine is the longest line in bytes. An answer of the API with all the
// readings that one may have is half as long.
const maxLine = 8 << 20

// Reader gives the readings of a file. It is for one goroutine.
type Reader struct {
	rows    *decode.Rows
	lines   lines
	json    bool
	sep     byte
	header  []string
	columns []decode.Column
	cells   [][]byte
}

// NewReader finds out what the content is, by its beginning: compressed or
// not, JSON or a table, and what the columns of the table are for.
func NewReader(in io.Reader, cfg decode.RowsConfig) (*Reader, error) {
	rows, err := decode.NewRows(cfg)
	if err != nil {
		return nil, err
	}
	buffered := bufio.NewReaderSize(in, 64<<10)
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		zipped, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("cannot uncompress the content: %w", err)
		}
		buffered = bufio.NewReaderSize(zipped, 64<<10)
	}
	r := &Reader{rows: rows, lines: lines{in: buffered}}
	return r, r.begin()
}

var bom = []byte("\uFEFF")

// begin reads the header, if there is one.
func (r *Reader) begin() error {
	if start, _ := r.lines.in.Peek(len(bom)); bytes.Equal(start, bom) {
		if _, err := r.lines.in.Discard(len(bom)); err != nil {
			return err
		}
	}
	for {
		start, err := r.lines.in.Peek(1)
		if errors.Is(err, io.EOF) {
			return errors.New("cannot read the content: there is nothing in it")
		}
		if err != nil {
			return fmt.Errorf("cannot read the content: %w", err)
		}
		if start[0] == '{' || start[0] == '[' {
			r.json = true
			return nil
		}
		line, _, err := r.lines.next()
		if err != nil {
			return fmt.Errorf("cannot read the header of the table: %w", err)
		}
		// Some programs write lines of their own ahead of the header.
		if len(bytes.TrimSpace(line)) > 0 && line[0] != '#' {
			return r.readHeader(line)
		}
	}
}

func (r *Reader) readHeader(line []byte) error {
	if !utf8.Valid(line) {
		return errors.New("cannot read the content: its first line is no UTF-8 text")
	}
	r.sep = separator(line)
	cells, ok := split(line, r.sep, nil)
	if !ok {
		return errors.New("cannot read the header of the table: a quote is not closed")
	}
	for _, cell := range cells {
		r.header = append(r.header, strings.TrimSpace(string(cell)))
	}
	var err error
	r.columns, err = r.rows.Columns(r.header)
	return err
}

// Format says what the content is, for people.
func (r *Reader) Format() string {
	if r.json {
		return "JSON, a line each"
	}
	uses := make([]string, len(r.header))
	for i, name := range r.header {
		if uses[i] = r.columns[i].Use(); uses[i] != name {
			uses[i] = name + " (" + uses[i] + ")"
		}
	}
	return fmt.Sprintf("a table, columns separated by %q: %s", r.sep, strings.Join(uses, ", "))
}

// Next reads a line into out, which it clears first, and gives its number. At
// the end it answers io.EOF.
func (r *Reader) Next(out *decode.RowsResult) (line int64, err error) {
	*out = decode.RowsResult{Readings: out.Readings[:0], Faults: out.Faults[:0]}
	for {
		text, whole, err := r.lines.next()
		if err != nil {
			return r.lines.n, err
		}
		switch {
		case !whole:
			out.Faults = append(out.Faults, decode.Fault{Reason: reading.TooLarge, Detail: fmt.Sprintf("the line is longer than %d bytes", maxLine)})
		case len(bytes.TrimSpace(text)) == 0:
			continue
		case r.json:
			r.rows.JSON(text, out)
		default:
			r.row(text, out)
		}
		return r.lines.n, nil
	}
}

func (r *Reader) row(text []byte, out *decode.RowsResult) {
	var ok bool
	if r.cells, ok = split(text, r.sep, r.cells[:0]); !ok {
		out.Faults = append(out.Faults, decode.Fault{Reason: reading.InvalidValue, Detail: "a quote is not closed, or something follows one"})
		return
	}
	r.rows.Row(r.columns, r.cells, out)
}
