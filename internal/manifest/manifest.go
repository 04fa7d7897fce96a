// Package manifest is the record of what a simulated fleet published: each
// reading that must be stored, once. The fleet writes it and verify reads it.
//
// It is NDJSON. The first line is the header, the last the footer, and each
// line between them a reading, in the order of acknowledgement:
//
//	{"manifest":"gudang","version":1,"seed":1,"start":1796547600000,"flags":"-sensors 500"}
//	{"n":1,"s":"S-0001","m":"temperature","t":1796547610000,"v":26.4}
//	{"end":true,"readings":1,"crc":"9a1f0c44e27b6d35"}
//
// n is the number of the message that carried the reading, t is in ms since
// 1970. The footer's checksum (CRC-64, ECMA) is over every byte before it: a
// manifest that was cut short or changed proves nothing, and says so.
package manifest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"math"
	"strconv"
	"sync"

	"gudang/internal/reading"
)

// Version is the format that is written and read.
const Version = 1

const name = "gudang"

// maxLine is the longest line in bytes. A sensor id of 256 bytes that are all
// escaped fits six times.
const maxLine = 16 << 10

// ErrChecksum is returned at the end of a manifest whose lines can be read but
// are not those that were written.
var ErrChecksum = errors.New("the checksum in the footer is of other lines: the manifest was changed")

// Header says where a manifest comes from.
type Header struct {
	Manifest string `json:"manifest"`
	Version  int    `json:"version"`
	Seed     uint64 `json:"seed"`
	Start    int64  `json:"start"`
	Flags    string `json:"flags"`
}

// Entry is a reading that must be stored, and the number of its message.
type Entry struct {
	Seq int64
	reading.Reading
}

type line struct {
	Seq    *int64   `json:"n"`
	Sensor *string  `json:"s"`
	Metric *string  `json:"m"`
	Time   *int64   `json:"t"`
	Value  *float64 `json:"v"`
}

type footer struct {
	End      bool   `json:"end"`
	Readings int64  `json:"readings"`
	CRC      string `json:"crc"`
}

func hex(crc uint64) string { return fmt.Sprintf("%016x", crc) }

func footerLine(readings int64, crc string) string {
	return fmt.Sprintf(`{"end":true,"readings":%d,"crc":"%s"}`+"\n", readings, crc)
}

func table() *crc64.Table { return crc64.MakeTable(crc64.ECMA) }

// Writer writes a manifest. Its methods may be called from any goroutine.
type Writer struct {
	mu       sync.Mutex
	out      *bufio.Writer
	table    *crc64.Table
	crc      uint64
	readings int64
	buf      []byte
	err      error
	closed   bool
}

// NewWriter writes the header. The manifest is whole only after Close.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	h.Manifest, h.Version = name, Version
	head, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("cannot write a manifest: %w", err)
	}
	m := &Writer{out: bufio.NewWriterSize(w, 64<<10), table: table()}
	m.buf = append(head, '\n')
	m.flushLine()
	return m, m.err
}

// Write adds the readings of message number seq. After an error every call
// returns it.
func (m *Writer) Write(seq int64, readings ...reading.Reading) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range readings {
		if math.IsNaN(r.Value) || math.IsInf(r.Value, 0) {
			return fmt.Errorf("BUG: manifest: %v is no value to expect of %s %s", r.Value, r.Sensor, r.Metric)
		}
		b := append(m.buf[:0], `{"n":`...)
		b = strconv.AppendInt(b, seq, 10)
		b = appendString(append(b, `,"s":`...), r.Sensor)
		b = appendString(append(b, `,"m":`...), r.Metric)
		b = strconv.AppendInt(append(b, `,"t":`...), r.Time, 10)
		b = strconv.AppendFloat(append(b, `,"v":`...), r.Value, 'g', -1, 64)
		m.buf = append(b, "}\n"...)
		m.flushLine()
		m.readings++
	}
	return m.err
}

func (m *Writer) flushLine() {
	if m.err != nil {
		return
	}
	m.crc = crc64.Update(m.crc, m.table, m.buf)
	if _, err := m.out.Write(m.buf); err != nil {
		m.err = fmt.Errorf("cannot write a manifest: %w", err)
	}
}

// appendString appends s as JSON. Plain text, which ids are, takes no detour.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string cannot fail
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// Readings is how many were written.
func (m *Writer) Readings() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.readings
}

// Close writes the footer. It does not close what is written to.
func (m *Writer) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.err != nil {
		return m.err
	}
	m.closed = true
	m.buf = append(m.buf[:0], footerLine(m.readings, hex(m.crc))...)
	m.flushLine()
	if m.err == nil {
		if err := m.out.Flush(); err != nil {
			m.err = fmt.Errorf("cannot write a manifest: %w", err)
		}
	}
	return m.err
}

// Read reads a manifest and yields its entries. Errors name the line. A
// manifest without its footer is an error; one that was changed without
// breaking a line is ErrChecksum, after every entry was yielded.
func Read(r io.Reader, yield func(Entry) error) (Header, error) {
	in := bufio.NewReaderSize(r, maxLine)
	tab := table()
	var (
		head     Header
		crc      uint64
		readings int64
		names    = make(map[string]string)
	)
	for n := 1; ; n++ {
		text, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return head, fmt.Errorf("manifest line %d: longer than %d bytes", n, maxLine)
		case errors.Is(err, io.EOF) && n == 1 && len(text) == 0:
			return head, errors.New("manifest: empty")
		case errors.Is(err, io.EOF) && len(text) == 0:
			return head, fmt.Errorf("manifest: ends after line %d without its footer: it was cut short", n-1)
		case errors.Is(err, io.EOF):
			return head, fmt.Errorf("manifest line %d: cut short", n)
		case err != nil:
			return head, fmt.Errorf("cannot read manifest line %d: %w", n, err)
		}
		switch {
		case n == 1:
			if head, err = parseHeader(text); err != nil {
				return head, fmt.Errorf("manifest line 1: %w", err)
			}
		case bytes.HasPrefix(text, []byte(`{"end":`)):
			if err := parseFooter(text, readings, crc); err != nil {
				return head, fmt.Errorf("manifest line %d: %w", n, err)
			}
			if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
				return head, fmt.Errorf("manifest line %d: something stands behind the footer", n+1)
			}
			return head, nil
		default:
			e, err := parseEntry(text, names)
			if err != nil {
				return head, fmt.Errorf("manifest line %d: %w", n, err)
			}
			if err := yield(e); err != nil {
				return head, fmt.Errorf("manifest line %d: %w", n, err)
			}
			readings++
		}
		crc = crc64.Update(crc, tab, text)
	}
}

func parseHeader(text []byte) (Header, error) {
	var h Header
	if err := strict(text, &h); err != nil {
		return h, fmt.Errorf("cannot parse the header: %w", err)
	}
	if h.Manifest != name {
		return h, fmt.Errorf("no manifest: %q stands where %q belongs", h.Manifest, name)
	}
	if h.Version != Version {
		return h, fmt.Errorf("format version %d; this program reads %d", h.Version, Version)
	}
	return h, nil
}

func parseFooter(text []byte, readings int64, crc uint64) error {
	var f footer
	if err := strict(text, &f); err != nil {
		return fmt.Errorf("cannot parse the footer: %w", err)
	}
	if string(text) != footerLine(f.Readings, f.CRC) { // no checksum is over this line
		return errors.New("the footer is not as it was written")
	}
	if f.Readings != readings {
		return fmt.Errorf("the footer counts %d readings, the lines are %d", f.Readings, readings)
	}
	if f.CRC != hex(crc) {
		return ErrChecksum
	}
	return nil
}

// parseEntry reads one line. names holds each sensor and metric once, so that
// ten million entries do not hold twenty million strings.
func parseEntry(text []byte, names map[string]string) (Entry, error) {
	var l line
	if err := strict(text, &l); err != nil {
		return Entry{}, fmt.Errorf("cannot parse a reading: %w", err)
	}
	switch {
	case l.Seq == nil || l.Sensor == nil || l.Metric == nil || l.Time == nil || l.Value == nil:
		return Entry{}, errors.New("a reading needs n, s, m, t and v")
	case *l.Sensor == "" || len(*l.Sensor) > reading.MaxSensorID:
		return Entry{}, fmt.Errorf("sensor id of %d bytes: must be 1 to %d", len(*l.Sensor), reading.MaxSensorID)
	case *l.Metric == "":
		return Entry{}, errors.New("empty metric")
	}
	return Entry{*l.Seq, reading.Reading{
		Series: reading.Series{Sensor: intern(names, *l.Sensor), Metric: intern(names, *l.Metric)}, Time: *l.Time, Value: *l.Value,
	}}, nil
}

func intern(names map[string]string, s string) string {
	if have, ok := names[s]; ok {
		return have
	}
	names[s] = s
	return s
}

// strict parses one JSON value with known fields only.
func strict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if rest := bytes.TrimSpace(text[d.InputOffset():]); len(rest) > 0 {
		return fmt.Errorf("something stands behind it: %.20q", rest)
	}
	return nil
}
