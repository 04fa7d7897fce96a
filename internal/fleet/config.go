package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// outlierFactor is how many times the rate of its fellows an outlier sends at.
const outlierFactor = 100

// Config is what a fleet is. Faults are amounts: below 1 a fraction, from 1 on
// a number; of messages, or of sensors where it says so.
type Config struct {
	Sensors  int
	Interval time.Duration // between two readings of a sensor
	Metrics  []string      // default: temperature and humidity
	Format   string        // default: json
	Topic    string        // template; default: the format's
	Seed     uint64

	// Count is how many distinct messages are published, Duration for how
	// long. Without either the fleet goes on until it is stopped.
	Count    int64
	Duration time.Duration
	// Rate is in messages a second. With it or with Count the fleet has a
	// clock of its own, which is as fast as the messages go; Rate 0 is then
	// as fast as they are taken. With neither, simulated time is real time.
	Rate  float64
	Start time.Time // of simulated time; default: such that the last reading is of now

	Duplicate float64 // are published twice, some at once, some later
	Late      float64 // are held back for minutes and arrive out of order
	NaN       float64 // have one metric that is no number
	Offline   float64 // sensors that go away and come back with their backlog
	Outlier   float64 // sensors that send at 100 times the rate

	Grace time.Duration // how long to wait for acknowledgements once stopped; default 5s
	Now   func() time.Time
}

// complete checks the settings and fills in what was left out.
func (c *Config) complete() error {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Format == "" {
		c.Format = "json"
	}
	f, ok := formats()[c.Format]
	if !ok {
		return fmt.Errorf("format %q: must be json, number or senml", c.Format)
	}
	if len(c.Metrics) == 0 {
		c.Metrics = []string{"temperature", "humidity"}
	}
	for i, m := range c.Metrics {
		if metricIndex(m) < 0 {
			return fmt.Errorf("metric %q: must be one of %s", m, strings.Join(metricNames(), ", "))
		}
		if slices.Contains(c.Metrics[:i], m) {
			return fmt.Errorf("metric %q is named twice", m)
		}
	}
	if c.Topic == "" {
		c.Topic = f.topic
	}
	if err := checkTopic(c.Topic, f.single); err != nil {
		return err
	}
	if c.Grace == 0 {
		c.Grace = 5 * time.Second
	}
	switch {
	case c.Sensors < 1:
		return fmt.Errorf("%d sensors: must be at least 1", c.Sensors)
	case c.Interval < time.Millisecond || c.Interval%time.Millisecond != 0:
		return fmt.Errorf("interval %v: must be whole milliseconds", c.Interval)
	case c.Count < 0 || c.Duration < 0 || c.Rate < 0:
		return errors.New("count, duration and rate must not be negative")
	case c.Count > 0 && c.Duration > 0:
		return errors.New("give a count or a duration, not both")
	case c.Rate > 0 && c.Count == 0 && c.Duration == 0:
		return errors.New("a rate needs a count or a duration: else its clock would run into the future")
	}
	if err := c.completeFaults(); err != nil {
		return err
	}
	if c.Rate > 0 && c.Duration > 0 {
		c.Count = max(1, int64(c.Rate*c.Duration.Seconds()))
	}
	return nil
}

func (c *Config) completeFaults() error {
	for name, amount := range map[string]float64{"duplicate": c.Duplicate, "late": c.Late, "nan": c.NaN, "offline": c.Offline, "outlier": c.Outlier} {
		if !(amount >= 0) {
			return fmt.Errorf("%s %v: must be a fraction or a number", name, amount)
		}
	}
	if c.Count == 0 && c.Rate == 0 && (c.Duplicate >= 1 || c.Late >= 1 || c.NaN >= 1) {
		return errors.New("duplicate, late and nan can be numbers of messages only with a count; give fractions")
	}
	if c.ofSensors(c.Outlier) > 0 && c.Interval < outlierFactor*time.Millisecond {
		return fmt.Errorf("interval %v: outliers need at least %v, their readings must differ in time", c.Interval, outlierFactor*time.Millisecond)
	}
	return nil
}

// ofSensors turns an amount into a number of sensors.
func (c *Config) ofSensors(amount float64) int {
	if amount < 1 {
		amount *= float64(c.Sensors)
	}
	return min(c.Sensors, int(amount+0.5))
}

// setStart places simulated time. perTick is how many messages an interval has.
func (c *Config) setStart(perTick int) error {
	now := c.Now().Truncate(time.Millisecond)
	if c.Count == 0 {
		if c.Start.IsZero() {
			c.Start = now
		}
		return nil
	}
	span := time.Duration((c.Count+int64(perTick)-1)/int64(perTick)) * c.Interval
	if c.Start.IsZero() {
		c.Start = now.Add(-span)
	}
	if end := c.Start.Add(span - c.Interval); end.After(now.Add(5 * time.Second)) {
		return fmt.Errorf("the last reading would be of %s, which is in the future: a service does not believe that", end.UTC().Format(time.RFC3339))
	}
	return nil
}
