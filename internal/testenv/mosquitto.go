package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Broker is a Mosquitto of the test's own. Its methods are called by the
// test's goroutine.
type Broker struct {
	Addr string // host:port
	URL  string // tcp://host:port
	Dir  string // its configuration, and its database if persistence is on

	t    testing.TB
	path string
	conf string
	log  LogBuffer
	proc *process // nil: not running
}

// Mosquitto starts a broker on a free port and ends it with the test. The
// lines are added to its configuration, behind those of its listener; they
// win over the defaults here, which are allow_anonymous true, no limit to what
// waits for a client (1,000 messages are soon there on a busy machine, and the
// rest is dropped) and Mosquitto's own. With "persistence true" what it holds survives Stop, not Kill.
func Mosquitto(t testing.TB, confLines ...string) *Broker {
	t.Helper()
	b := &Broker{t: t, path: Need(t, "mosquitto"), Dir: t.TempDir()}
	b.conf = filepath.Join(b.Dir, "mosquitto.conf")
	t.Cleanup(func() {
		b.Stop()
		if t.Failed() {
			t.Logf("mosquitto said:\n%s", b.log.tail())
		}
	})
	// The port can be taken between the look and the start: another is tried.
	for range 5 {
		port := FreePort(t)
		b.Addr = fmt.Sprintf("127.0.0.1:%d", port)
		b.URL = "tcp://" + b.Addr
		if err := os.WriteFile(b.conf, brokerConf(port, b.Dir, confLines), 0o600); err != nil {
			t.Fatalf("cannot write the broker's configuration: %v", err)
		}
		if b.start() == nil {
			return b
		}
		if !strings.Contains(b.log.String(), "Address already in use") {
			break
		}
	}
	t.Fatalf("cannot start mosquitto with the lines %q:\n%s", confLines, b.log.tail())
	return nil
}

// brokerConf is the configuration; a default that one of the lines sets is
// left out, as Mosquitto refuses a setting that is there twice.
func brokerConf(port int, dir string, lines []string) []byte {
	conf := []string{
		fmt.Sprintf("listener %d 127.0.0.1", port),
		"allow_anonymous true",
		"max_queued_messages 0",
		"persistence_location " + dir + "/",
		"log_dest stderr",
		// As root it would become another user, who cannot write to dir.
		"user root",
	}
	set := make(map[string]bool, len(lines))
	for _, line := range lines {
		key, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		set[key] = key != "listener" && key != "log_dest"
	}
	var out strings.Builder
	for _, line := range conf {
		if key, _, _ := strings.Cut(line, " "); !set[key] {
			fmt.Fprintln(&out, line)
		}
	}
	for _, line := range lines {
		fmt.Fprintln(&out, line)
	}
	return []byte(out.String())
}

// Start starts the broker again on the same port.
func (b *Broker) Start() {
	b.t.Helper()
	if err := b.start(); err != nil {
		b.t.Fatalf("%v\n%s", err, b.log.tail())
	}
}

func (b *Broker) start() error {
	if b.proc != nil {
		return nil
	}
	p, err := startProcess(exec.Command(b.path, "-c", b.conf), &b.log)
	if err != nil {
		return err
	}
	up := false
	poll(10*time.Second, func() bool {
		up = answers(b.Addr)
		return up || p.ended()
	})
	// Someone else's server may answer in place of one that found its port
	// taken, so that it must also still be there.
	if !up || p.ended() {
		p.end(syscall.SIGKILL)
		return fmt.Errorf("mosquitto does not answer at %s", b.Addr)
	}
	b.proc = p
	return nil
}

// Stop ends the broker in order: it closes its connections and, with
// persistence, saves what it holds.
func (b *Broker) Stop() { b.end(syscall.SIGTERM) }

// Kill ends it as a power cut would.
func (b *Broker) Kill() { b.end(syscall.SIGKILL) }

func (b *Broker) end(sig syscall.Signal) {
	if b.proc != nil {
		b.proc.end(sig)
		b.proc = nil
	}
}

// Restart is Stop and Start.
func (b *Broker) Restart() {
	b.t.Helper()
	b.Stop()
	b.Start()
}

// Log is what the broker has said so far, all its runs together.
func (b *Broker) Log() string { return b.log.String() }
