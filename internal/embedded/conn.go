package embedded

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	writeWait = 10 * time.Second // how long a peer may take to read what it is sent
	closeWait = time.Second      // how long acknowledgements under way may hold up a close
)

// conn is a client's connection. It acknowledges what the client published
// once the receiver says so, past the MQTT library, which knows no other time
// than at once.
type conn struct {
	net.Conn
	open  context.Context // ends when the connection is closed
	shut  context.CancelFunc
	since atomic.Int64 // when the message that the receiver has now was given to it, in ms; 0: none

	mu      sync.Mutex
	acks    []byte        // to be written
	spare   []byte        // for its memory
	writing chan struct{} // closed when the writer has ended; nil: there is none
	closed  bool

	// What follows is guarded by the sessions.
	sess        *session
	queued      int // messages on their way to the socket
	subscribing bool
}

func newConn(nc net.Conn) *conn {
	open, shut := context.WithCancel(context.Background())
	return &conn{Conn: nc, open: open, shut: shut}
}

// Ack acknowledges a message: PUBACK for QoS 1, PUBREC for QoS 2, whose other
// half the library sees to. It never waits: while one system call is under way
// the next acks gather, so that a flush of a thousand messages is acknowledged
// in a few calls. On a connection that is closed it does nothing, and the
// publisher sends the message again.
func (c *conn) Ack(id uint16, qos byte) {
	kind := byte(4)
	if qos == 2 {
		kind = 5
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.acks = append(c.acks, kind<<4, 2, byte(id>>8), byte(id)) // MQTT 5 reads it as success
	if c.writing == nil {
		c.writing = make(chan struct{})
		go c.write(c.writing)
	}
}

// write writes acks until there are none.
func (c *conn) write(ended chan<- struct{}) {
	defer close(ended)
	for {
		c.mu.Lock()
		out := c.acks
		if len(out) == 0 {
			c.writing = nil
			c.mu.Unlock()
			return
		}
		c.acks = c.spare[:0]
		c.mu.Unlock()
		_, err := c.Write(out)
		c.mu.Lock()
		c.spare = out
		if err != nil {
			c.closed, c.acks = true, nil
		}
		c.mu.Unlock()
		if err != nil {
			c.shut()
			_ = c.Conn.Close() // ends the reader too
		}
	}
}

// Write writes p whole, whoever else is writing. It gives up on a peer that
// does not read: whoever waits for its turn behind this write must not wait
// for ever.
func (c *conn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// SetDeadline concerns reading alone: writes have their own.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// Close lets the acks under way out and closes the connection.
func (c *conn) Close() error {
	c.mu.Lock()
	c.closed = true
	writing := c.writing
	c.mu.Unlock()
	c.shut()
	if writing != nil {
		select {
		case <-writing:
		case <-time.After(closeWait):
		}
	}
	return c.Conn.Close()
}

// held says for how long the receiver has had no room for a message of this
// connection.
func (c *conn) held(now time.Time) time.Duration {
	if since := c.since.Load(); since != 0 {
		return now.Sub(time.UnixMilli(since))
	}
	return 0
}
