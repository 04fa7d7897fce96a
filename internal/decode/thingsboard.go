package decode

func thingsBoardFleet() Fleet {
	return Fleet{
		Name:   "thingsboard",
		Doc:    "ThingsBoard's gateway telemetry, in which each device has its name. A device's own telemetry, on `v1/devices/me/telemetry`, names nobody unless the payload does: it is rejected. Where a bridge adds the name, say where: `site/{sensor}/telemetry=thingsboard`.",
		Topics: []string{"v1/gateway/telemetry", "v1/devices/me/telemetry"},
		Samples: []Sample{
			{"v1/gateway/telemetry", `{"Kiln 1":[{"ts":1796547910000,"values":{"temperature":61.5,"humidity":12}}],"Kiln 2":[{"ts":1796547911000,"values":{"temperature":58.25}}]}`},
		},
	}
}

// decodeThingsBoard reads telemetry of a device, and of a gateway:
//
//	{"ts": 1773480413000, "values": {"temperature": 26.4}}
//	[{"ts": …, "values": {…}}, {"temperature": 26.3}]
//	{"Device A": [{"ts": …, "values": {…}}], "Device B": […]}
//
// Attributes and calls are no readings.
func decodeThingsBoard(d *Decoder) {
	end := d.level(0)
	switch end {
	case "attributes", "connect", "disconnect", "rpc", "claim", "provision":
		d.noReading()
		return
	}
	if d.hasLevel("rpc") || d.hasLevel("attributes") {
		d.noReading()
		return
	}
	if !d.parseObject() {
		return
	}
	if d.doc.nodes[0].kind != anObject || !(end == "telemetry" && d.level(1) == "gateway" || d.manyDevices()) {
		d.readDocument()
		return
	}
	nodes := d.doc.nodes
	for i := int32(1); i < nodes[0].next; i = nodes[i].next {
		sc := d.newScope()
		d.named(&sc, d.doc.key(&nodes[i]))
		switch nodes[i].kind {
		case anArray:
			d.readArray(i, sc)
		case anObject:
			d.readObject(i, sc)
		}
	}
	d.finish()
}

// manyDevices says whether the document has the form of a gateway's: nothing
// but lists, under names that mean nothing else.
func (d *Decoder) manyDevices() bool {
	nodes := d.doc.nodes
	for i := int32(1); i < nodes[0].next; i = nodes[i].next {
		if nodes[i].kind != anArray || nodes[i].next == i+1 || nodes[i+1].kind != anObject || d.names.get(d.doc.key(&nodes[i])).role != roleMetric {
			return false
		}
	}
	return nodes[0].next > 1
}
