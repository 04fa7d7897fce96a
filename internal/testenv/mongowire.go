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

// ServeMongo answers MongoDB's commands as the test has it, at the URI that it
// returns: for what no server on this machine can do, and for what is measured
// without one. It is a standalone server to a driver, and says hello by itself.
// Beside the command are the documents that were sent apart from it, by name.
func ServeMongo(t testing.TB, answer func(command bson.Raw, beside bson.D) bson.D) (uri string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go serveMongo(t, c, answer)
		}
	}()
	return "mongodb://" + l.Addr().String() + "/"
}

// MongoServer is such a server that remembers its commands, each a document with
// all that was sent for it.
type MongoServer struct {
	URI string

	t      testing.TB
	answer func(command bson.D) bson.D

	mu   sync.Mutex
	seen []bson.D
}

// NewMongoServer starts a server that answers each command with what answer
// returns.
func NewMongoServer(t testing.TB, answer func(command bson.D) bson.D) *MongoServer {
	t.Helper()
	s := &MongoServer{t: t, answer: answer}
	s.URI = ServeMongo(t, s.reply)
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

func serveMongo(t testing.TB, c net.Conn, answer func(bson.Raw, bson.D) bson.D) {
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
		command, beside, err := parseCommand(op, body)
		if err != nil {
			t.Errorf("cannot read a command: %v", err)
			return
		}
		said, own := greeting(command)
		if !own {
			said = answer(command, beside)
		}
		reply, err := bson.Marshal(said)
		if err != nil {
			t.Errorf("cannot encode the answer to %v: %v", command, err)
			return
		}
		if _, err := c.Write(frame(op, id, reply)); err != nil {
			return
		}
	}
}

// CommandName is what a command does.
func CommandName(command bson.Raw) string {
	first, err := command.IndexErr(0)
	if err != nil {
		return ""
	}
	return first.Key()
}

// greeting answers what every server does.
func greeting(command bson.Raw) (reply bson.D, own bool) {
	switch CommandName(command) {
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
		}, true
	case "endSessions":
		return bson.D{{Key: "ok", Value: 1.0}}, true
	}
	return nil, false
}

func (s *MongoServer) reply(raw bson.Raw, beside bson.D) bson.D {
	var command bson.D
	if err := bson.Unmarshal(raw, &command); err != nil {
		s.t.Errorf("cannot read a command: %v", err)
		return nil
	}
	command = append(command, beside...)
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

// parseCommand is the command of a message, and the documents that were sent
// beside it.
func parseCommand(op uint32, body []byte) (command bson.Raw, beside bson.D, err error) {
	if op == opQuery {
		_, rest, _ := cutName(body[min(4, len(body)):])
		command = rest[min(8, len(rest)):]
		return command, nil, command.Validate()
	}
	if op != opMsg || len(body) < 5 {
		return nil, nil, errWire
	}
	for rest := body[4:]; len(rest) > 4; {
		kind := rest[0]
		size := binary.LittleEndian.Uint32(rest[1:])
		if int(size) > len(rest)-1 || size < 5 {
			return nil, nil, errWire
		}
		section := rest[1 : 1+size]
		rest = rest[1+size:]
		if kind == 0 {
			command = section
			continue
		}
		name, docs, _ := cutName(section[4:])
		var list bson.A
		for len(docs) > 4 {
			n := min(binary.LittleEndian.Uint32(docs), uint32(len(docs)))
			var doc bson.D
			if err := bson.Unmarshal(docs[:n], &doc); err != nil {
				return nil, nil, err
			}
			list, docs = append(list, doc), docs[n:]
		}
		beside = append(beside, bson.E{Key: name, Value: list})
	}
	if CommandName(command) == "" {
		return nil, nil, errWire
	}
	return command, beside, nil
}

func cutName(b []byte) (name string, rest []byte, ok bool) {
	for i, c := range b {
		if c == 0 {
			return string(b[:i]), b[i+1:], true
		}
	}
	return "", nil, false
}
