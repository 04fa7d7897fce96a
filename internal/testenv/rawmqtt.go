package testenv

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// RawMQTT is an MQTT client that does what it is told and no more: it shows
// which packets come, in which order, and can misbehave as no library would.
// One goroutine may write and another read.
type RawMQTT struct {
	net.Conn
	r   *bufio.Reader
	out []byte
	v5  bool
}

// Packet is an MQTT control packet without its length.
type Packet struct {
	Kind byte // the packet type, such as 4 for PUBACK
	Body []byte
}

// The packet types that tests look for.
const (
	Connack = 2
	Puback  = 4
	Pubrec  = 5
	Pubcomp = 7
	Pong    = 13
)

// ID is the packet identifier of an acknowledgement.
func (p Packet) ID() uint16 {
	if len(p.Body) < 2 {
		return 0
	}
	return binary.BigEndian.Uint16(p.Body)
}

// Code is the reason code of an MQTT 5 acknowledgement. It may be left out,
// which means success.
func (p Packet) Code() byte {
	if len(p.Body) < 3 {
		return 0
	}
	return p.Body[2]
}

// RawConnect is how a RawMQTT connects.
type RawConnect struct {
	ID        string
	V5        bool
	Keep      bool          // the session outlives the connection
	KeepAlive time.Duration // in seconds; 0: none
	Will      [2]string     // topic and payload, at QoS 1
}

// DialRaw connects and waits for the CONNACK. The connection is closed when
// the test ends.
func DialRaw(t testing.TB, addr string, c RawConnect) *RawMQTT {
	t.Helper()
	nc, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatalf("cannot connect to the broker: %v", err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	m := &RawMQTT{Conn: nc, r: bufio.NewReaderSize(nc, 64<<10), v5: c.V5}
	version, flags := byte(4), byte(2)
	if c.V5 {
		version = 5
	}
	if c.Keep {
		flags = 0
	}
	if c.Will[0] != "" {
		flags |= 4 | 1<<3
	}
	body := append(text(nil, "MQTT"), version, flags)
	body = binary.BigEndian.AppendUint16(body, uint16(c.KeepAlive/time.Second))
	switch {
	case c.V5 && c.Keep:
		body = append(body, 5, 0x11, 0, 0, 14, 16) // session expiry: one hour
	case c.V5:
		body = append(body, 0)
	}
	body = text(body, c.ID)
	if c.Will[0] != "" {
		if c.V5 {
			body = append(body, 0)
		}
		body = text(text(body, c.Will[0]), c.Will[1])
	}
	m.packet(1<<4, body)
	if err := m.Flush(); err != nil {
		t.Fatalf("cannot send CONNECT: %v", err)
	}
	p, err := m.Next(5 * time.Second)
	if err != nil || p.Kind != Connack || p.Code() != 0 && !c.V5 || len(p.Body) < 2 || p.Body[1] != 0 {
		t.Fatalf("connected with %+v, %v", p, err)
	}
	return m
}

func text(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func (m *RawMQTT) packet(head byte, body []byte) {
	m.out = append(m.out, head)
	m.out = binary.AppendUvarint(m.out, uint64(len(body))) // the same encoding
	m.out = append(m.out, body...)
}

// Publish gathers a PUBLISH; Flush sends what has gathered.
func (m *RawMQTT) Publish(topic, payload string, id uint16, qos byte, dup bool) {
	head := byte(3<<4) | qos<<1
	if dup {
		head |= 8
	}
	body := text(nil, topic)
	if qos > 0 {
		body = binary.BigEndian.AppendUint16(body, id)
	}
	if m.v5 {
		body = append(body, 0)
	}
	m.packet(head, append(body, payload...))
}

// PublishAlias gathers an MQTT 5 PUBLISH at QoS 1 with a topic alias. The
// topic may be empty once the alias is known.
func (m *RawMQTT) PublishAlias(topic, payload string, id, alias uint16) {
	body := binary.BigEndian.AppendUint16(text(nil, topic), id)
	body = binary.BigEndian.AppendUint16(append(body, 3, 0x23), alias)
	m.packet(3<<4|2, append(body, payload...))
}

// Release gathers the PUBREL of a message at QoS 2.
func (m *RawMQTT) Release(id uint16) {
	m.packet(6<<4|2, binary.BigEndian.AppendUint16(nil, id))
}

// Ping gathers a PINGREQ, and Bye a DISCONNECT.
func (m *RawMQTT) Ping() { m.packet(12<<4, nil) }

// Bye gathers a DISCONNECT.
func (m *RawMQTT) Bye() { m.packet(14<<4, nil) }

// Flush sends what has gathered.
func (m *RawMQTT) Flush() error {
	_, err := m.Conn.Write(m.out)
	m.out = m.out[:0]
	return err
}

// ErrSilent means that no packet came in time.
var ErrSilent = errors.New("no packet came in time")

// Next reads the next packet.
func (m *RawMQTT) Next(within time.Duration) (Packet, error) {
	if err := m.SetReadDeadline(time.Now().Add(within)); err != nil {
		return Packet{}, err
	}
	head, err := m.r.ReadByte()
	if err != nil {
		var ne net.Error
		if errors.As(err, &ne) && ne.Timeout() {
			return Packet{}, ErrSilent
		}
		return Packet{}, err
	}
	n, err := binary.ReadUvarint(m.r)
	if err != nil || n > 1<<28 {
		return Packet{}, fmt.Errorf("malformed length %d: %w", n, err)
	}
	p := Packet{Kind: head >> 4, Body: make([]byte, n)}
	_, err = io.ReadFull(m.r, p.Body)
	return p, err
}
