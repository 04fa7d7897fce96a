package decode

import (
	"strings"

	"gudang/internal/reading"
)

// topicSensor is the sensor id that the topic gives to a payload that has none
// of its own: {sensor}, else the levels that + and # matched, joined by "/".
// Of those the last one is left out if it is also the topic's last and names a
// known metric: warehouse/+/+ makes warehouse/dht-7/temperature the sensor
// dht-7.
func (d *Decoder) topicSensor() (string, reading.Reason) {
	c, topic := &d.topic, d.msg.Topic
	if c.route.sensor {
		d.scratch = append(d.scratch[:0], c.sensor.of(topic)...)
		return d.sensorID(d.scratch)
	}
	levels := c.loose
	if len(levels) == 0 {
		return "", reading.NoSensor
	}
	last := len(levels) - 1
	end := levels[last].end
	if int(end) == len(topic) && !c.route.metric && c.lastLevel().kind != literal {
		cut := max(strings.LastIndexByte(topic, '/'), 0)
		if d.names.getString(topic[min(cut+1, len(topic)):]).known {
			switch {
			case uint32(cut) > levels[last].start:
				end = uint32(cut)
			case last > 0:
				last--
				end = levels[last].end
			}
		}
	}
	d.scratch = d.scratch[:0]
	for i, l := range levels[:last+1] {
		if i > 0 {
			d.scratch = append(d.scratch, '/')
		}
		if i == last {
			l.end = end
		}
		d.scratch = append(d.scratch, l.of(topic)...)
	}
	return d.sensorID(d.scratch)
}

func (c *captures) lastLevel() level { return c.route.levels[len(c.route.levels)-1] }

// sensorID checks an id and returns the one copy of it.
func (d *Decoder) sensorID(id []byte) (string, reading.Reason) {
	if s, ok := d.sensors.texts[string(id)]; ok {
		return s, ""
	}
	switch {
	case len(trim(id)) == 0:
		return "", reading.NoSensor
	case len(id) > reading.MaxSensorID:
		return "", reading.IDTooLong
	case hasControl(id):
		return "", reading.ControlCharacter
	}
	return d.sensors.add(string(id)), ""
}

// hasControl finds the characters of Unicode's category Cc in UTF-8 text. They
// break log lines, label values and terminals.
func hasControl(text []byte) bool {
	for i, c := range text {
		if c < ' ' || c == 0x7f || c == 0xc2 && i+1 < len(text) && text[i+1] < 0xa0 {
			return true
		}
	}
	return false
}

// topicMetric is the metric of a number that the payload gives no name to:
// {metric}; else, where the sensor is named elsewhere, what + or # matched at
// the end of the topic; else the topic's last level if that is a known metric;
// else "value".
func (d *Decoder) topicMetric() *field {
	c, topic := &d.topic, d.msg.Topic
	value := d.names.getString(valueMetric)
	last := topic[strings.LastIndexByte(topic, '/')+1:]
	var f *field
	switch kind := c.lastLevel().kind; {
	case c.route.metric:
		f = d.names.getString(c.metric.of(topic))
	case kind == aSensor || kind == sensorRest:
		return value
	case kind != literal && c.route.sensor && len(c.loose) > 0:
		// Of # that is all the levels, lest two of them become one series.
		f = d.names.getString(c.loose[len(c.loose)-1].of(topic))
	default:
		if f = d.names.getString(last); !f.known {
			return value
		}
	}
	switch f.role {
	case roleHolder, roleUnit, roleMetricID, roleValue:
		return value
	}
	return f
}
