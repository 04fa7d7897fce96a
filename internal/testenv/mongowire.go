package testenv

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// MongoServer answers MongoDB's commands as the test has it: for what no
// server on this machine can do. It is a standalone server to a driver.
type MongoServer struct {
	URI string

	t      testing.TB
	answer func(command bson.D) bson.D

	mu   sync.Mutex
	seen []bson.D
}

// NewMongoServer starts a server that answers each command, as a document with
// all that was sent for it, with what answer returns. It says hello by itself.
func NewMongoServer(t testing.TB, answer func(command bson.D) bson.D) *MongoServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &MongoServer{URI: "mongodb://" + l.Addr().String() + "/", t: t, answer: answer}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go s.serve(c)
		}
	}()
	return s
}

// Seen are the commands of that name so far.
func (s *MongoServer) Seen(name string) (commands []bson.D) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.seen {
		if c[0].Key == name {
			commands = append(commands, c)
		}
	}
	return commands
}

// MongoFault is an answer that refuses the command.
func MongoFault(code int32, message string) bson.D {
	return bson.D{{Key: "ok", Value: 0.0}, {Key: "code", Value: code}, {Key: "errmsg", Value: message}}
}

// Of the wire protocol: the only ways to ask that a driver uses.
const (
	opReply = 1
	opQuery = 2004
	opMsg   = 2013
)

var errWire = errors.New("not MongoDB's wire protocol")

func (s *MongoServer) serve(c net.Conn) {
	for {
		var head [16]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		size, id, op := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint32(head[12:])
		body := make([]byte, max(size, 16)-16)
		if _, err := io.ReadFull(c, body); err != nil {
			return
		}
		command, err := parseCommand(op, body)
		if err != nil {
			s.t.Errorf("cannot read a command: %v", err)
			return
		}
		reply, err := bson.Marshal(s.reply(command))
		if err != nil {
			s.t.Errorf("cannot encode the answer to %v: %v", command, err)
			return
		}
		if _, err := c.Write(frame(op, id, reply)); err != nil {
			return
		}
	}
}

func (s *MongoServer) reply(command bson.D) bson.D {
	switch command[0].Key {
	case "hello", "isMaster", "ismaster":
		return bson.D{
			{Key: "ok", Value: 1.0},
			{Key: "isWritablePrimary", Value: true},
			{Key: "ismaster", Value: true},
			{Key: "helloOk", Value: true},
			{Key: "minWireVersion", Value: int32(0)},
			{Key: "maxWireVersion", Value: int32(21)},
			{Key: "maxBsonObjectSize", Value: int32(16 << 20)},
			{Key: "maxMessageSizeBytes", Value: int32(48_000_000)},
			{Key: "maxWriteBatchSize", Value: int32(100_000)},
		}
	case "endSessions":
		return bson.D{{Key: "ok", Value: 1.0}}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, command)
	return s.answer(command)
}

func frame(op, id uint32, reply []byte) []byte {
	out := binary.LittleEndian.AppendUint32(nil, 0)
	out = binary.LittleEndian.AppendUint32(out, 0)
	out = binary.LittleEndian.AppendUint32(out, id)
	if op == opQuery {
		out = binary.LittleEndian.AppendUint32(out, opReply)
		out = append(out, make([]byte, 20)...) // flags, cursor, from, how many
		out[32] = 1
	} else {
		out = binary.LittleEndian.AppendUint32(out, opMsg)
		out = append(out, 0, 0, 0, 0, 0) // flags, and a section of one document
	}
	out = append(out, reply...)
	binary.LittleEndian.PutUint32(out, uint32(len(out)))
	return out
}

// parseCommand is the command of a message, with the documents that were sent
// beside it in their place.
func parseCommand(op uint32, body []byte) (command bson.D, err error) {
	if op == opQuery {
		_, rest, _ := cutName(body[min(4, len(body)):])
		return command, bson.Unmarshal(rest[min(8, len(rest)):], &command)
	}
	if op != opMsg || len(body) < 5 {
		return nil, errWire
	}
	var beside bson.D
	for rest := body[4:]; len(rest) > 4; {
		kind := rest[0]
		size := binary.LittleEndian.Uint32(rest[1:])
		if int(size) > len(rest)-1 || size < 5 {
			return nil, errWire
		}
		section := rest[1 : 1+size]
		rest = rest[1+size:]
		if kind == 0 {
			if err := bson.Unmarshal(section, &command); err != nil {
				return nil, err
			}
			continue
		}
		name, docs, _ := cutName(section[4:])
		var list bson.A
		for len(docs) > 4 {
			n := min(binary.LittleEndian.Uint32(docs), uint32(len(docs)))
			var doc bson.D
			if err := bson.Unmarshal(docs[:n], &doc); err != nil {
				return nil, err
			}
			list, docs = append(list, doc), docs[n:]
		}
		beside = append(beside, bson.E{Key: name, Value: list})
	}
	if len(command) == 0 {
		return nil, errWire
	}
	return append(command, beside...), nil
}

func cutName(b []byte) (name string, rest []byte, ok bool) {
	for i, c := range b {
		if c == 0 {
			return string(b[:i]), b[i+1:], true
		}
	}
	return "", nil, false
}
