package source

import (
	"time"

	"gudang/internal/decode"
	"gudang/internal/reading"
)

// stamps gives readings without a time of their own a time that can serve as
// their identity. It is used by one goroutine at a time.
type stamps struct {
	// Two readings of a series within one millisecond are two readings, so the
	// later gets the next millisecond. Two generations of a second each bound
	// the memory by the rate of messages.
	recent, before map[reading.Series]int64
	turned         int64

	// A message that is sent again after a lost connection must get the time
	// that it got first, or it would count twice. It comes with the DUP flag
	// and its old packet identifier; sender, topic and payload tell it from
	// another message that got the identifier since. At least the last keep
	// messages are remembered, by their hashes and in two generations again:
	// all that can be unacknowledged, and so sent again, are among them.
	given, earlier map[uint64]int64
	keep           int
}

// generation must be longer than two readings of a series that could get one
// time lie apart.
const generation = int64(time.Second / time.Millisecond)

func newStamps(keep int) *stamps {
	return &stamps{
		recent: map[reading.Series]int64{}, before: map[reading.Series]int64{},
		given: map[uint64]int64{}, earlier: map[uint64]int64{}, keep: keep,
	}
}

// stamp sets the time of the values of m that have none of their own. It
// returns that time and the hash by which m is known again; 0 if there are no
// such values, or nobody will send m again.
func (s *stamps) stamp(values []decode.Value, now int64, m *message) (hash uint64, at int64) {
	own := true
	for i := range values {
		own = own && values[i].FromPayload
	}
	if own {
		return 0, 0
	}
	if m.qos > 0 {
		hash = m.hash()
		if at, ok := s.first(hash); ok && m.again {
			set(values, at)
			s.remember(hash, at)
			return hash, at
		}
	}
	if now-s.turned > generation || now < s.turned {
		s.before, s.recent = s.recent, s.before
		clear(s.recent)
		s.turned = now
	}
	at = now
	for i := range values {
		if v := &values[i]; !v.FromPayload {
			if last, ok := s.recent[v.Series]; ok {
				at = max(at, last+1)
			} else if last, ok := s.before[v.Series]; ok {
				at = max(at, last+1)
			}
		}
	}
	set(values, at)
	for i := range values {
		if v := &values[i]; !v.FromPayload {
			s.recent[v.Series] = at
		}
	}
	if hash == 0 {
		return 0, 0
	}
	s.remember(hash, at)
	return hash, at
}

func set(values []decode.Value, at int64) {
	for i := range values {
		if !values[i].FromPayload {
			values[i].Time = at
		}
	}
}

// first is the time that a message got when it came first.
func (s *stamps) first(hash uint64) (at int64, ok bool) {
	if at, ok = s.given[hash]; !ok {
		at, ok = s.earlier[hash]
	}
	return at, ok
}

func (s *stamps) remember(hash uint64, at int64) {
	if len(s.given) >= s.keep {
		s.given, s.earlier = s.earlier, s.given
		clear(s.given)
	}
	s.given[hash] = at
}

// hash tells a message from others. It is the same in every process, because
// the journal carries it over a restart, and never 0.
func (m *message) hash() uint64 {
	h := uint64(14695981039346656037)
	h = fnv1a(h, m.client)
	h = fnv1a(h, []byte{0, byte(m.id >> 8), byte(m.id)})
	h = fnv1a(h, m.topic)
	h = fnv1a(h, []byte{0})
	return max(fnv1a(h, m.payload), 1)
}

// fnv1a is the hash of that name, in 64 bits. The standard library's would
// have to be given a copy of each text.
func fnv1a[T string | []byte](h uint64, text T) uint64 {
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}
