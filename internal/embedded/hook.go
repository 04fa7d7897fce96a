package embedded

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
	"github.com/mochi-mqtt/server/v2/system"

	"gudang/internal/reading"
)

// Receiver is what the service's own messages go to.
type Receiver interface {
	// Receive is given each message that is published, before it is
	// acknowledged, and says whether the service wants it. Then it is
	// acknowledged when acker is told so; a message at QoS 0 has none. While
	// there is no room it waits, which holds the publisher back. After an
	// error the message counts as not received: it is not acknowledged, and
	// goes to nobody else. When the connection is closed, ctx ends. It keeps
	// nothing of payload, and is called by many goroutines at once, for each
	// connection in the order of its messages.
	Receive(ctx context.Context, client, topic string, payload []byte, id uint16, qos byte, again bool, acker reading.Acker) (wanted bool, err error)
}

// Retained messages stay until they are replaced, so they are bounded too.
const (
	maxRetained      = 2048
	maxRetainedBytes = 16 << 10 // of one message
)

// hook is what the MQTT library calls: who may connect, who gets what, and
// what becomes of a message that is published.
type hook struct {
	mqtt.HookBase
	sessions *sessions
	receiver Receiver
	topics   *mqtt.TopicsIndex
	info     *system.Info
	user     [sha256.Size]byte
	password [sha256.Size]byte
	anyone   bool // no credentials are set: loopback only
	// unretained counts messages that were delivered but not retained.
	unretained atomic.Int64
}

func (h *hook) ID() string { return "gudang" }

// Provides must list every method below, or it is not called.
func (h *hook) Provides(b byte) bool {
	switch b {
	case mqtt.OnConnect, mqtt.OnConnectAuthenticate, mqtt.OnACLCheck, mqtt.OnSessionEstablish, mqtt.OnDisconnect, mqtt.OnClientExpired,
		mqtt.OnSubscribe, mqtt.OnSubscribed, mqtt.OnPacketRead, mqtt.OnPublish, mqtt.OnPublished, mqtt.OnWillSent,
		mqtt.OnQosPublish, mqtt.OnQosComplete, mqtt.OnQosDropped, mqtt.OnPublishDropped, mqtt.OnPacketSent:
		return true
	}
	return false
}

// of is the connection of a client. It is nil for one that never had one.
func of(cl *mqtt.Client) *conn {
	c, _ := cl.Net.Conn.(*conn)
	return c
}

func (h *hook) OnConnect(cl *mqtt.Client, _ packets.Packet) error {
	if !h.sessions.admits(cl.ID) {
		return packets.ErrServerBusy
	}
	return nil
}

// OnConnectAuthenticate compares hashes, so that neither the time it takes nor
// a length tells how much of a guess was right.
func (h *hook) OnConnectAuthenticate(_ *mqtt.Client, pk packets.Packet) bool {
	if h.anyone {
		return true
	}
	user, password := sha256.Sum256(pk.Connect.Username), sha256.Sum256(pk.Connect.Password)
	return subtle.ConstantTimeCompare(user[:], h.user[:])&subtle.ConstantTimeCompare(password[:], h.password[:]) == 1
}

// OnACLCheck allows everything: whoever may connect may publish and subscribe.
// The library also asks it before each single delivery, which is where a full
// session is passed over.
func (h *hook) OnACLCheck(cl *mqtt.Client, _ string, write bool) bool {
	c := of(cl)
	return write || c == nil || h.sessions.deliver(c)
}

func (h *hook) OnSessionEstablish(cl *mqtt.Client, pk packets.Packet) {
	if c := of(cl); c != nil {
		h.sessions.attach(c, cl.ID, pk.Connect.Clean)
	}
}

func (h *hook) OnDisconnect(cl *mqtt.Client, _ error, expire bool) {
	if c := of(cl); c != nil && expire && !cl.IsTakenOver() {
		h.sessions.forget(c, cl.ID)
	}
}

func (h *hook) OnClientExpired(cl *mqtt.Client) { h.sessions.forget(of(cl), cl.ID) }

func (h *hook) OnSubscribe(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	if c := of(cl); c != nil {
		h.sessions.subscribing(c, true)
	}
	return pk
}

func (h *hook) OnSubscribed(cl *mqtt.Client, _ packets.Packet, _ []byte) {
	if c := of(cl); c != nil {
		h.sessions.subscribing(c, false)
	}
}

// OnPublish hands a message to the receiver.
//
// The library acknowledges a message as soon as this returns, and knows no
// answer that makes it deliver one to subscribers and leave the rest to us:
// ErrRejectPacket drops it, CodeSuccessIgnore acknowledges and drops it, and
// any other error acknowledges it for MQTT 3.1.1. What it does not acknowledge
// are messages of the program itself, so the client passes for it until
// OnPublished. In between the library looks at that mark only to decide about
// the acknowledgement and its own books on what it still has to acknowledge.
func (h *hook) OnPublish(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	wanted, err := h.receive(cl, pk)
	if err != nil {
		return pk, packets.ErrRejectPacket
	}
	if pk.FixedHeader.Retain && len(pk.Payload) > 0 && (len(pk.Payload) > maxRetainedBytes || h.topics.Retained.Len() >= maxRetained) {
		if _, known := h.topics.Retained.Get(pk.TopicName); !known || len(pk.Payload) > maxRetainedBytes {
			pk.FixedHeader.Retain = false
			h.unretained.Add(1)
		}
	}
	cl.Net.Inline = wanted
	return pk, nil
}

// receive gives a message to the receiver, and says whether it was for it.
func (h *hook) receive(cl *mqtt.Client, pk packets.Packet) (wanted bool, err error) {
	c := of(cl)
	if c == nil || h.receiver == nil {
		return false, nil
	}
	var acker reading.Acker
	if pk.FixedHeader.Qos > 0 {
		acker = c
		// The library has one set of identifiers for both directions: what it
		// kept for the client under this one it has just forgotten.
		h.sessions.release(c, pk.PacketID, false)
	}
	c.since.Store(time.Now().UnixMilli())
	defer c.since.Store(0)
	return h.receiver.Receive(c.open, cl.ID, pk.TopicName, pk.Payload, pk.PacketID, pk.FixedHeader.Qos, pk.FixedHeader.Dup, acker)
}

func (h *hook) OnPublished(cl *mqtt.Client, _ packets.Packet) { cl.Net.Inline = false }

// OnWillSent hands on what a client left to be said after its end. The library
// has no hook before that. Nobody waits for an acknowledgement.
func (h *hook) OnWillSent(cl *mqtt.Client, pk packets.Packet) {
	pk.FixedHeader.Qos = 0
	_, _ = h.receive(cl, pk) // without room it is lost, as any message at QoS 0
}

// OnPacketRead lets the library end the handshake of a message at QoS 2 whose
// first half is ours: it answers to a PUBREL that it has never heard of, but
// an MQTT 5 client would take that answer for an error.
func (h *hook) OnPacketRead(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	if pk.FixedHeader.Type == packets.Pubrel {
		if _, known := cl.State.Inflight.Get(pk.PacketID); !known {
			cl.State.Inflight.Set(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pubrec}, PacketID: pk.PacketID, Created: time.Now().Unix()})
			atomic.AddInt64(&h.info.Inflight, 1)
		}
	}
	return pk, nil
}

func (h *hook) OnQosPublish(cl *mqtt.Client, pk packets.Packet, _ int64, _ int) {
	if c := of(cl); c != nil && pk.FixedHeader.Type == packets.Publish {
		h.sessions.keep(c, pk.PacketID, size(pk))
	}
}

func (h *hook) OnQosComplete(cl *mqtt.Client, pk packets.Packet) {
	if c := of(cl); c != nil {
		h.sessions.release(c, pk.PacketID, false)
	}
}

// OnQosDropped is also how a session tells that it has passed to another
// connection, with everything in it: then nothing was dropped.
func (h *hook) OnQosDropped(cl *mqtt.Client, pk packets.Packet) {
	if c := of(cl); c != nil && !cl.IsTakenOver() {
		h.sessions.release(c, pk.PacketID, true)
	}
}

// OnPublishDropped is the library's word for a full connection. The packet id
// that it names is the publisher's, so the size stays counted for the session
// until the id is used again.
func (h *hook) OnPublishDropped(cl *mqtt.Client, _ packets.Packet) {
	if c := of(cl); c != nil {
		h.sessions.lost(c)
	}
}

func (h *hook) OnPacketSent(cl *mqtt.Client, pk packets.Packet, _ []byte) {
	if c := of(cl); c != nil && pk.FixedHeader.Type == packets.Publish {
		h.sessions.sent(c)
	}
}

func size(pk packets.Packet) int { return packetMemory + len(pk.TopicName) + len(pk.Payload) }
