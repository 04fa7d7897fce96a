package decode

import "bytes"

// decodeKepware reads what KEPServerEX's IoT gateway publishes:
//
//	{"timestamp": 1773480414224, "values": [{"id": "Channel.Device.Tag", "v": 26.4, "q": true, "t": 1773480413000}]}
//
// The sensor is the tag's whole id and the metric "value", since nothing says
// what a tag measures. A value of bad quality is the last one or 0, and no
// reading; text and booleans are none either.
func decodeKepware(d *Decoder) {
	if !d.parseObject() {
		return
	}
	at, outer := int32(0), d.newScope()
	if d.doc.nodes[0].kind == anObject {
		d.timed(&outer, d.child(0, "timestamp"))
		if at = d.child(0, "values"); at < 0 || d.doc.nodes[at].kind != anArray {
			d.noReading()
			return
		}
	}
	nodes := d.doc.nodes
	for i := at + 1; i < nodes[at].next; i = nodes[i].next {
		id, v := d.text(d.child(i, "id")), d.child(i, "v")
		if v < 0 || nodes[v].kind != aNumber && nodes[v].kind != aNotFinite || !d.goodQuality(d.child(i, "q")) {
			continue
		}
		sc := outer
		d.scopes++
		sc.id = d.scopes
		d.named(&sc, id)
		d.timed(&sc, d.child(i, "t"))
		d.readScalar(&nodes[v], d.names.getString(valueMetric), &sc)
	}
	d.finish()
}

// goodQuality reads a quality: a boolean, or the number or word of OPC, of
// whose numbers the good ones are from 192.
func (d *Decoder) goodQuality(at int32) bool {
	if at < 0 {
		return true
	}
	n := &d.doc.nodes[at]
	text := d.doc.val(n)
	switch n.kind {
	case aBool:
		return string(text) == "true"
	case aNumber:
		v, why := parseNumber(text)
		return why == "" && (v == 1 || v >= 192)
	case aString:
		return bytes.EqualFold(trim(text), []byte("good")) || bytes.EqualFold(trim(text), []byte("true"))
	}
	return false
}
