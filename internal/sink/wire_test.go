package sink

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
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
