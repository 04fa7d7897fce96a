//go:build unix

package chaos

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"
)

// A proxy that broke nothing would prove nothing.

// echo is a server that answers each line with itself.
func echo(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	return ln.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// answer sends a line and waits for it to come back.
func answer(c net.Conn, within time.Duration) error {
	c.SetDeadline(time.Now().Add(within))
	if _, err := fmt.Fprintln(c, "reading"); err != nil {
		return err
	}
	_, err := bufio.NewReader(c).ReadString('\n')
	return err
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

func TestTheProxyStallsCutsAndHeals(t *testing.T) {
	t.Parallel()
	p := newProxy(t, echo(t), false)
	for name, dir := range map[string]int{"what is sent": up, "what is received": down} {
		c := dial(t, p.addr())
		if err := answer(c, 5*time.Second); err != nil {
			t.Fatalf("a proxy that breaks nothing: %v", err)
		}
		p.set(func() { p.stalled[dir] = true })
		if err := answer(c, 100*time.Millisecond); !isTimeout(err) {
			t.Errorf("with %s stalled: %v, want a time-out", name, err)
		}
		p.heal()
		if err := answer(c, 5*time.Second); err != nil {
			t.Errorf("with %s healed: %v", name, err)
		}
	}
	for _, reset := range []bool{false, true} {
		c := dial(t, p.addr())
		if err := answer(c, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		p.set(func() { p.refuse = true })
		p.drop(reset)
		if err := answer(c, 5*time.Second); err == nil || isTimeout(err) {
			t.Errorf("after a cut: %v, want the end of the connection", err)
		}
		if err := answer(dial(t, p.addr()), 5*time.Second); err == nil || isTimeout(err) {
			t.Errorf("a new connection after a cut: %v, want its end", err)
		}
		p.heal()
	}
}

// command is a message as MongoDB's protocol has it, with the name of a
// command where a server looks for it.
func command(name string) []byte {
	msg := make([]byte, 16+4+1+4, 64)
	binary.LittleEndian.PutUint32(msg[12:], 2013)
	msg = append(append(append(msg, 0x02), name...), 0, 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(msg, uint32(len(msg)))
	return msg
}

func TestTheProxyCutsRepliesToWritesAlone(t *testing.T) {
	t.Parallel()
	p := newProxy(t, echo(t), true)
	p.set(func() { p.cutEach = 3 })
	var cut []int
	for n := 1; n <= 9; n++ {
		c := dial(t, p.addr())
		for _, name := range []string{"find", "update"} {
			c.SetDeadline(time.Now().Add(5 * time.Second))
			if _, err := c.Write(command(name)); err != nil {
				t.Fatal(err)
			}
			_, err := frame(c)
			switch {
			case err == nil:
			case name == "update" && !isTimeout(err):
				cut = append(cut, n)
			default:
				t.Fatalf("%s %d: %v", name, n, err)
			}
		}
	}
	if !slices.Equal(cut, []int{3, 6, 9}) {
		t.Errorf("the replies to writes %d were cut, want each third", cut)
	}
}

// The seed alone decides what is planned.
func TestASeedIsAScheduleThatCanBeHadAgain(t *testing.T) {
	t.Parallel()
	kinds := map[string]bool{}
	for seed := range uint64(40) {
		a, b := draw(t, seed, 2*time.Minute, "both"), draw(t, seed, 2*time.Minute, "both")
		plan := a.schedule()
		if x, y := fmt.Sprint(a.describe(), plan), fmt.Sprint(b.describe(), b.schedule()); x != y {
			t.Fatalf("seed %d is once\n%s\nand once\n%s", seed, x, y)
		}
		for _, e := range plan {
			kinds[fmt.Sprint(e.lane, e.name)] = true
			if e.at+e.long > a.duration {
				t.Errorf("seed %d: %v ends after the run", seed, e)
			}
		}
	}
	for _, f := range faults() {
		if !kinds[fmt.Sprint(f.lane, f.name)] {
			t.Errorf("no seed has the fault %s of the lane %s", f.name, f.lane)
		}
	}
}
