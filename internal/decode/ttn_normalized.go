package decode

import "bytes"

// readNormalized reads a normalized payload of The Things Stack: measurements,
// one or a list, each with its time and its values in groups (lib/payload.json
// of the Device Repository):
//
//	{"time": "…", "air": {"temperature": 21.5, "relativeHumidity": 40}, "soil": {"depth": 10, "moisture": 31}, "wind": {"speed": 2.5}}
//
// What is measured of the air has no prefix; soil at a depth is a probe.
func (d *Decoder) readNormalized(at int32, sc scope) {
	nodes := d.doc.nodes
	if nodes[at].kind == anObject {
		d.readMeasurement(at, sc)
		return
	}
	for i := at + 1; i < nodes[at].next; i = nodes[i].next {
		d.scopes++
		sc.id = d.scopes
		d.readMeasurement(i, sc)
	}
}

func (d *Decoder) readMeasurement(at int32, sc scope) {
	nodes := d.doc.nodes
	if nodes[at].kind != anObject {
		return
	}
	network, badClock, detail := sc, d.out.BadClock, d.out.Detail
	if d.timed(&sc, d.child(at, "time")); !sc.fromPayload && network.fromPayload {
		sc, d.out.BadClock, d.out.Detail = network, badClock, detail
	}
	for i := at + 1; i < nodes[at].next; i = nodes[i].next {
		group := d.doc.key(&nodes[i])
		if nodes[i].kind != anObject {
			d.readScalar(&nodes[i], d.names.get(group), &sc)
			continue
		}
		in := sc
		if depth := d.text(d.child(i, "depth")); len(depth) > 0 {
			in = d.probeOf(sc, depth)
		}
		for k := i + 1; k < nodes[i].next; k = nodes[k].next {
			if key := d.doc.key(&nodes[k]); string(key) != "depth" {
				d.readScalar(&nodes[k], d.normalizedField(group, key), &in)
			}
		}
	}
}

func (d *Decoder) normalizedField(group, key []byte) *field {
	switch {
	case string(key) == "lightIntensity":
		return d.names.getString("illuminance")
	case string(group) == "air":
		return d.names.get(key)
	case string(key) == "pH":
		key = []byte("ph")
	}
	return d.names.get(bytes.Join([][]byte{group, key}, []byte{'_'}))
}
