package reading

import "hash/maphash"

// IDs is a set of sensor ids that keeps 8 bytes of each. Two ids in some 10^19
// are taken for one another, and nobody can choose which: the hash is drawn
// anew by every process. So it is for what may be wrong once in a blue moon.
// The zero IDs is empty.
type IDs struct {
	known map[uint64]struct{}
}

var idSeed = maphash.MakeSeed()

// Add adds an id and says whether it is new.
func (s *IDs) Add(id string) bool {
	if s.known == nil {
		s.known = map[uint64]struct{}{}
	}
	before := len(s.known)
	s.known[maphash.String(idSeed, id)] = struct{}{}
	return len(s.known) > before
}

// Has says whether the id is one of them.
func (s *IDs) Has(id string) bool {
	_, ok := s.known[maphash.String(idSeed, id)]
	return ok
}

// Remove takes an id out.
func (s *IDs) Remove(id string) { delete(s.known, maphash.String(idSeed, id)) }

// Len is how many they are.
func (s *IDs) Len() int { return len(s.known) }
