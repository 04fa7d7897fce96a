package bucketer

import "sync"

// Sensors are the ids of all sensors that are known, at most a given number:
// an id that is drawn at random for each message would otherwise fill the
// store and the memory.
type Sensors struct {
	max int

	mu    sync.Mutex
	known map[string]struct{}
}

// NewSensors makes an empty set of at most limit sensors.
func NewSensors(limit int) *Sensors { return &Sensors{max: limit, known: map[string]struct{}{}} }

// Know adds a sensor that is in the store already, whatever the limit.
func (s *Sensors) Know(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[id] = struct{}{}
}

// Admit says whether readings of the sensor may be stored: it is known, or
// there is room for one more.
func (s *Sensors) Admit(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.known[id]; ok {
		return true
	}
	if len(s.known) >= s.max {
		return false
	}
	s.known[id] = struct{}{}
	return true
}

// Forget makes room for another sensor: this one is not in the store any more.
func (s *Sensors) Forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, id)
}

// Len is how many are known.
func (s *Sensors) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.known)
}

// Any is one of them, drawn at random; empty if there are none.
func (s *Sensors) Any() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.known {
		return id
	}
	return ""
}
