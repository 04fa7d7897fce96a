package embedded

import (
	"crypto/sha256"
	"crypto/subtle"
	"sync/atomic"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// Retained messages stay until they are replaced, so they are bounded too.
const (
	maxRetained      = 2048
	maxRetainedBytes = 16 << 10 // of one message
	maxSessions      = 10000
)

// hook is what the MQTT library calls: who may connect, and the gate.
type hook struct {
	mqtt.HookBase
	gate     *gate
	topics   *mqtt.TopicsIndex
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
	case mqtt.OnConnect, mqtt.OnConnectAuthenticate, mqtt.OnACLCheck, mqtt.OnSessionEstablish, mqtt.OnSessionEstablished,
		mqtt.OnDisconnect, mqtt.OnClientExpired, mqtt.OnSubscribe, mqtt.OnSubscribed, mqtt.OnPublish, mqtt.OnPacketProcessed,
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
	if !h.gate.admits(cl.ID) {
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
	return write || c == nil || h.gate.deliver(c)
}

func (h *hook) OnSessionEstablish(cl *mqtt.Client, pk packets.Packet) {
	if c := of(cl); c != nil {
		h.gate.attach(c, cl.ID, pk.Connect.Clean)
	}
}

func (h *hook) OnSessionEstablished(cl *mqtt.Client, _ packets.Packet) {
	if c := of(cl); c != nil {
		h.gate.settle(c, false)
	}
}

func (h *hook) OnDisconnect(cl *mqtt.Client, _ error, expire bool) {
	if c := of(cl); c != nil && expire && !cl.IsTakenOver() {
		h.gate.forget(c, cl.ID)
	}
}

func (h *hook) OnClientExpired(cl *mqtt.Client) { h.gate.forget(of(cl), cl.ID) }

func (h *hook) OnSubscribe(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	if c := of(cl); c != nil {
		h.gate.shut(c)
	}
	return pk
}

func (h *hook) OnSubscribed(cl *mqtt.Client, _ packets.Packet, codes []byte) {
	if c := of(cl); c != nil {
		granted := false
		for _, code := range codes {
			granted = granted || code <= packets.CodeGrantedQos2.Code
		}
		h.gate.settle(c, granted)
	}
}

// OnPublish runs before the message is acknowledged, and holds it back until
// it can be delivered.
func (h *hook) OnPublish(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	if c := of(cl); c != nil && !h.gate.enter(c, size(pk)) {
		return pk, packets.ErrRejectPacket // the only error that is certain to leave it unacknowledged
	}
	if pk.FixedHeader.Retain && len(pk.Payload) > 0 && (len(pk.Payload) > maxRetainedBytes || h.topics.Retained.Len() >= maxRetained) {
		if _, known := h.topics.Retained.Get(pk.TopicName); !known || len(pk.Payload) > maxRetainedBytes {
			pk.FixedHeader.Retain = false
			h.unretained.Add(1)
		}
	}
	return pk, nil
}

func (h *hook) OnPacketProcessed(cl *mqtt.Client, pk packets.Packet, _ error) {
	if c := of(cl); c != nil && pk.FixedHeader.Type == packets.Publish {
		h.gate.leave(c)
	}
}

func (h *hook) OnQosPublish(cl *mqtt.Client, pk packets.Packet, _ int64, _ int) {
	if c := of(cl); c != nil && pk.FixedHeader.Type == packets.Publish {
		h.gate.keep(c, pk.PacketID, size(pk))
	}
}

func (h *hook) OnQosComplete(cl *mqtt.Client, pk packets.Packet) {
	if c := of(cl); c != nil {
		h.gate.release(c, pk.PacketID, false)
	}
}

// OnQosDropped is also how a session tells that it has passed to another
// connection, with everything in it: then nothing was dropped.
func (h *hook) OnQosDropped(cl *mqtt.Client, pk packets.Packet) {
	if c := of(cl); c != nil && !cl.IsTakenOver() {
		h.gate.release(c, pk.PacketID, true)
	}
}

// OnPublishDropped is the library's word for a full connection. The packet id
// that it names is the publisher's, so the size stays counted for the session
// until the id is used again.
func (h *hook) OnPublishDropped(cl *mqtt.Client, _ packets.Packet) { h.gate.lost(of(cl)) }

func (h *hook) OnPacketSent(cl *mqtt.Client, pk packets.Packet, _ []byte) {
	if c := of(cl); c != nil && pk.FixedHeader.Type == packets.Publish {
		h.gate.sent(c)
	}
}

func size(pk packets.Packet) int { return packetMemory + len(pk.TopicName) + len(pk.Payload) }
