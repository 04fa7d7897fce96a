package journal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"hash/maphash"
	"math"

	"gudang/internal/reading"
)

// A group is what is written, and believed or not, as one: FORMAT.md has the
// layout. A header of fixed size says how long the body is, and has a checksum
// of its own, so that a search for the next group behind damage checks no body
// in vain.

// magic begins a group. Its first byte is in no UTF-8 text, so no sensor id
// can pretend to be a group; its last is the version of the format.
const magic = "\xffGJ\x01"

const headerSize = 28

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type header struct {
	length uint32 // of the body
	first  uint64 // number of the first message
	count  uint32 // of messages
	sum    uint32 // CRC-32C of the body
}

// end is the number of the first message behind the group.
func (h header) end() uint64 { return h.first + uint64(h.count) }

func (h header) put(b []byte) {
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[4:], h.length)
	binary.LittleEndian.PutUint64(b[8:], h.first)
	binary.LittleEndian.PutUint32(b[16:], h.count)
	binary.LittleEndian.PutUint32(b[20:], h.sum)
	binary.LittleEndian.PutUint32(b[24:], crc32.Checksum(b[:24], castagnoli))
}

func parseHeader(b []byte) (h header, ok bool) {
	if string(b[:4]) != magic || binary.LittleEndian.Uint32(b[24:]) != crc32.Checksum(b[:24], castagnoli) {
		return h, false
	}
	h = header{
		length: binary.LittleEndian.Uint32(b[4:]),
		first:  binary.LittleEndian.Uint64(b[8:]),
		count:  binary.LittleEndian.Uint32(b[16:]),
		sum:    binary.LittleEndian.Uint32(b[20:]),
	}
	return h, h.count > 0 && h.end() > h.first
}

// Within a body every number is a varint, a difference a zigzag varint. Each
// time is written as its difference from the one before it in the group. A
// series is written out once and is a number from then on.

// encoder appends groups to buf.
type encoder struct {
	buf    []byte
	start  int // where the open group begins
	first  uint64
	count  uint32
	time   int64  // of the last reading
	sensor string // that was written out last
	seed   maphash.Seed
	series dictionary[reading.Series]
	metric dictionary[string]
}

func newEncoder() *encoder {
	return &encoder{seed: maphash.MakeSeed(), series: newDictionary[reading.Series](1 << 13), metric: newDictionary[string](1 << 8)}
}

// begin opens a group whose first message has that number.
func (e *encoder) begin(first uint64) {
	e.start, e.first, e.count, e.time, e.sensor = len(e.buf), first, 0, 0, ""
	e.series.reset()
	e.metric.reset()
	e.buf = append(e.buf, make([]byte, headerSize)...)
}

// size is how long the open group is.
func (e *encoder) size() int { return len(e.buf) - e.start }

// add puts a message into the open group.
func (e *encoder) add(d *reading.Delivery, readings []reading.Reading) {
	e.count++
	head := uint64(len(readings)) << 1
	if d.Hash == 0 {
		e.buf = binary.AppendUvarint(e.buf, head)
	} else {
		e.buf = binary.AppendUvarint(e.buf, head|1)
		e.buf = binary.LittleEndian.AppendUint16(e.buf, d.ID)
		e.buf = binary.LittleEndian.AppendUint64(e.buf, d.Hash)
		e.buf = binary.AppendVarint(e.buf, d.Stamp-e.time)
		e.time = d.Stamp
	}
	for i := range readings {
		r := &readings[i]
		e.putSeries(&r.Series)
		e.buf = binary.AppendVarint(e.buf, r.Time-e.time)
		e.time = r.Time
		e.buf = binary.LittleEndian.AppendUint64(e.buf, math.Float64bits(r.Value))
	}
}

func (e *encoder) putSeries(s *reading.Series) {
	metric := maphash.String(e.seed, s.Metric)
	ref := e.series.find(maphash.String(e.seed, s.Sensor)^metric<<1, *s)
	e.buf = binary.AppendUvarint(e.buf, ref)
	if ref != 0 {
		return
	}
	shared, most := 0, min(len(s.Sensor), len(e.sensor), math.MaxUint8)
	for shared < most && s.Sensor[shared] == e.sensor[shared] {
		shared++
	}
	e.sensor = s.Sensor
	e.buf = append(e.buf, byte(shared))
	e.buf = binary.AppendUvarint(e.buf, uint64(len(s.Sensor)-shared))
	e.buf = append(e.buf, s.Sensor[shared:]...)
	ref = e.metric.find(metric, s.Metric)
	e.buf = binary.AppendUvarint(e.buf, ref)
	if ref == 0 {
		e.buf = binary.AppendUvarint(e.buf, uint64(len(s.Metric)))
		e.buf = append(e.buf, s.Metric...)
	}
}

// finish closes the open group.
func (e *encoder) finish() {
	body := e.buf[e.start+headerSize:]
	header{uint32(len(body)), e.first, e.count, crc32.Checksum(body, castagnoli)}.put(e.buf[e.start:])
}

// dictionary numbers what was written out in a group, from 1. A slot that two
// share costs bytes, nothing else: the one that comes again is written out
// again, and has two numbers.
type dictionary[T comparable] struct {
	slots []slot
	round uint32 // a slot of another round is empty
	items []T
}

type slot struct{ round, item uint32 }

func newDictionary[T comparable](slots int) dictionary[T] {
	return dictionary[T]{slots: make([]slot, slots)}
}

func (d *dictionary[T]) reset() {
	if d.round++; d.round == 0 {
		clear(d.slots)
		d.round = 1
	}
	clear(d.items)
	d.items = d.items[:0]
}

// find is the number of v, or 0: then it has one from now on.
func (d *dictionary[T]) find(hash uint64, v T) uint64 {
	s := &d.slots[hash&uint64(len(d.slots)-1)]
	if s.round == d.round && d.items[s.item] == v {
		return uint64(s.item) + 1
	}
	*s = slot{d.round, uint32(len(d.items))}
	d.items = append(d.items, v)
	return 0
}

// Stamp says which time a message without a time of its own was given.
type Stamp struct {
	ID   uint16 // its MQTT packet identifier
	Hash uint64
	Time int64
}

// decoder reads bodies of groups. It keeps the names that it has met, within
// bounds, so that a series costs memory once.
type decoder struct {
	series []reading.Series
	metric []string
	sensor []byte
	names  map[string]string
}

const maxNames = 1 << 16

var errBody = errors.New("body of a group is malformed")

// decode appends the messages of a body but the first skip ones to into, and
// calls stamp, if any, for each that has one. What it refuses leaves into as
// it was.
func (d *decoder) decode(body []byte, count uint32, skip uint64, into *reading.Batch, stamp func(Stamp)) error {
	deliveries, readings := len(into.Deliveries), len(into.Readings)
	d.series, d.metric, d.sensor = d.series[:0], d.metric[:0], d.sensor[:0]
	in, time := input{b: body}, int64(0)
	for range count {
		head := in.uvarint()
		n := head >> 1
		if n > uint64(len(in.b))/minReading {
			in.bad = true
			break
		}
		if head&1 != 0 {
			s := Stamp{ID: uint16(in.fixed(2)), Hash: in.fixed(8)}
			time += in.varint()
			s.Time = time
			if stamp != nil && !in.bad {
				stamp(s)
			}
		}
		for range n {
			r := reading.Reading{Series: d.getSeries(&in)}
			time += in.varint()
			r.Time, r.Value = time, math.Float64frombits(in.fixed(8))
			if skip == 0 {
				into.Readings = append(into.Readings, r)
			}
		}
		if in.bad {
			break
		}
		if skip > 0 {
			skip--
			continue
		}
		into.Deliveries = append(into.Deliveries, reading.Delivery{Readings: int(n)})
	}
	if in.bad || len(in.b) > 0 {
		into.Deliveries, into.Readings = into.Deliveries[:deliveries], into.Readings[:readings]
		return errBody
	}
	return nil
}

// minReading is the shortest that a reading can be written.
const minReading = 10

func (d *decoder) getSeries(in *input) reading.Series {
	ref := in.uvarint()
	if ref > 0 {
		if ref > uint64(len(d.series)) {
			in.bad = true
			return reading.Series{}
		}
		return d.series[ref-1]
	}
	shared := in.fixed(1)
	rest := in.bytes(in.uvarint())
	if shared > uint64(len(d.sensor)) {
		in.bad = true
		return reading.Series{}
	}
	d.sensor = append(d.sensor[:shared], rest...)
	s := reading.Series{Sensor: d.name(d.sensor)}
	switch ref = in.uvarint(); {
	case ref == 0:
		d.metric = append(d.metric, d.name(in.bytes(in.uvarint())))
		s.Metric = d.metric[len(d.metric)-1]
	case ref <= uint64(len(d.metric)):
		s.Metric = d.metric[ref-1]
	default:
		in.bad = true
	}
	d.series = append(d.series, s)
	return s
}

func (d *decoder) name(b []byte) string {
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	if d.names == nil || len(d.names) >= maxNames {
		d.names = make(map[string]string)
	}
	s := string(b)
	d.names[s] = s
	return s
}

// input is read from the front. What is not there is zero, and makes it bad.
type input struct {
	b   []byte
	bad bool
}

func (in *input) uvarint() uint64 {
	v, n := binary.Uvarint(in.b)
	if n <= 0 {
		in.b, in.bad = nil, true
		return 0
	}
	in.b = in.b[n:]
	return v
}

func (in *input) varint() int64 {
	v := in.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (in *input) bytes(n uint64) []byte {
	if n > uint64(len(in.b)) {
		in.b, in.bad = nil, true
		return nil
	}
	b := in.b[:n]
	in.b = in.b[n:]
	return b
}

// fixed is an unsigned number of n bytes.
func (in *input) fixed(n uint64) (v uint64) {
	for i, b := range in.bytes(n) {
		v |= uint64(b) << (8 * i)
	}
	return v
}
