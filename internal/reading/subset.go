package reading

// MaxSensorBytes bounds a sensor's document as MongoDB stores it: what a page
// of sensors costs must not depend on what sensors make up.
const MaxSensorBytes = 64 << 10

// What the parts of the document take in BSON, at most.
const (
	sensorBytes = 512 // id, times and framing
	metricBytes = 49  // and the name
	pointBytes  = 39
)

// Points is how many points each metric keeps of the keep that are wanted: as
// many as leave the document within MaxSensorBytes, and one in any case, which
// MaxMetrics has room for. All metrics keep as many, and what is kept hangs on
// the names alone, so that a list never has a gap where it had to be short.
func (s *Sensor) Points(keep int) int {
	if len(s.Metrics) == 0 {
		return keep
	}
	room := MaxSensorBytes - sensorBytes
	for name := range s.Metrics {
		room -= metricBytes + len(name)
	}
	return min(keep, max(1, room/(len(s.Metrics)*pointBytes)))
}

// Bounded is the sensor with no more than its document may have: itself, if
// that is so already.
func (s Sensor) Bounded(keep int) Sensor {
	most := s.Points(keep)
	fits := len(s.Metrics) <= MaxMetrics
	for _, points := range s.Metrics {
		fits = fits && len(points) <= most
	}
	if fits {
		return s
	}
	var bounded Sensor
	bounded.Merge(s, keep)
	return bounded
}

// cut shortens the lists to what the document has room for.
func (s *Sensor) cut(keep int) {
	keep = s.Points(keep)
	for name, points := range s.Metrics {
		if len(points) > keep {
			s.Metrics[name] = points[:keep:keep]
		}
	}
}
