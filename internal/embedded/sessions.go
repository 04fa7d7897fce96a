package embedded

import "sync"

// The bounds of what subscribers may leave unacknowledged. They keep the
// broker's memory finite.
const (
	maxSessions  = 10000
	maxUnacked   = 16384     // messages that a session has not acknowledged
	maxQueued    = 1024      // messages on their way to one connection's socket
	maxBytes     = 256 << 20 // over all sessions
	packetMemory = 1024      // what a message costs beside its topic and payload
)

// sessions knows what each subscriber has yet to acknowledge. A session that
// never comes back must not stop the warehouse, so nobody waits for one: at
// its bound its messages are dropped and counted.
//
// The MQTT library has bounds too, in messages, not in bytes. They are above
// these, because what it drops it does not tell in a way that could be booked.
type sessions struct {
	mu    sync.Mutex
	byID  map[string]*session
	bytes int
	stats Stats
}

// session is what one client id has yet to acknowledge. It outlives its
// connections, as the MQTT session does.
type session struct {
	id      string
	conn    *conn // the connection it has now, or nil
	unacked map[uint16]int
}

func newSessions() *sessions { return &sessions{byID: make(map[string]*session)} }

// admits says whether a client may connect: a known session, or room for one.
func (s *sessions) admits(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id] != nil || len(s.byID) < maxSessions
}

// attach gives a session its new connection.
func (s *sessions) attach(c *conn, id string, clean bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ses := s.byID[id]
	if ses == nil || clean {
		s.forgetLocked(ses)
		ses = &session{id: id, unacked: make(map[uint16]int)}
		s.byID[id] = ses
	}
	c.sess, ses.conn = ses, c
}

// gone takes a connection from its session.
func (s *sessions) gone(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.sess != nil && c.sess.conn == c {
		c.sess.conn = nil
	}
}

// forget drops a session that has ended for good.
func (s *sessions) forget(c *conn, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ses := s.byID[id]; ses != nil && (ses.conn == nil || ses.conn == c) {
		s.forgetLocked(ses)
	}
}

func (s *sessions) forgetLocked(ses *session) {
	if ses == nil {
		return
	}
	delete(s.byID, ses.id)
	for _, size := range ses.unacked {
		s.bytes -= size
	}
	clear(ses.unacked) // the library may yet report them one by one
}

// subscribing tells deliver that it is asked about a subscription.
func (s *sessions) subscribing(c *conn, now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.subscribing = now
}

// deliver is asked before each message to a session, and counts it as on its
// way. False means that the session is full and the message not for it.
func (s *sessions) deliver(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ses := c.sess
	if ses == nil || c.subscribing {
		return true
	}
	if len(ses.unacked) >= maxUnacked || c.queued >= maxQueued || s.bytes >= maxBytes {
		s.stats.Dropped++
		return false
	}
	if ses.conn == c {
		c.queued++
	}
	return true
}

// sent counts a message that reached the socket.
func (s *sessions) sent(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.queued = max(0, c.queued-1) // a message that is sent again was not queued
	s.stats.Sent++
}

// lost counts a message that the library dropped on its way to a session.
func (s *sessions) lost(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.queued = max(0, c.queued-1)
	s.stats.Dropped++
}

// keep counts a message that a session has to acknowledge.
func (s *sessions) keep(c *conn, id uint16, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ses := c.sess; ses != nil {
		s.bytes += size - ses.unacked[id]
		ses.unacked[id] = size
	}
}

// release counts a message that a session acknowledged, or that is no longer
// kept for it.
func (s *sessions) release(c *conn, id uint16, dropped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.sess == nil {
		return
	}
	if size, ok := c.sess.unacked[id]; ok {
		s.bytes -= size
		delete(c.sess.unacked, id)
		if dropped {
			s.stats.Dropped++
		}
	}
}

// snapshot is the counters as they are now.
func (s *sessions) snapshot() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Sessions, st.Bytes = len(s.byID), s.bytes
	for _, ses := range s.byID {
		st.Unacked += len(ses.unacked)
		if ses.conn != nil {
			st.Connections++
		}
	}
	return st
}
