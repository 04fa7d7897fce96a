// Package testenv gives tests real servers: Mosquitto, and FerretDB as one
// that speaks MongoDB's protocol. Only tests import it.
package testenv

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Need is the path of a program that the test cannot do without. Where it is
// missing the test is skipped with the way to install it; in CI (the variable
// CI is set) it fails, because a test that is always skipped proves nothing.
func Need(t testing.TB, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	Missing(t, fmt.Sprintf("%s is not installed: %s", name, installHint(name)))
	return ""
}

// Missing skips the test for want of something, or fails it in CI.
func Missing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

func installHint(name string) string {
	pkg := name
	switch name {
	case "mosquitto_pub", "mosquitto_sub", "mosquitto_passwd":
		pkg = "mosquitto-clients"
		if name == "mosquitto_passwd" {
			pkg = "mosquitto"
		}
	case "promtool":
		pkg = "prometheus"
	case "systemd-analyze":
		pkg = "systemd"
	}
	return "apt-get install " + pkg
}

// FreePort is a TCP port of the loopback address that was free a moment ago.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("cannot find a free port: %v", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Eventually polls until cond holds. It fails the test after the time given.
func Eventually(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	if !poll(within, cond) {
		t.Fatalf("after %v still not so: %s", within, what)
	}
}

// pollEvery is short against what a server takes to start, and long against
// what a look costs.
const pollEvery = 10 * time.Millisecond

func poll(within time.Duration, cond func() bool) bool {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	deadline := time.Now().Add(within)
	for !cond() {
		if time.Now().After(deadline) {
			return false
		}
		<-tick.C
	}
	return true
}

// answers says whether something listens at the address.
func answers(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// process is a server that runs beside the test. Its output is kept.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// startProcess starts the command; its output goes to log.
func startProcess(cmd *exec.Cmd, log *LogBuffer) (*process, error) {
	cmd.Stderr = log
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %q: %w", cmd.Path, err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		cmd.Wait() // how it ended is of no interest: the log says why
		close(p.done)
	}()
	return p, nil
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// end sends the signal and waits. A server that does not heed it is killed,
// so that a test never hangs on it.
func (p *process) end(sig syscall.Signal) {
	p.cmd.Process.Signal(sig) // fails only if it has ended already
	patience := time.NewTimer(10 * time.Second)
	defer patience.Stop()
	select {
	case <-p.done:
	case <-patience.C:
		p.cmd.Process.Kill()
		<-p.done
	}
}

// LogBuffer gathers what a server or a logger says while a test reads it.
type LogBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *LogBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String is all of it so far.
func (l *LogBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// tail is the last few lines, for the log of a failed test.
func (l *LogBuffer) tail() string {
	lines := strings.SplitAfter(l.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "")
}
