package source

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// packet is an MQTT packet of the given type.
func packet(kind byte, body []byte) []byte {
	return append(binary.AppendUvarint([]byte{kind}, uint64(len(body))), body...)
}

func TestFramesCutLongPublishesAndNothingElse(t *testing.T) {
	const limit = 1000
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var sent, want []byte
		for range 40 {
			kind, size := byte(0x32), rng.IntN(limit)
			switch rng.IntN(4) {
			case 0:
				size = limit + rng.IntN(200_000)
			case 1:
				kind = 0x90 // a SUBACK, however long, is passed on whole
				size = rng.IntN(3 * limit)
			case 2:
				size = 0
			}
			body := bytes.Repeat([]byte{byte(rng.IntN(256))}, size)
			sent = append(sent, packet(kind, body)...)
			if kind == 0x32 && size > limit {
				body = body[:limit]
			}
			want = append(want, packet(kind, body)...)
		}
		var r io.Reader = bytes.NewReader(sent)
		if seed%2 == 1 {
			r = iotest.OneByteReader(r)
		}
		got, err := io.ReadAll(&frames{r: bufio.NewReaderSize(r, 16), limit: limit})
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("seed %d: %d bytes passed on, want %d; error %v", seed, len(got), len(want), err)
		}
	}
}

func TestFramesReportABrokenStream(t *testing.T) {
	for name, sent := range map[string][]byte{
		"a length of five bytes": {0x30, 0xff, 0xff, 0xff, 0xff, 1},
		"an end in the length":   {0x30, 0xff},
	} {
		if _, err := io.ReadAll(&frames{r: bufio.NewReader(bytes.NewReader(sent)), limit: 10}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(packet(0x32, bytes.Repeat([]byte("x"), 300)))
	f.Add([]byte{0x30, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, sent []byte) {
		got, _ := io.ReadAll(&frames{r: bufio.NewReaderSize(bytes.NewReader(sent), 16), limit: 64})
		if len(got) > len(sent) {
			t.Fatalf("%d bytes came out of %d", len(got), len(sent))
		}
		again, _ := io.ReadAll(&frames{r: bufio.NewReaderSize(bytes.NewReader(got), 16), limit: 64})
		if !bytes.Equal(again, got) {
			t.Fatal("what was cut is cut again")
		}
	})
}

func pipe(t *testing.T) (*conn, net.Conn) {
	t.Helper()
	a, b := net.Pipe()
	c := newConn(a, 1000, time.Minute)
	t.Cleanup(func() { b.Close(); c.Close() })
	return c, b
}

func TestAcksAreWrittenInOrderAndBeforeTheEnd(t *testing.T) {
	c, peer := pipe(t)
	var want []byte
	for id := range uint16(5000) {
		c.Ack(id, 1)
		want = append(want, 0x40, 2, byte(id>>8), byte(id))
	}
	c.Ack(7, 2)
	want = append(want, 0x50, 2, 0, 7)
	read := make(chan []byte)
	go func() { b, _ := io.ReadAll(peer); read <- b }()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-read; !bytes.Equal(got, want) {
		t.Errorf("%d bytes arrived, want %d", len(got), len(want))
	}
}

// An ack after the connection has gone crashed other services (paho #726).
func TestALateAckDoesNothing(t *testing.T) {
	c, peer := pipe(t)
	peer.Close()
	c.Close()
	for id := range uint16(100) {
		c.Ack(id, 1)
	}
	if _, err := c.Write([]byte{0xc0, 0}); err == nil {
		t.Error("a write to a closed connection gave no error")
	}
}

// A broker that does not read its acks is sent none of the messages that would
// make more of them, and keeps its connection: Mosquitto is just that slow.
func TestNothingIsReadWhileTooMuchWaitsToBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pipe(t)
		c.Ack(1, 1)
		synctest.Wait() // the writer hangs with it
		for range writeAhead/4 + 1 {
			c.Ack(1, 1)
		}
		go func() { _, _ = peer.Write([]byte{0xd0, 0}) }()
		got := make(chan error, 1)
		go func() { _, err := io.ReadFull(c, make([]byte, 2)); got <- err }()
		synctest.Wait()
		select {
		case err := <-got:
			t.Fatalf("it was read, with error %v", err)
		default:
		}
		if _, err := io.CopyN(io.Discard, peer, writeAhead/2); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Errorf("when the broker had read: %v", err)
		}
	})
}

// A wait for the broker to read ends when the connection does.
func TestACloseEndsTheWaitForTheBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := pipe(t)
		c.Ack(1, 1)
		synctest.Wait()
		for range writeAhead/4 + 1 {
			c.Ack(1, 1)
		}
		got := make(chan error, 1)
		go func() { _, err := c.Read(make([]byte, 2)); got <- err }()
		synctest.Wait()
		_ = c.Close()
		if err := <-got; err == nil {
			t.Error("a closed connection was read")
		}
	})
}

// paho asks a silent broker how it is, so longer silence means that it has gone.
func TestASilentBrokerHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pipe(t)
		if err := c.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		go func() {
			time.Sleep(59 * time.Second)
			_, _ = peer.Write([]byte{0xd0, 0})
		}()
		if _, err := io.ReadFull(c, make([]byte, 2)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 2)); err == nil || !strings.Contains(err.Error(), "silent for 1m0s") || time.Since(begun) != 119*time.Second {
			t.Errorf("error %v after %v", err, time.Since(begun))
		}
	})
}

func TestABrokenWriteIsReported(t *testing.T) {
	c, peer := pipe(t)
	peer.Close()
	deadline := time.Now().Add(5 * time.Second)
	for {
		if _, err := c.Write([]byte{0xc0, 0}); err != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("writes to a closed pipe give no error")
		}
	}
}

// paho closes a connection from two goroutines, and goes on when one of them is
// back: the broker must have read the last acks by then.
func TestASecondCloseWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	nc, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	broker, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := newConn(nc, 100, time.Minute)
	go func() {
		for buf := make([]byte, 100); ; {
			if _, err := c.Read(buf); err != nil {
				return
			}
		}
	}()
	c.Ack(1, 1)
	closed := make(chan error, 2)
	for range 2 {
		go func() { closed <- c.Close() }()
	}
	select {
	case <-closed:
		t.Error("closed before the broker has closed its side")
	case <-time.After(50 * time.Millisecond):
	}
	if text, err := io.ReadAll(broker); err != nil || len(text) != 4 {
		t.Errorf("the broker read %x, error %v", text, err)
	}
	broker.Close()
	for range 2 {
		<-closed
	}
}
