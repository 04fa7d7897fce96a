package reading

// Stretch is a run of the readings of one series: as much as a store has read at
// once.
type Stretch struct {
	Points []Point // in order of time, times distinct
	// Until is where it ends: before this, and from the first of Points on, the
	// series has no other readings.
	Until     int64
	Documents int // how many were read for it
}
