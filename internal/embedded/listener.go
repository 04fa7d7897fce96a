package embedded

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"
)

const connectWait = 10 * time.Second // how long a connection may take to say CONNECT

// listener hands connections to the MQTT library. It is used instead of the
// library's own, which stops listening without a word at the first error of
// Accept, lets a silent connection stay for ever, can deadlock when it is
// closed, and takes the process down when a packet makes the decoder panic.
type listener struct {
	ln   net.Listener
	left func(*conn) // is told of each connection that has ended
	log  *slog.Logger

	mu     sync.Mutex
	conns  map[*conn]struct{}
	closed bool
	wg     sync.WaitGroup
}

func (l *listener) Init(*slog.Logger) error { return nil }
func (l *listener) ID() string              { return "mqtt" }
func (l *listener) Address() string         { return l.ln.Addr().String() }
func (l *listener) Protocol() string        { return "tcp" }

// Serve accepts connections until the listener is closed.
func (l *listener) Serve(establish listeners.EstablishFn) {
	for {
		nc, err := l.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of file descriptors, most likely: it passes
			l.log.Error("cannot accept a connection", "error", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		c := newConn(nc)
		if !l.add(c) {
			_ = c.Close()
			return
		}
		go func() {
			defer l.remove(c)
			l.serve(establish, c)
		}()
	}
}

// serve runs one connection to its end.
func (l *listener) serve(establish listeners.EstablishFn, c *conn) {
	defer func() {
		if p := recover(); p != nil {
			l.log.Error("a packet made the MQTT library panic: connection closed", "remote", c.RemoteAddr(), "panic", p, "stack", string(debug.Stack()))
		}
	}()
	if err := c.SetReadDeadline(time.Now().Add(connectWait)); err != nil {
		return
	}
	err := establish(l.ID(), c)
	switch {
	case err == nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded):
		l.log.Debug("connection ended", "remote", c.RemoteAddr(), "error", err)
	case errors.Is(err, packets.ErrPacketTooLarge):
		l.log.Warn("packet too large: connection closed", "remote", c.RemoteAddr(), "limit", MaxPacket)
	default:
		l.log.Warn("connection ended", "remote", c.RemoteAddr(), "error", fmt.Sprint(err))
	}
}

func (l *listener) add(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.conns[c] = struct{}{}
	l.wg.Add(1)
	return true
}

func (l *listener) remove(c *conn) {
	l.left(c)
	_ = c.Close()
	l.mu.Lock()
	delete(l.conns, c)
	l.mu.Unlock()
	l.wg.Done()
}

// refuse takes no more connections.
func (l *listener) refuse() { _ = l.ln.Close() }

// held counts the connections of which a message has been waiting for room for
// that long, and closes them if told to.
func (l *listener) held(long time.Duration, end bool) (n int) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if c.held(now) > long {
			n++
			if end {
				go func() { _ = c.Close() }()
			}
		}
	}
	return n
}

// Close ends all connections and waits for them. The library's own way to end
// them is not used: it sends MQTT 3.1.1 clients a packet that is not theirs.
func (l *listener) Close(listeners.CloseFn) {
	l.refuse()
	l.mu.Lock()
	l.closed = true
	for c := range l.conns {
		go func() { _ = c.Close() }()
	}
	l.mu.Unlock()
	l.wg.Wait()
}
