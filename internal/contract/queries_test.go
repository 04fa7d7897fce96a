package contract

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/query"
	"gudang/internal/reading"
	"gudang/internal/sink"
	"gudang/internal/testenv"
)

// The doctor has the server explain a list of queries. It is worth something
// only if that list is what the reading side sends: every find on the wire must
// have been explained.
func TestTheDoctorExplainsWhatIsAsked(t *testing.T) {
	f := testenv.FerretDB(t)
	wire := listen(t, f.Addr)
	to, err := sink.OpenMongo(f.URI, "gudang", sink.MongoWriters(1), sink.MongoBatch(1))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	writeTo(t, to, bucketOf(series("S-1", "temperature"), base, point{0, 1}), bucketOf(series("S-1", "humidity"), base, point{0, 1}))
	from, err := query.OpenMongo("mongodb://"+wire.addr+"/", "gudang", minute)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()

	_, err = from.Examine(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	explained := wire.take("explain")
	wire.take("find") // how the doctor looks is not what it explains
	q := reading.Query{Sensor: "S-1", Metric: "temperature", From: base, To: base + 60_000, Limit: 10}
	all := q
	all.Metric = ""
	for name, ask := range map[string]func() error{
		"sensors":           func() error { _, err := from.Sensors(t.Context(), "", 10); return err },
		"readings":          func() error { _, err := from.Readings(t.Context(), q); return err },
		"readings of all":   func() error { _, err := from.Readings(t.Context(), all); return err },
		"summaries":         func() error { _, err := from.Summaries(t.Context(), q); return err },
		"summaries of all":  func() error { _, err := from.Summaries(t.Context(), all); return err },
		"one sensor (none)": func() error { from.Sensor(t.Context(), "S-1"); return nil },
	} {
		if err := ask(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		sent := wire.take("find")
		if len(sent) == 0 {
			t.Errorf("%s: nothing was sent", name)
		}
		for _, shape := range sent {
			if !slices.Contains(explained, shape) {
				t.Errorf("%s asks for %s, and the doctor explains only\n%s", name, shape, strings.Join(explained, "\n"))
			}
		}
	}
}

// tap passes a server's connections on and takes note of the shapes of what is
// asked.
type tap struct {
	addr string

	mu     sync.Mutex
	shapes map[string][]string // by command
}

func listen(t *testing.T, server string) *tap {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	p := &tap{addr: ln.Addr().String(), shapes: map[string][]string{}}
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				io.Copy(client, up)
				client.Close()
			}()
			go func() {
				p.pass(up, client)
				up.Close()
			}()
		}
	}()
	return p
}

// pass copies messages (the wire protocol's OP_MSG has the command as its first
// section, behind 20 bytes and the section's kind).
func (p *tap) pass(to io.Writer, from io.Reader) {
	const opMsg = 2013
	for {
		head := make([]byte, 16)
		if _, err := io.ReadFull(from, head); err != nil {
			return
		}
		body := make([]byte, binary.LittleEndian.Uint32(head)-16)
		if _, err := io.ReadFull(from, body); err != nil {
			return
		}
		if binary.LittleEndian.Uint32(head[12:]) == opMsg && len(body) > 5 {
			p.note(bson.Raw(body[5:]))
		}
		if _, err := to.Write(append(head, body...)); err != nil {
			return
		}
	}
}

func (p *tap) note(doc bson.Raw) {
	command := "find"
	if inner, ok := doc.Lookup("explain").DocumentOK(); ok {
		doc, command = inner, "explain"
	}
	collection, ok := doc.Lookup("find").StringValueOK()
	if !ok {
		return
	}
	shape := fmt.Sprintf("%s: %s by %s", collection, shapeOf(doc.Lookup("filter")), shapeOf(doc.Lookup("sort")))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shapes[command] = append(p.shapes[command], shape)
}

// take is what was asked since it was last taken.
func (p *tap) take(command string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	shapes := p.shapes[command]
	p.shapes[command] = nil
	return shapes
}

// shapeOf is a document without its values: its fields, and which kind of
// comparison each has. To an index a list is as good as one value, and one end
// of a range as good as another.
func shapeOf(v bson.RawValue) string {
	doc, ok := v.DocumentOK()
	if !ok {
		return "="
	}
	var parts []string
	elements, _ := doc.Elements()
	for _, e := range elements {
		switch key := e.Key(); key {
		case "$gt", "$gte", "$lt", "$lte":
			return "range"
		case "$in", "$eq":
			return "="
		default:
			parts = append(parts, key+" "+shapeOf(e.Value()))
		}
	}
	return strings.Join(parts, ", ")
}
