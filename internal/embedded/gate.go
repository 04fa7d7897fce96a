package embedded

import (
	"context"
	"sync"
	"time"
)

// The bounds of one session. They keep the broker's memory finite: what a
// session has not acknowledged is kept until it does.
const (
	maxUnacked   = 16384     // messages that a session has not acknowledged
	maxBytes     = 64 << 20  // the same in bytes
	maxQueued    = 1024      // messages on their way to one connection's socket
	maxForeign   = 256 << 20 // bytes, over all sessions that nobody waits for
	packetMemory = 1024      // what a message costs beside its topic and payload
)

// gate stands before the acknowledgement of every message that is published.
//
// The MQTT library acknowledges a message first and delivers it then, and
// where a subscriber's queue is full it drops what the publisher has been
// promised. It also loses what is delivered while a session passes from an old
// connection to a new one. So the gate lets a message in only while there is
// room for it in every session that must get it (the consumer's), and nobody
// in while such a session changes hands. The publisher just waits for its
// PUBACK meanwhile, and its connection is not read: back-pressure down to the
// sensor, which is the one place where waiting costs nothing.
//
// Sessions of others are not waited for. One that never comes back would stop
// the warehouse, so at its bound its messages are dropped and counted.
type gate struct {
	consumer string // the client id that is waited for; its connections may add "-1", "-2", …

	mu          sync.Mutex
	changed     sync.Cond
	sessions    map[string]*session
	inside      int // publishes between enter and leave
	insideBytes int
	handovers   int // consumer sessions that are changing hands
	held        bool
	heldSince   time.Time
	closed      bool
	foreign     int // bytes unacknowledged by sessions that nobody waits for
	stats       Stats
}

// session is what one client id has yet to acknowledge. It outlives its
// connections, as the MQTT session does.
type session struct {
	id         string
	consumer   bool
	subscribed bool
	conn       *conn // the connection it has now, or nil
	unacked    map[uint16]int
	bytes      int
}

func newGate(consumer string) *gate {
	g := &gate{consumer: consumer, sessions: make(map[string]*session)}
	g.changed.L = &g.mu
	return g
}

// isConsumer says whether publishers wait for a client of that id.
func (g *gate) isConsumer(id string) bool {
	n := len(g.consumer)
	return n > 0 && len(id) >= n && id[:n] == g.consumer && (len(id) == n || id[n] == '-')
}

// enter waits until a message of that size can be delivered to the consumer.
// False means that the broker is closing and the message is not taken.
func (g *gate) enter(c *conn, size int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.sess != nil && c.sess.consumer {
		return !g.closed // its acknowledgements come on the connection that would wait for them
	}
	if g.hold(size) {
		g.stats.Waits++
		g.stats.Waiting++
		for g.hold(size) {
			g.changed.Wait()
		}
		g.stats.Waiting--
	}
	if g.closed {
		return false
	}
	c.inside, c.insideBytes = true, size
	g.inside++
	g.insideBytes += size
	return true
}

// hold decides whether a message has to wait. Once one had to, all do until
// resume finds an eighth of the room free: waking every publisher for each
// acknowledgement would cost more than the messages.
func (g *gate) hold(size int) bool {
	if g.closed {
		return false
	}
	if g.handovers > 0 || g.held {
		return true
	}
	if g.room(maxUnacked, maxBytes, maxQueued, size) {
		return false
	}
	g.held, g.heldSince = true, time.Now()
	return true
}

// room says whether the consumer's sessions, with what is inside on its way to
// them, are below these bounds. What is inside may be counted twice for a
// moment, so the bounds hold, and may be missed by as many messages.
func (g *gate) room(unacked, bytes, queued, size int) bool {
	if g.consumer == "" {
		return true
	}
	ready := false
	for _, s := range g.sessions {
		if !s.consumer || !s.subscribed {
			continue
		}
		ready = true
		n := len(s.unacked) + g.inside
		if n >= unacked || n > 0 && s.bytes+g.insideBytes+size > bytes || s.conn != nil && s.conn.queued+g.inside >= queued {
			return false
		}
	}
	return ready
}

// resume lets the publishers in again if there is room enough. It is called
// with the lock held, after anything that may have made room.
func (g *gate) resume() {
	if g.held && g.room(maxUnacked*7/8, maxBytes*7/8, maxQueued/2, 0) {
		g.held = false
		g.changed.Broadcast()
	} else if g.handovers > 0 && g.inside == 0 {
		g.changed.Broadcast()
	}
}

// leave ends what enter began, however the publish ended.
func (g *gate) leave(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leaveLocked(c)
}

func (g *gate) leaveLocked(c *conn) {
	if c.inside {
		g.inside--
		g.insideBytes -= c.insideBytes
		c.inside = false
		g.resume()
	}
}

// attach gives a session its new connection. For a consumer the gate is then
// closed, and nothing inside, until settle.
func (g *gate) attach(c *conn, id string, clean bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isConsumer(id) {
		g.shutLocked(c)
	}
	s := g.sessions[id]
	if s == nil || clean {
		g.forgetLocked(s)
		s = &session{id: id, consumer: g.isConsumer(id), unacked: make(map[uint16]int)}
		g.sessions[id] = s
	}
	c.sess, s.conn = s, c
}

// shut closes the gate for a change of a consumer's session or subscriptions,
// and returns when no publish is under way.
func (g *gate) shut(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.subscribing = true
	if c.sess != nil && c.sess.consumer {
		g.shutLocked(c)
	}
}

func (g *gate) shutLocked(c *conn) {
	if !c.handover {
		c.handover = true
		g.handovers++
	}
	for g.inside > 0 && !g.closed {
		g.changed.Wait()
	}
}

// settle ends what attach or shut began.
func (g *gate) settle(c *conn, subscribed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.subscribing = false
	if subscribed && c.sess != nil {
		c.sess.subscribed = true
	}
	g.settleLocked(c)
}

func (g *gate) settleLocked(c *conn) {
	if c.handover {
		c.handover = false
		g.handovers--
		g.changed.Broadcast()
	}
	g.resume()
}

// gone ends everything that hangs on a connection. It is the one call that is
// certain to come, so that no error and no panic can leave the gate shut.
func (g *gate) gone(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.sess != nil && c.sess.conn == c {
		c.sess.conn = nil
	}
	g.leaveLocked(c)
	g.settleLocked(c)
}

// forget drops a session that has ended for good.
func (g *gate) forget(c *conn, id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.sessions[id]; s != nil && (s.conn == nil || s.conn == c) {
		g.forgetLocked(s)
	}
}

func (g *gate) forgetLocked(s *session) {
	if s == nil {
		return
	}
	if !s.consumer {
		g.foreign -= s.bytes
	}
	delete(g.sessions, s.id)
	s.bytes = 0
	clear(s.unacked) // the library may yet report them one by one
}

// admits says whether a client may connect: a known session, or room for one.
func (g *gate) admits(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sessions[id] != nil || len(g.sessions) < maxSessions
}

// deliver is asked before each message to a session, and counts it as on its
// way. False means that the session is full and the message not for it.
func (g *gate) deliver(c *conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := c.sess
	if s == nil || c.subscribing && !s.consumer {
		return true
	}
	if !s.consumer && (len(s.unacked) >= maxUnacked || c.queued >= maxQueued || g.foreign >= maxForeign) {
		g.stats.Dropped++
		return false
	}
	if s.conn == c {
		c.queued++
	}
	return true
}

// sent counts a message that reached the socket.
func (g *gate) sent(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.queued = max(0, c.queued-1) // a message that is sent again was not queued
	g.stats.Sent++
	g.resume()
}

// keep counts a message that a session has to acknowledge.
func (g *gate) keep(c *conn, id uint16, size int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := c.sess; s != nil {
		g.account(s, size-s.unacked[id])
		s.unacked[id] = size
	}
}

// release counts a message that a session acknowledged, or that is no longer
// kept for it.
func (g *gate) release(c *conn, id uint16, dropped bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := c.sess
	if s == nil {
		return
	}
	if size, ok := s.unacked[id]; ok {
		g.account(s, -size)
		delete(s.unacked, id)
		if dropped {
			g.stats.Dropped++
		}
		g.resume()
	}
}

func (g *gate) account(s *session, bytes int) {
	s.bytes += bytes
	if !s.consumer {
		g.foreign += bytes
	}
}

// lost counts a message that was dropped on its way to a session.
func (g *gate) lost(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c != nil {
		c.queued = max(0, c.queued-1)
	}
	g.stats.Dropped++
}

// close lets nobody in any more. Publishers that wait go home unacknowledged
// and send again when the broker is back.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.changed.Broadcast()
}

// drain closes the gate and waits until the consumer has acknowledged all that
// publishers were promised.
func (g *gate) drain(ctx context.Context) error {
	g.close()
	for {
		g.mu.Lock()
		left := g.inside
		for _, s := range g.sessions {
			if s.consumer {
				left += len(s.unacked)
			}
		}
		g.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// snapshot is the counters as they are now, and since when publishers wait.
func (g *gate) snapshot() (Stats, time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := g.stats
	st.Sessions = len(g.sessions)
	for _, s := range g.sessions {
		st.Unacked += len(s.unacked)
		st.Bytes += s.bytes
		if s.conn != nil {
			st.Connections++
		}
	}
	var since time.Time
	if g.held && st.Waiting > 0 {
		since = g.heldSince
	}
	return st, since
}
