// Package decode turns a message into readings, or says why not. It is pure:
// no IO, no clock but the receive time it is given.
package decode

import (
	"fmt"
	"time"
	"unicode/utf8"

	"gudang/internal/reading"
)

// Message is what arrived.
type Message struct {
	Topic    string
	Payload  []byte // not kept
	Retained bool
	Received int64 // ms since 1970, UTC
}

// Value is a reading and where it came from.
type Value struct {
	reading.Reading
	Unit        string // canonical unit of a known metric, else as declared, else empty
	FromPayload bool   // the time is the payload's own, not the receive time

	key   string  // what named the metric, for Explain
	given float64 // the value as it was sent
}

// Dropped is a metric that was left out of a message that is otherwise good.
type Dropped struct {
	Metric string
	Reason reading.Reason

	given float64 // the value as it was sent, for Explain
}

// Result is what became of a message. It is reused: its slices are
// overwritten by the next Decode.
//
// A rejected message lists its metrics in Dropped too, when it got that far,
// so that a person can see each; its Reason is the first one's and is what is
// counted.
type Result struct {
	Outcome  reading.Outcome // Pending: has Values; else Ignored or Rejected
	Reason   reading.Reason  // why it is ignored or rejected
	Detail   string          // the same in words, for logs and the parse command
	Values   []Value
	Dropped  []Dropped
	BadClock bool // the payload has a time that is not believed: the receive time was used
}

// Config is what decoding depends on.
type Config struct {
	Topics      []string       // MQTT_TOPICS entries: template, template=decoder
	Zone        *time.Location // of times without one; nil: UTC
	ClockAhead  time.Duration  // how far from the receive time a payload's may be
	ClockBehind time.Duration
	Ranges      map[string][2]float64 // adds to and overrides the built-in table
	MaxPayload  int                   // bytes; 0: the default
}

// Limits on one message. Each is far above what a sensor sends, and low enough
// that a message at the limit costs milliseconds and a few MB.
const (
	DefaultMaxPayload = 256 << 10
	MaxDepth          = 32    // of JSON
	MaxReadings       = 10000 // in one message

	maxPacket = 256 << 20 // MQTT 3.1.1, section 2.2.3: no message is larger
)

// Decoder decodes messages. It remembers the names that it has met, so that a
// message of a known sensor costs no allocation, and what Sparkplug's nodes
// have said of their metrics; that makes it a tool for one goroutine. Clone
// makes one for another, which has seen no message.
type Decoder struct {
	routes  []*route
	names   *names
	clock   clock
	maxSize int
	sensors interner // valid ids only
	words   interner
	births  births

	// The rest belongs to the message in hand, and is kept for its memory.
	msg     Message
	out     *Result
	topic   captures
	doc     document
	fields  []*field // of the document's nodes, nil where it was not read
	found   []candidate
	scopes  int32
	seen    map[identity]int32
	owners  map[owner]int32
	probes  map[int32]struct{}
	scratch []byte
}

// New checks cfg and makes a decoder for it.
func New(cfg Config) (*Decoder, error) {
	routes, err := parseRoutes(cfg.Topics)
	if err != nil {
		return nil, err
	}
	names, err := newNames(cfg.Ranges)
	if err != nil {
		return nil, err
	}
	clock, err := newClock(cfg.Zone, cfg.ClockAhead, cfg.ClockBehind)
	if err != nil {
		return nil, err
	}
	if cfg.MaxPayload < 0 || cfg.MaxPayload > maxPacket {
		return nil, fmt.Errorf("payload limit %d: must be from 0 to %d bytes", cfg.MaxPayload, maxPacket)
	}
	d := &Decoder{routes: routes, names: names, clock: clock, maxSize: cfg.MaxPayload}
	if d.maxSize == 0 {
		d.maxSize = DefaultMaxPayload
	}
	return d, nil
}

// Clone is a decoder of the same configuration for another goroutine.
func (d *Decoder) Clone() *Decoder {
	return &Decoder{routes: d.routes, names: d.names.clone(), clock: d.clock, maxSize: d.maxSize}
}

// Decode says in out what became of m. It keeps nothing of m.Payload.
func (d *Decoder) Decode(m Message, out *Result) {
	*out = Result{Values: out.Values[:0], Dropped: out.Dropped[:0]}
	d.msg, d.out = m, out
	d.found, d.scopes = d.found[:0], 0
	defer d.survive(out)
	d.decode()
	d.msg, d.out, d.doc.buf = Message{}, nil, nil
}

// survive refuses a message that hit a fault of ours. It must not end the
// program: the broker would send it again, and end that of the next start.
func (d *Decoder) survive(out *Result) {
	fault := recover()
	if fault == nil {
		return
	}
	*d = *d.Clone() // whatever state this one was left in
	*out = Result{
		Values: out.Values[:0], Dropped: out.Dropped[:0],
		Outcome: reading.Rejected, Reason: reading.DecoderFault, Detail: fmt.Sprintf("%s: %v", ReasonText(reading.DecoderFault), fault),
	}
}

func (d *Decoder) decode() {
	r := d.match(d.msg.Topic)
	switch {
	case r == nil:
		d.ignore(reading.NotSelected, "no MQTT_TOPICS entry matches the topic")
	case !utf8.ValidString(d.msg.Topic):
		d.reject(reading.InvalidUTF8, "the topic is not UTF-8 text")
	case len(d.msg.Payload) == 0:
		d.ignore(reading.EmptyPayload, ReasonText(reading.EmptyPayload))
	case len(d.msg.Payload) > d.maxSize:
		d.reject(reading.TooLarge, ReasonText(reading.TooLarge))
	case !r.format.binary && !utf8.Valid(d.msg.Payload):
		d.reject(reading.InvalidUTF8, "the payload is not UTF-8 text")
	default:
		r.format.decode(d)
		if d.out.Outcome == reading.Pending {
			d.settle()
		}
	}
}

// ignore ends the message as one that is no reading and need not be one.
func (d *Decoder) ignore(why reading.Reason, detail string) {
	d.end(reading.Ignored, why, detail)
	d.out.Dropped = d.out.Dropped[:0]
}

// reject ends the message as one that could not be understood.
func (d *Decoder) reject(why reading.Reason, detail string) {
	d.end(reading.Rejected, why, detail)
}

func (d *Decoder) end(o reading.Outcome, why reading.Reason, detail string) {
	d.out.Outcome, d.out.Reason, d.out.Detail = o, why, detail
	d.out.Values = d.out.Values[:0]
}

// interner keeps one copy of each text that it is given, so that a reading of
// a known sensor allocates nothing. It is emptied when it is full: a flood of
// new names then costs allocations, not memory.
type interner struct {
	texts map[string]string
	bytes int
}

const (
	internTexts = 1 << 17
	internBytes = 8 << 20
)

func (in *interner) get(text []byte) string {
	if s, ok := in.texts[string(text)]; ok {
		return s
	}
	return in.add(string(text))
}

func (in *interner) add(s string) string {
	if in.texts == nil || len(in.texts) >= internTexts || in.bytes >= internBytes {
		in.texts, in.bytes = make(map[string]string), 0
	}
	in.texts[s] = s
	in.bytes += len(s)
	return s
}
