package decode

import (
	"slices"

	"gudang/internal/reading"
)

// candidate is what may become a reading.
type candidate struct {
	scope       int32
	probe       int32 // the group that it stands in; 0: none
	rank        uint8
	fromPayload bool
	nothing     bool // the metric is there, without a value
	gone        bool // another one stands for it
	sensor      string
	metric      string
	time        int64
	value       float64
	unit        string
	why         reading.Reason // it is no reading, empty if it is
	key         string         // what named the metric
	given       float64        // the value as it was sent
}

// identity is what tells a reading from every other.
type identity struct {
	sensor, metric string
	time           int64
}

// owner is a metric of an object: see nameProbes.
type owner struct {
	scope  int32
	metric string
}

// add notes a number, or why there is none, for settle.
func (d *Decoder) add(sc *scope, f *field, unit []byte, v float64, why reading.Reason) {
	if d.out.Outcome != reading.Pending {
		return
	}
	if len(d.found) == MaxReadings {
		d.reject(reading.TooManyReadings, ReasonText(reading.TooManyReadings))
		return
	}
	if !sc.resolved {
		sc.sensor, sc.sensorWhy = d.topicSensor()
		sc.resolved = true
	}
	f = d.inVolts(f, unit)
	c := candidate{
		scope: sc.id, probe: sc.probe, rank: f.rank, fromPayload: sc.fromPayload,
		sensor: sc.sensor, metric: f.name, time: sc.at, unit: f.unit, why: why, key: f.key, given: v,
	}
	if c.why == "" {
		c.value, c.unit, c.why = d.canonical(f, unit, v)
	}
	if sc.sensorWhy != "" {
		c.why = sc.sensorWhy
	}
	if f.invalid {
		c.why = reading.InvalidMetric
	}
	d.found = append(d.found, c)
}

// inVolts is the field of a battery whose level is declared to be in volts: that
// of its voltage, which is no percentage.
func (d *Decoder) inVolts(f *field, unit []byte) *field {
	if f.kind != "battery" || len(unit) == 0 || findUnit(f.unit, string(unit)) != nil || findUnit("V", string(unit)) == nil {
		return f
	}
	volts := *d.names.getString(f.name + "_voltage")
	volts.key = f.key
	return &volts
}

// addNothing notes that a metric has no value this time. That matters for the
// names of probes alone: they must not change with what else is read.
func (d *Decoder) addNothing(sc *scope, f *field) {
	if sc.probe != 0 && len(d.found) < MaxReadings {
		d.found = append(d.found, candidate{scope: sc.id, probe: sc.probe, metric: f.name, nothing: true})
	}
}

// canonical brings a value into the canonical unit, and checks it.
func (d *Decoder) canonical(f *field, unit []byte, v float64) (float64, string, reading.Reason) {
	name := f.unit
	switch {
	case f.declared != nil:
		v = f.declared.canonical(v)
	case len(unit) > 0 && name != "":
		u := findUnit(name, string(unit))
		if u == nil {
			return 0, name, reading.InvalidValue
		}
		v = u.canonical(v)
	case len(unit) > 0 && len(unit) <= 16 && !hasControl(unit):
		name = d.words.get(unit)
	}
	v += 0 // -0 becomes 0: a dashboard that shows -0 looks broken
	if !(f.lo <= v && v <= f.hi) {
		return 0, name, reading.OutOfRange
	}
	return v, name, ""
}

// settle makes the result of what was found.
func (d *Decoder) settle() {
	retained := false
	if d.msg.Retained {
		// It is replayed at every subscribe, however old it is. With a time
		// of its own it is the same reading each time; at the receive time
		// it would be invented.
		for i := range d.found {
			if c := &d.found[i]; !c.fromPayload && !c.nothing {
				c.gone, retained = true, true
			}
		}
	}
	if len(d.found) > 1 {
		d.nameProbes()
		d.unite()
	}
	d.out.Values = room(d.out.Values, len(d.found))
	for i := range d.found {
		switch c := &d.found[i]; {
		case c.gone || c.nothing:
		case c.why != "":
			d.out.Dropped = append(d.out.Dropped, Dropped{Metric: c.metric, Reason: c.why, given: c.given})
		default:
			d.out.Values = append(d.out.Values, Value{
				Reading: reading.Reading{Series: reading.Series{Sensor: c.sensor, Metric: c.metric}, Time: c.time, Value: c.value},
				Unit:    c.unit, FromPayload: c.fromPayload, key: c.key, given: c.given,
			})
		}
	}
	switch {
	case len(d.out.Values) > 0:
	case retained:
		d.ignore(reading.Retained, ReasonText(reading.Retained))
	case len(d.out.Dropped) > 0:
		why := d.out.Dropped[0].Reason
		d.reject(why, ReasonText(why))
	default:
		d.ignore(reading.StatusWord, ReasonText(reading.StatusWord))
	}
}

// nameProbes gives the probes of a device names of their own, device/probe,
// where they measure the same: {"indoor": {"t": 21}, "outdoor": {"t": 4}}. A
// group whose metrics nothing else in the object has is the device itself.
func (d *Decoder) nameProbes() {
	if !slices.ContainsFunc(d.found, func(c candidate) bool { return c.probe != 0 }) {
		return
	}
	if d.owners == nil {
		d.owners, d.probes = make(map[owner]int32), make(map[int32]struct{})
	}
	clear(d.owners)
	clear(d.probes)
	for i := range d.found {
		c := &d.found[i]
		key := owner{c.scope, c.metric}
		other, ok := d.owners[key]
		switch {
		case !ok:
			d.owners[key] = c.probe
		case other != c.probe:
			d.probes[other], d.probes[c.probe] = struct{}{}, struct{}{}
		}
	}
	delete(d.probes, 0) // what stands in no group is of the device itself
	for i := range d.found {
		c := &d.found[i]
		if _, ok := d.probes[c.probe]; !ok || c.sensor == "" {
			continue
		}
		d.scratch = append(append(append(d.scratch[:0], c.sensor...), '/'), d.doc.key(&d.doc.nodes[c.probe])...)
		sensor, why := d.sensorID(d.scratch)
		c.sensor = sensor
		if why != "" {
			c.why = why
		}
	}
	if len(d.found) > manyCandidates {
		d.owners, d.probes = nil, nil
	}
}

// fewCandidates is up to where comparing each with each is the fastest way.
const fewCandidates = 16

// manyCandidates is up to where the memory of a message is worth keeping.
const manyCandidates = 1024

// unite leaves one of the candidates that would be the same reading.
func (d *Decoder) unite() {
	if len(d.found) <= fewCandidates {
		for i := range d.found {
			for k := range d.found[:i] {
				a, b := &d.found[k], &d.found[i]
				if a.time == b.time && a.metric == b.metric && a.sensor == b.sensor {
					prefer(a, b)
				}
			}
		}
		return
	}
	if d.seen == nil {
		d.seen = make(map[identity]int32, len(d.found))
	}
	clear(d.seen)
	for i := range d.found {
		b := &d.found[i]
		key := identity{b.sensor, b.metric, b.time}
		if k, ok := d.seen[key]; ok {
			if prefer(&d.found[k], b); b.gone {
				continue
			}
		}
		d.seen[key] = int32(i)
	}
	if len(d.found) > manyCandidates {
		d.seen = nil // a map never shrinks, and to clear it is paid each time
	}
}

// prefer decides between two candidates of one identity, a before b. Within an
// object they are one quantity that came twice, as tempc and tempf: a good one
// stays before a bad one, then the one of the better key, then the first.
// Across objects they are two readings, and the first of two good ones stays.
func prefer(a, b *candidate) {
	switch {
	case a.gone || b.gone || a.nothing || b.nothing:
	case a.scope == b.scope:
		if b.why == "" && (a.why != "" || b.rank < a.rank) {
			a.gone = true
		} else {
			b.gone = true
		}
	case a.why != "" || b.why != "":
	case a.value == b.value:
		b.gone = true
	default:
		b.why = reading.ValueConflict
	}
}
