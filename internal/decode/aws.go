package decode

func awsFleet() Fleet {
	return Fleet{
		Name: "aws",
		Doc:  "AWS IoT device shadows, as the devices update them. The sensor is the thing. What is desired is no reading, nor are the service's answers, which repeat the update; with own templates, such as `$aws/things/{sensor}/shadow/update/accepted=aws`, they are read instead, at the times that the service notes.",
		// accepted and documents repeat what update said, with another time.
		Topics: []string{"$aws/things/{sensor}/shadow/update", "$aws/things/{sensor}/shadow/name/+/update"},
		Samples: []Sample{
			{"$aws/things/freezer-9/shadow/update", `{"state":{"reported":{"temperature":-19.5,"doorOpen":false},"desired":{"setpoint":-20}}}`},
		},
	}
}

// decodeAWS reads device shadows:
//
//	…/shadow/update            {"state": {"reported": {"temperature": 26.4}}}
//	…/shadow/update/accepted   {"state": {"reported": {…}}, "metadata": {"reported": {"temperature": {"timestamp": …}}}, "timestamp": …}
//	…/shadow/update/documents  {"previous": {…}, "current": {"state": {"reported": {…}}, "metadata": {…}}, "timestamp": …}
func decodeAWS(d *Decoder) {
	switch d.level(0) {
	case "delta", "rejected", "get", "delete":
		d.noReading()
		return
	}
	if !d.parseObject() {
		return
	}
	at := int32(0)
	if current := d.child(0, "current"); current >= 0 {
		at = current
	}
	reported := d.child(d.child(at, "state"), "reported")
	if reported < 0 || d.doc.nodes[reported].kind != anObject {
		d.noReading()
		return
	}
	sc := d.newScope()
	d.ofTopic(&sc)
	d.timed(&sc, d.child(0, "timestamp"))
	metadata := d.child(d.child(at, "metadata"), "reported")
	if metadata >= 0 && d.doc.nodes[metadata].next-metadata > awsMetadata {
		metadata = -1
	}
	outer := sc
	d.survey(reported, &sc, true)
	own := sc.fromPayload && (!outer.fromPayload || sc.at != outer.at)
	nodes := d.doc.nodes
	for i := reported + 1; i < nodes[reported].next; i = nodes[i].next {
		n, f, in := &nodes[i], d.fields[i], sc
		if !own && metadata >= 0 {
			// Each member has the time at which the service took it: of those
			// that the update did not touch that is an older one.
			d.timed(&in, d.child(d.child(metadata, string(d.doc.key(n))), "timestamp"))
		}
		switch {
		case n.kind == anObject && (f.role == roleHolder || f.role == roleValue):
			d.readObject(i, in)
		case n.kind == anArray && (f.role == roleHolder || f.role == roleValue):
			d.readArray(i, in)
		case n.kind == anObject && (f.role == roleMetric || f.role == roleMetricID):
			d.readGroup(i, f, in)
		default:
			d.readScalar(n, f, &in)
		}
	}
	d.finish()
}

// awsMetadata is up to how many nodes of metadata are searched for the time of
// each member. A shadow is of 8 KB, so there are no more.
const awsMetadata = 1024
