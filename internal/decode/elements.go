package decode

import (
	"bytes"

	"gudang/internal/reading"
)

// elementNames are keys by which the objects of an array are told apart where
// they have no ids, the best one first.
var elementNames = []string{"name", "label", "probe"}

// elementName is the key that gives the elements of an array names which are
// not all the same, empty if there is none: they are probes of one device then,
// {"sensors": [{"name": "in", "t": 21}, {"name": "out", "t": 4}]}, and would
// become one series. Elements of "sensors" are so by the name of the list.
func (d *Decoder) elementName(at int32) string {
	for _, key := range elementNames {
		if d.tellsApart(at, key) {
			return key
		}
	}
	return ""
}

func (d *Decoder) tellsApart(at int32, key string) bool {
	nodes := d.doc.nodes
	var first []byte
	// One probe of a list of them keeps its name when the others are missing.
	differ := bytes.EqualFold(d.doc.key(&nodes[at]), []byte("sensors")) && nodes[at].next > at+1
	for i := at + 1; i < nodes[at].next; i = nodes[i].next {
		name := d.text(d.child(i, key))
		switch {
		case len(name) == 0 || d.namesItself(i):
			return false
		case first == nil:
			if d.names.get(name).known { // of a metric
				return false
			}
			first = name
		default:
			differ = differ || string(name) != string(first)
		}
	}
	return differ
}

// namesItself says whether an object has an id of its own, or a value that is
// named by what its name would be.
func (d *Decoder) namesItself(at int32) bool {
	nodes := d.doc.nodes
	for i := at + 1; i < nodes[at].next; i = nodes[i].next {
		if role := d.names.get(d.doc.key(&nodes[i])).role; role == roleSensor || role == roleValue {
			return true
		}
	}
	return false
}

// element is the scope of an element of an array that has that name.
func (d *Decoder) element(sc scope, name []byte) scope {
	if !sc.resolved {
		sc.sensor, sc.sensorWhy = d.topicSensor()
	}
	if sc.sensorWhy == reading.NoSensor {
		d.named(&sc, name)
		return sc
	}
	return d.probeOf(sc, name)
}
