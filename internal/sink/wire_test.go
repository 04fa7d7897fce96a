package sink

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

// serveMongo speaks MongoDB's protocol at the address that it returns, and has
// each command answered: for what no server of the tests can, and for what is
// to be measured without one.
func serveMongo(t testing.TB, answer func(command bson.Raw) bson.D) (addr string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answerMessages(conn, answer)
		}
	}()
	return listener.Addr().String()
}

// answerMessages answers messages of either form: the driver greets in the old
// one.
func answerMessages(conn net.Conn, answer func(bson.Raw) bson.D) {
	defer conn.Close()
	for {
		var head [16]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		body := make([]byte, binary.LittleEndian.Uint32(head[:])-16)
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		const opQuery, opReply, opMsg = 2004, 1, 2013
		op, prefix := uint32(opMsg), make([]byte, 5)
		doc := body[5:]
		if binary.LittleEndian.Uint32(head[12:]) == opQuery {
			op, prefix = opReply, make([]byte, 20)
			prefix[16] = 1 // one document
			doc = body[4+strings.IndexByte(string(body[4:]), 0)+1+8:]
		}
		reply, err := bson.Marshal(answer(doc[:binary.LittleEndian.Uint32(doc)]))
		if err != nil {
			return
		}
		out := binary.LittleEndian.AppendUint32(nil, uint32(16+len(prefix)+len(reply)))
		out = append(out, 0, 0, 0, 0)
		out = append(out, head[4:8]...)
		out = binary.LittleEndian.AppendUint32(out, op)
		if _, err := conn.Write(append(append(out, prefix...), reply...)); err != nil {
			return
		}
	}
}

// greeting is the answer of a standalone server to hello and its old name.
func greeting() bson.D {
	return bson.D{
		{Key: "isWritablePrimary", Value: true},
		{Key: "ismaster", Value: true},
		{Key: "maxWireVersion", Value: int32(21)},
		{Key: "minWireVersion", Value: int32(0)},
		{Key: "maxBsonObjectSize", Value: int32(16 << 20)},
		{Key: "maxMessageSizeBytes", Value: int32(48 << 20)},
		{Key: "maxWriteBatchSize", Value: int32(100_000)},
		{Key: "ok", Value: 1.0},
	}
}

// A server that speaks of documents that it was not sent is not believed, and
// ends nothing.
func TestAnAnswerAboutOtherDocumentsIsNone(t *testing.T) {
	at := int32(0)
	addr := serveMongo(t, func(command bson.Raw) bson.D {
		elements, _ := command.Elements()
		switch elements[0].Key() {
		case "update", "insert":
			return bson.D{{Key: "ok", Value: 1}, {Key: "n", Value: 0}, {Key: "writeErrors", Value: bson.A{
				bson.D{{Key: "index", Value: at}, {Key: "code", Value: int32(mongodb.CodeDuplicateKey)}, {Key: "errmsg", Value: "E11000"}},
			}}}
		case "find":
			return bson.D{{Key: "ok", Value: 1}, {Key: "cursor", Value: bson.D{
				{Key: "id", Value: int64(0)}, {Key: "ns", Value: "gudang.c"}, {Key: "firstBatch", Value: bson.A{}},
			}}}
		default:
			return greeting()
		}
	})
	m, err := OpenMongo("mongodb://"+addr, "gudang")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	m.setup.ready = true
	db, err := m.client.Database()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := bson.Marshal(bson.D{{Key: "_id", Value: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, at = range []int32{-1, 0, 1, 99} {
		answer, err := m.client.Insert(t.Context(), db, "c", []bson.Raw{doc})
		if want := at == 0; err != nil || len(answer.Errors) == 1 != want {
			t.Errorf("index %d: %+v, error %v", at, answer, err)
		}
		if res := m.WriteBuckets(t.Context(), []*reading.Bucket{bucket("a", 1)}); len(res.Again) != 1 || res.Err == nil {
			t.Errorf("index %d: a bucket is written: %+v", at, res)
		}
		sensor := reading.Sensor{ID: "a", Metrics: map[string][]reading.Point{"t": {{Time: 1, Value: 1}}}}
		if err := m.CreateSensors(t.Context(), []reading.Sensor{sensor}, 3); err == nil {
			t.Errorf("index %d: a sensor is written", at)
		}
	}
}
