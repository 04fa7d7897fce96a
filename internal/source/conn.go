package source

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"golang.org/x/net/proxy"
)

// conn is a connection to a broker as paho sees it, with four differences that
// paho leaves no other place for.
//
// It reads ahead: paho reads each packet in three pieces, each a system call.
//
// It gathers writes: while one system call is under way the next acks gather,
// so that a flush of a thousand messages is acknowledged in a few calls. paho
// writes each packet whole, so acks can go between them. They are written
// here, past paho's channels, which also spares keeping every message and its
// payload in memory until its flush is stored.
//
// It cuts a PUBLISH that is longer than the limit, so that a payload of 10 MB
// is refused without ever being in memory.
//
// It knows a broker that has gone by its silence. paho asks it with a ping and
// waits for the answer, but in a flood the ping is behind the acks: Mosquitto
// takes one packet from each client in turn, so with four busy publishers it
// reads an ack for every four messages that it sends, and a million of them can
// be under way. A connection that was given up for that would begin again with
// all of these messages.
type conn struct {
	net.Conn
	frames  *frames
	silence time.Duration // after which the broker has gone
	attempt func() bool   // ends the hold that the attempt to connect has on it

	open atomic.Int64 // messages taken of it and not acknowledged

	mu     sync.Mutex
	buf    []byte // to be written
	spare  []byte // for its memory
	err    error
	closed bool
	joined bool          // the attempt to connect, which has a deadline of its own, is over
	wake   chan struct{} // there is something to write, or closed
	less   sync.Cond     // there is less to write, or closed, or broken
	idle   chan struct{} // closed when the writer has ended
	end    chan struct{} // closed when there is nothing more to read
	ending sync.Once

	closing  sync.Once
	closeErr error
}

const (
	writeTimeout = 30 * time.Second
	goodbye      = time.Second // for the broker to close its side
	// writeAhead bounds what gathers behind a write: while it is more, nothing
	// is read. What comes on top are the acks of messages that were read before,
	// whose number has a bound too.
	writeAhead = 1 << 20
)

// newConn wraps nc. The writer that it starts ends with Close.
func newConn(nc net.Conn, limit int, silence time.Duration) *conn {
	c := &conn{Conn: nc, silence: silence, wake: make(chan struct{}, 1), idle: make(chan struct{}), end: make(chan struct{})}
	c.less.L = &c.mu
	c.frames = &frames{r: bufio.NewReaderSize(patient{c}, 64<<10), limit: limit}
	go c.writer()
	return c
}

// Read reads what the broker sent. A broken write ends it with the write's
// error: paho reports no connection as lost whose reader says that it was
// closed, and would wait for ever.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.frames.Read(p)
	if err == nil {
		return n, nil
	}
	c.ending.Do(func() { close(c.end) })
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return n, net.ErrClosed
	case c.err != nil:
		return n, c.err
	case errors.Is(err, net.ErrClosed):
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// Write gathers p, which is one whole packet.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.addLocked(p...); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Ack acknowledges a message of this connection: PUBACK for QoS 1, PUBREC for
// QoS 2 (the rest of whose handshake paho sees to).
func (c *conn) Ack(id uint16, qos byte) {
	c.open.Add(-1)
	kind := byte(4)
	if qos == 2 {
		kind = 5
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.addLocked(kind<<4, 2, byte(id>>8), byte(id)) // the broker sends again what it gets no ack for
}

// took counts a message that will be acknowledged; unacked is how many were not.
func (c *conn) took() { c.open.Add(1) }

func (c *conn) unacked() int64 { return c.open.Load() }

// patient reads from the connection what there is, unless too much waits to be
// written.
type patient struct{ *conn }

func (p patient) Read(b []byte) (int, error) {
	c := p.conn
	c.mu.Lock()
	for len(c.buf) > writeAhead && c.err == nil && !c.closed {
		c.less.Wait()
	}
	joined := c.joined
	if c.err == nil && joined && !c.closed { // else it has been set to end this
		_ = c.Conn.SetReadDeadline(time.Now().Add(c.silence))
	}
	c.mu.Unlock()
	n, err := c.Conn.Read(b)
	if joined && errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("broker has been silent for %v: %w", c.silence, err)
	}
	return n, err
}

func (c *conn) addLocked(p ...byte) error {
	switch {
	case c.err != nil:
		return c.err
	case c.closed:
		return net.ErrClosed
	}
	c.buf = append(c.buf, p...)
	c.signal()
	return nil
}

func (c *conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// writer writes what has gathered until the connection is closed or broken.
func (c *conn) writer() {
	defer close(c.idle)
	for range c.wake {
		for {
			c.mu.Lock()
			out, done := c.buf, c.closed
			if len(out) == 0 || c.err != nil {
				c.mu.Unlock()
				if done {
					return
				}
				break
			}
			c.buf = c.spare[:0]
			c.less.Signal()
			c.mu.Unlock()
			_ = c.Conn.SetWriteDeadline(time.Now().Add(writeTimeout)) // fails with the write that follows
			_, err := c.Conn.Write(out)
			c.mu.Lock()
			c.spare = out
			if err != nil {
				c.err = err
				_ = c.Conn.SetReadDeadline(time.Unix(1, 0)) // wakes the reader, which reports it
				c.less.Signal()
			}
			c.mu.Unlock()
		}
	}
}

// Close writes what has gathered, acks above all, waits for a moment until the
// broker has read it and closed its side, and closes the connection. Without
// that a connection which follows at once would overtake the acks, and what
// they were for would come again. paho closes from two goroutines: the second
// waits for the first.
func (c *conn) Close() error {
	c.closing.Do(func() { c.closeErr = c.close() })
	return c.closeErr
}

func (c *conn) close() error {
	c.mu.Lock()
	c.closed = true
	c.signal()
	c.less.Signal()
	c.mu.Unlock()
	select {
	case <-c.idle:
	case <-time.After(time.Second): // the broker doesn't read: it will send again
	}
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		select {
		case <-c.end:
		case <-time.After(goodbye):
		}
	}
	return c.Conn.Close()
}

// SetDeadline is that of an attempt to connect, and none when it is over. It
// concerns reading alone: writes have their own.
func (c *conn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.joined = t.IsZero()
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline does nothing: writes have their own.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// frames passes MQTT packets on and cuts a PUBLISH to limit bytes after its
// fixed header (MQTT 3.1.1, section 2.2). What is cut is longer than any
// payload that is accepted, and so is what is left of it.
type frames struct {
	r     *bufio.Reader
	limit int

	head []byte // of the fixed header, still to be passed on
	body int    // bytes of the packet still to be passed on
	skip int    // bytes behind them still to be left out
	mem  [5]byte
}

const publish = 3 // the packet type

func (f *frames) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(f.head) == 0 && f.body == 0 {
		if f.skip > 0 {
			n, err := f.r.Discard(f.skip)
			f.skip -= n
			if err != nil {
				return 0, err
			}
		}
		if err := f.next(); err != nil {
			return 0, err
		}
	}
	if len(f.head) > 0 {
		n := copy(p, f.head)
		f.head = f.head[n:]
		return n, nil
	}
	n, err := f.r.Read(p[:min(len(p), f.body)])
	f.body -= n
	return n, err
}

// next reads the fixed header of the next packet.
func (f *frames) next() error {
	kind, err := f.r.ReadByte()
	if err != nil {
		return err
	}
	size, shift := 0, 0
	for {
		b, err := f.r.ReadByte()
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		size |= int(b&0x7f) << shift
		if b&0x80 == 0 {
			break
		}
		if shift += 7; shift > 21 {
			return fmt.Errorf("broker sent a packet with a malformed length")
		}
	}
	f.body, f.skip = size, 0
	if kind>>4 == publish && size > f.limit {
		f.body, f.skip = f.limit, size-f.limit
	}
	f.head = append(f.mem[:0], kind)
	f.head = binary.AppendUvarint(f.head, uint64(f.body)) // the same encoding
	return nil
}

// dialer opens connections to brokers.
type dialer struct {
	ctx     context.Context // of the attempt
	tls     *tls.Config
	timeout time.Duration
	limit   int // bytes of a PUBLISH that are read
	silence time.Duration
	opened  func(*conn)
}

// open connects to a broker by the scheme of its URL.
func (d dialer) open(u *url.URL, o mqtt.ClientOptions) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(d.ctx, d.timeout)
	defer cancel()
	nc, err := d.dial(ctx, u, o)
	if err != nil {
		return nil, err
	}
	c := newConn(nc, d.limit, d.silence)
	// paho's wait for the CONNACK knows no context: end it with the attempt.
	c.attempt = context.AfterFunc(d.ctx, func() { _ = nc.Close() })
	d.opened(c)
	return c, nil
}

func (d dialer) dial(ctx context.Context, u *url.URL, o mqtt.ClientOptions) (net.Conn, error) {
	switch u.Scheme {
	case "ws", "wss":
		plain := *u
		plain.User = nil // the websocket library refuses URLs with credentials
		return mqtt.NewWebsocket(plain.String(), d.tls, d.timeout, o.HTTPHeaders, o.WebsocketOptions)
	}
	nc, err := proxy.Dial(ctx, "tcp", u.Host)
	if err != nil || u.Scheme == "tcp" {
		return nc, err
	}
	cfg := d.tls.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName = u.Hostname()
	}
	tc := tls.Client(nc, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		_ = nc.Close()
		return nil, err
	}
	return tc, nil
}
