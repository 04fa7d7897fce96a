package bucketer

import (
	"math/rand/v2"
	"sync"

	"gudang/internal/reading"
)

// Sensors are the ids of all sensors that are known, at most a given number:
// an id that is drawn at random for each message would otherwise fill the
// store and the memory.
type Sensors struct {
	max int

	mu    sync.Mutex
	known reading.IDs
	any   string // one of them
	seen  int    // how many any was drawn from
}

// NewSensors makes an empty set of at most limit sensors.
func NewSensors(limit int) *Sensors { return &Sensors{max: limit} }

// Know adds a sensor that is in the store already, whatever the limit.
func (s *Sensors) Know(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(id)
}

func (s *Sensors) addLocked(id string) {
	if !s.known.Add(id) {
		return
	}
	// Each of n has had the chance of 1/n to be the one that is kept.
	if s.seen++; rand.IntN(s.seen) == 0 {
		s.any = id
	}
}

// Admit says whether readings of the sensor may be stored: it is known, or
// there is room for one more.
func (s *Sensors) Admit(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known.Len() >= s.max {
		return s.known.Has(id)
	}
	s.addLocked(id)
	return true
}

// Forget makes room for another sensor: this one is not in the store any more.
func (s *Sensors) Forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.Remove(id)
}

// Len is how many are known.
func (s *Sensors) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.Len()
}

// Any is one of all that were ever known, drawn at random; empty if there were
// none.
func (s *Sensors) Any() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.any
}
