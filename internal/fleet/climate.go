package fleet

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// zone is a part of the warehouse with a climate of its own.
type zone struct {
	temperature float64 // °C, mean of the day
	swing       float64 // °C, how far the afternoon is above the mean
	humidity    float64 // %RH at the mean temperature
	drop        float64 // %RH less for each °C more: warm air holds more water
	noise       float64 // °C, standard deviation of the drift
}

// zones are given out in turn: of ten sensors two are at the dock, five
// between the aisles, two in the cold room and one in the freezer.
func zones() []zone {
	dock := zone{28.5, 4.2, 68, 2.2, 0.5}
	aisle := zone{26.4, 2.1, 61, 1.8, 0.3}
	cold := zone{4, 0.3, 82, 1.5, 0.25}
	freezer := zone{-18, 0.2, 66, 1.2, 0.3}
	return []zone{aisle, dock, aisle, cold, aisle, dock, aisle, freezer, aisle, cold}
}

// peak is the hour (UTC) at which the day is warmest.
const peak = 14.5

// memory is how much of the drift each reading keeps from the one before: at
// 10 s a reading it wanders over some ten minutes.
const memory = 0.985

// sensor is one simulated DHT22. All its numbers come from its own generator,
// so a sensor says the same whatever the fleet around it.
type sensor struct {
	zone              zone
	rng               *rand.Rand
	warm, damp, heavy float64 // offsets of this sensor's place, and of the air pressure
	drift, wet        float64 // where the drift (AR(1)) of temperature and humidity is now
}

func newSensor(seed uint64, i int) sensor {
	all := zones()
	s := sensor{zone: all[i%len(all)], rng: rand.New(rand.NewPCG(seed, uint64(i)))}
	s.warm = s.rng.NormFloat64() * 2 * s.zone.noise
	s.damp = s.rng.NormFloat64() * 2
	s.heavy = s.rng.NormFloat64() * 0.3
	s.drift = s.rng.NormFloat64() * s.zone.noise
	s.wet = s.rng.NormFloat64()
	return s
}

// sample is what the sensor measures at t (ms): temperature, humidity,
// pressure, in the order of metricNames. Each call is the sensor's next.
func (s *sensor) sample(t int64) [3]float64 {
	fresh := math.Sqrt(1 - memory*memory) // keeps the standard deviation
	s.drift = memory*s.drift + fresh*s.zone.noise*s.rng.NormFloat64()
	s.wet = memory*s.wet + fresh*s.rng.NormFloat64()
	hour := float64(t%(24*60*60*1000)) / (60 * 60 * 1000)
	above := s.zone.swing*math.Cos((hour-peak)*2*math.Pi/24) + s.drift
	week := float64(t) / float64((7 * 24 * time.Hour).Milliseconds())
	return [3]float64{
		tenth(s.zone.temperature+s.warm+above, -40, 80), // a DHT22's range
		tenth(s.zone.humidity+s.damp+s.wet-s.zone.drop*above, 0, 100),
		tenth(1010+s.heavy+4*math.Sin(week*2*math.Pi), 300, 1200),
	}
}

// tenth rounds to the resolution of a DHT22.
func tenth(v, low, high float64) float64 {
	return math.Round(max(low, min(high, v))*10)/10 + 0 // -0 becomes 0
}

// metricNames are the metrics that a sensor has.
func metricNames() []string { return []string{"temperature", "humidity", "pressure"} }

// metricIndex is a metric's place in a sample, -1 if there is none.
func metricIndex(name string) int { return slices.Index(metricNames(), name) }
