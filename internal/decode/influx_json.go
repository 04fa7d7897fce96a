package decode

import (
	"github.com/influxdata/line-protocol/v2/lineprotocol"

	"gudang/internal/reading"
)

// readTelegraf reads what Telegraf sends with data_format = "json": one metric,
// or the list of a batch.
//
//	{"name": "climate", "tags": {"host": "pi", "sensor": "s-1"}, "fields": {"temperature": 26.4}, "timestamp": 1773480413}
//	{"metrics": [{"name": …}, …]}
func (d *Decoder) readTelegraf() {
	if !d.parseObject() {
		return
	}
	list := d.child(0, "metrics")
	if list < 0 || d.doc.nodes[list].kind != anArray {
		if d.child(0, "fields") < 0 {
			d.reject(reading.InvalidValue, "it is neither line protocol nor Telegraf's JSON")
			return
		}
		d.readTelegrafMetric(0)
		return
	}
	for i := list + 1; i < d.doc.nodes[list].next; i = d.doc.nodes[i].next {
		d.readTelegrafMetric(i)
	}
}

func (d *Decoder) readTelegrafMetric(at int32) {
	nodes := d.doc.nodes
	sc := d.newScope()
	d.timed(&sc, d.child(at, "timestamp"))
	best, unit := tagRank(noTag), []byte(nil)
	if tags := d.child(at, "tags"); tags >= 0 {
		for i := tags + 1; i < nodes[tags].next; i = nodes[i].next {
			if value := d.text(i); nodes[i].kind == aString && d.readTag(d.doc.key(&nodes[i]), value, &sc, &best) {
				unit = value
			}
		}
	}
	fields := d.child(at, "fields")
	if fields < 0 || nodes[fields].kind != anObject {
		return
	}
	measurement := d.names.get(d.text(d.child(at, "name")))
	for i := fields + 1; i < nodes[fields].next; i = nodes[i].next {
		if n := &nodes[i]; n.kind == aNumber {
			d.readInfluxField(d.names.get(d.doc.key(n)), measurement, lineprotocol.Float, d.doc.val(n), unit, &sc)
		}
	}
}
