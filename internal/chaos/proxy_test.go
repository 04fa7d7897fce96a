//go:build unix

package chaos

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// proxy stands before a server and does to its connections what networks do.
// With mongo it knows where a request ends and its reply begins.
type proxy struct {
	ln    net.Listener
	mongo bool

	// oneWrite is held from a write's request to its reply: FerretDB loses one
	// of two concurrent updates.
	oneWrite sync.Mutex

	mu      sync.Mutex
	changed *sync.Cond
	target  string
	refuse  bool          // connections end at once
	stalled [2]bool       // by direction: nothing passes
	delay   time.Duration // for each piece that passes
	cutEach int           // of so many replies to writes one is dropped, and its connection cut; 0: none
	writes  int           // replies to writes while cutEach is set
	cuts    int           // of these, dropped
	pairs   map[*pair]bool
	seen    func(up bool, piece []byte) // may watch what passes; nil: nobody does
	closed  bool
}

// pair is a connection through the proxy.
type pair struct{ client, server net.Conn }

// The directions, as indices of stalled.
const (
	up   = 0 // to the server
	down = 1
)

func newProxy(t testing.TB, target string, mongo bool) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("cannot listen for the proxy: %v", err)
	}
	p := &proxy{ln: ln, mongo: mongo, target: target, pairs: map[*pair]bool{}}
	p.changed = sync.NewCond(&p.mu)
	var running sync.WaitGroup
	running.Go(func() { p.serve(&running) })
	t.Cleanup(func() {
		p.set(func() { p.closed = true })
		ln.Close()
		p.drop(false)
		running.Wait()
	})
	return p
}

// addr is where the proxy listens.
func (p *proxy) addr() string { return p.ln.Addr().String() }

func (p *proxy) serve(running *sync.WaitGroup) {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		running.Go(func() { p.handle(client) })
	}
}

func (p *proxy) handle(client net.Conn) {
	defer client.Close()
	p.mu.Lock()
	target, refuse := p.target, p.refuse || p.closed
	p.mu.Unlock()
	if refuse {
		return
	}
	server, err := net.DialTimeout("tcp", target, 2*time.Second)
	if err != nil {
		return
	}
	defer server.Close()
	c := &pair{client, server}
	p.set(func() { p.pairs[c] = true })
	defer p.set(func() { delete(p.pairs, c) })
	if p.mongo {
		p.relay(c)
		return
	}
	var other sync.WaitGroup
	other.Go(func() { p.pump(c, server, client, down) })
	p.pump(c, client, server, up)
	other.Wait()
}

// pump passes bytes on in one direction, as they come.
func (p *proxy) pump(c *pair, from, to net.Conn, dir int) {
	defer c.client.Close()
	defer c.server.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p.pass(dir, buf[:n])
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// relay passes requests and replies on, one after the other: a driver sends no
// request before it has the reply to the last.
func (p *proxy) relay(c *pair) {
	for {
		request, err := frame(c.client)
		if err != nil {
			return
		}
		p.pass(up, request)
		reply, err := p.ask(c, request)
		if err != nil || isWrite(request) && p.cutsReply() {
			return
		}
		p.pass(down, reply)
		if _, err := c.client.Write(reply); err != nil {
			return
		}
	}
}

func (p *proxy) ask(c *pair, request []byte) ([]byte, error) {
	if isWrite(request) {
		p.oneWrite.Lock()
		defer p.oneWrite.Unlock()
	}
	if _, err := c.server.Write(request); err != nil {
		return nil, err
	}
	return frame(c.server)
}

// cutsReply decides about the reply to a write that the store has done.
func (p *proxy) cutsReply() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cutEach == 0 {
		return false
	}
	p.writes++
	if p.writes%p.cutEach != 0 {
		return false
	}
	p.cuts++
	return true
}

// pass waits until a piece may pass.
func (p *proxy) pass(dir int, piece []byte) {
	p.mu.Lock()
	for p.stalled[dir] && !p.closed {
		p.changed.Wait()
	}
	delay, seen := p.delay, p.seen
	p.mu.Unlock()
	if seen != nil {
		seen(dir == up, piece)
	}
	if delay > 0 {
		<-time.After(delay)
	}
}

// set changes how the proxy behaves.
func (p *proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.changed.Broadcast()
}

// heal lets everything pass again.
func (p *proxy) heal() {
	p.set(func() { p.refuse, p.stalled, p.delay, p.cutEach = false, [2]bool{}, 0, 0 })
}

// drop ends all connections: in order, or with a reset.
func (p *proxy) drop(reset bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		for _, end := range []net.Conn{c.client, c.server} {
			if tc, ok := end.(*net.TCPConn); ok && reset {
				tc.SetLinger(0)
			}
			end.Close()
		}
	}
}

// frame reads one message of MongoDB's protocol: its first four bytes are its
// length.
func frame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n < 16 || n > 64<<20 {
		return nil, fmt.Errorf("message of %d bytes", n)
	}
	msg := append(make([]byte, 0, n), head[:]...)[:n]
	_, err := io.ReadFull(r, msg[4:])
	return msg, err
}

// isWrite says whether a message is a command that changes data. The name of a
// command is the first key of its document (OP_MSG: 16 bytes of header, 4 of
// flags, the section's kind, the document's length, the key's type).
func isWrite(msg []byte) bool {
	const opMsg, name = 2013, 16 + 4 + 1 + 4 + 1
	if len(msg) <= name || binary.LittleEndian.Uint32(msg[12:]) != opMsg {
		return false
	}
	key, _, _ := bytes.Cut(msg[name:], []byte{0})
	switch string(key) {
	case "insert", "update", "delete", "findAndModify", "bulkWrite":
		return true
	}
	return false
}
