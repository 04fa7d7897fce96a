package bucketer

// slab keeps many small things without pointers to or in them: a garbage
// collection passes over them all at once, however many they are. The zero slab
// is empty.
type slab[T any] struct {
	chunks [][]T
	used   int32
	free   []int32
}

const chunkSize = 4096

// none is no place in a slab.
const none int32 = -1

// add gives a place to v.
func (s *slab[T]) add(v T) int32 {
	if n := len(s.free); n > 0 {
		at := s.free[n-1]
		s.free = s.free[:n-1]
		*s.at(at) = v
		return at
	}
	if int(s.used) == len(s.chunks)*chunkSize {
		s.chunks = append(s.chunks, make([]T, chunkSize))
	}
	s.used++
	*s.at(s.used - 1) = v
	return s.used - 1
}

// at is what has that place. It stays where it is.
func (s *slab[T]) at(place int32) *T { return &s.chunks[place/chunkSize][place%chunkSize] }

// remove gives the place to another.
func (s *slab[T]) remove(place int32) { s.free = append(s.free, place) }

// len is how many things it keeps.
func (s *slab[T]) len() int { return int(s.used) - len(s.free) }
