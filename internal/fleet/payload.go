package fleet

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gudang/internal/reading"
)

// observation is what one message says. bad is the place of the metric whose
// measurement failed, -1 if none did.
type observation struct {
	sensor  string
	time    int64
	metrics []string
	values  []float64
	bad     int
	seq     int64
}

// format is one dialect. A new one is a function here and a line in formats.
type format struct {
	encode func(dst []byte, o *observation) []byte
	// single means that a message carries one metric, which its topic names.
	single bool
	// timed means that the message says when it was measured. Without it
	// nobody can know what must be stored, so there is no manifest.
	timed bool
	topic string // the default template
}

func formats() map[string]format {
	return map[string]format{
		"json":   {encode: encodeJSON, timed: true, topic: "warehouse/{sensor}/reading"},
		"senml":  {encode: encodeSenML, timed: true, topic: "warehouse/{sensor}/reading"},
		"number": {encode: encodeNumber, single: true, topic: "warehouse/{sensor}/{metric}"},
	}
}

// encodeJSON is the house format:
//
//	{"sensorId":"S-0001","time":"2026-12-06T09:05:10.000Z","temperature":26.4,"humidity":61.2}
//
// A failed measurement is null or "NaN", as firmware sends both.
func encodeJSON(dst []byte, o *observation) []byte {
	dst = append(dst, `{"sensorId":"`...)
	dst = append(dst, o.sensor...) // our own ids: nothing in them to escape
	dst = append(dst, `","time":"`...)
	dst = time.UnixMilli(o.time).UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	dst = append(dst, '"')
	for i, m := range o.metrics {
		dst = append(append(append(dst, `,"`...), m...), `":`...)
		switch {
		case i != o.bad:
			dst = appendValue(dst, o.values[i])
		case o.seq%2 == 0:
			dst = append(dst, "null"...)
		default:
			dst = append(dst, `"NaN"`...)
		}
	}
	return append(dst, '}')
}

// encodeSenML is a SenML pack (RFC 8428) of one record a metric. A failed
// measurement is a string value: a record may not have a null.
func encodeSenML(dst []byte, o *observation) []byte {
	units := map[string]string{"temperature": "Cel", "humidity": "%RH", "pressure": "hPa"}
	dst = append(append(append(dst, `[{"bn":"`...), o.sensor...), `/","bt":`...)
	dst = strconv.AppendInt(dst, o.time/1000, 10)
	dst = fmt.Appendf(dst, ".%03d,", o.time%1000)
	for i, m := range o.metrics {
		if i > 0 {
			dst = append(dst, ",{"...)
		}
		dst = append(append(append(dst, `"n":"`...), m...), `","u":"`...)
		dst = append(append(dst, units[m]...), `","v`...)
		if i == o.bad {
			dst = append(dst, `s":"NaN"}`...)
			continue
		}
		dst = append(appendValue(append(dst, `":`...), o.values[i]), '}')
	}
	return append(dst, ']')
}

// encodeNumber is a bare number, as the simplest devices send it.
func encodeNumber(dst []byte, o *observation) []byte {
	if o.bad == 0 {
		return append(dst, "nan"...)
	}
	return appendValue(dst, o.values[0])
}

func appendValue(dst []byte, v float64) []byte { return strconv.AppendFloat(dst, v, 'f', 1, 64) }

// readings are what must be stored of the observation.
func (o *observation) readings() []reading.Reading {
	all := make([]reading.Reading, 0, len(o.metrics))
	for i, m := range o.metrics {
		if i != o.bad {
			all = append(all, reading.Reading{Series: reading.Series{Sensor: o.sensor, Metric: m}, Time: o.time, Value: o.values[i]})
		}
	}
	return all
}

// expandTopic puts sensor and metric into a template.
func expandTopic(template, sensor, metric string) string {
	return strings.NewReplacer("{sensor}", sensor, "{metric}", metric).Replace(template)
}

// checkTopic says what is wrong with a template.
func checkTopic(template string, single bool) error {
	switch {
	case !strings.Contains(template, "{sensor}"):
		return fmt.Errorf("topic %q: must have {sensor} in it", template)
	case single && !strings.Contains(template, "{metric}"):
		return fmt.Errorf("topic %q: must have {metric} in it, the payload does not say which it is", template)
	case strings.ContainsAny(expandTopic(template, "", ""), "#+{}\x00"):
		return fmt.Errorf("topic %q: one publishes to topics, not to filters; {sensor} and {metric} are all that is replaced", template)
	}
	return nil
}
