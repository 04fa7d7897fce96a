//go:build unix

package chaos

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// built is the program under test, built once for all tests of the package.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gudang-chaos-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "under-test") // whoever ends what is called ingest means another
	args := []string{"build", "-o", path}
	if raceEnabled {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "gudang/cmd/ingest")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cannot build the program: %w\n%s", err, out)
	}
	return path, nil
})

// sideBySide is how many tests run at once unless it is said: most of their
// time they wait.
const sideBySide = "6"

func TestMain(m *testing.M) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		if err := flag.Set("test.parallel", sideBySide); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	status := m.Run()
	if path, err := built(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(status)
}

func program(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// instance is one service as a process of its own. Its methods are called by
// the test's goroutine.
type instance struct {
	name string
	path string
	env  []string
	log  string // its file: all lives of the process together

	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended
	offset int64         // where in the log this life begins
	starts []time.Time
	wanted bool      // it should be running
	asked  time.Time // when SIGTERM was sent
	rss    int       // the most that was seen, in bytes
}

func newInstance(t testing.TB, dir, name string, env []string) *instance {
	t.Helper()
	i := &instance{name: name, path: program(t), env: env, log: filepath.Join(dir, name+".log")}
	t.Cleanup(i.kill)
	return i
}

// start starts the process and does not wait for it.
func (i *instance) start(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile(i.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if i.offset, err = f.Seek(0, io.SeekEnd); err != nil {
		t.Fatal(err)
	}
	i.cmd = exec.Command(i.path)
	// The address is of this life: a port that was given up may be taken.
	i.cmd.Env = append([]string{"HTTP_ADDR=127.0.0.1:0", "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir()}, i.env...)
	i.cmd.Stdout, i.cmd.Stderr = f, f
	if err := i.cmd.Start(); err != nil {
		t.Fatalf("cannot start %s: %v", i.name, err)
	}
	i.starts, i.wanted = append(i.starts, time.Now()), true
	i.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		cmd.Wait() // how it ended its state says
		close(exited)
	}(i.cmd, i.exited)
}

// running says whether the process is there.
func (i *instance) running() bool {
	if i.cmd == nil {
		return false
	}
	select {
	case <-i.exited:
		return false
	default:
		return true
	}
}

func (i *instance) signal(s syscall.Signal) {
	if i.running() {
		i.cmd.Process.Signal(s)
	}
}

// kill ends the process as a power cut would.
func (i *instance) kill() {
	i.wanted = false
	if i.running() {
		i.cmd.Process.Kill()
		<-i.exited
	}
}

const (
	// stopWithin is what an orderly stop may take.
	stopWithin = 10 * time.Second
	// starved is what the test itself may be late by in noticing it, on a
	// machine that runs many tests at once.
	starved = 2 * time.Second
)

// terminate asks for an orderly stop.
func (i *instance) terminate() {
	i.wanted, i.asked = false, time.Now()
	i.signal(syscall.SIGTERM)
}

// stopped says whether the process has ended since terminate, and what is
// wrong with that.
func (i *instance) stopped() (bool, error) {
	if i.running() {
		if time.Since(i.asked) < stopWithin+starved {
			return false, nil
		}
		i.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines go to the log
		select {
		case <-i.exited:
		case <-time.After(2 * time.Second):
			i.kill()
		}
		return true, fmt.Errorf("%s has not stopped %v after SIGTERM", i.name, stopWithin)
	}
	state := i.cmd.ProcessState
	if how, ok := state.Sys().(syscall.WaitStatus); ok && how.Signal() == syscall.SIGTERM && i.said() == "" {
		return true, nil // it had not begun
	}
	if state.ExitCode() != 0 {
		return true, fmt.Errorf("%s ended with %v after SIGTERM", i.name, state)
	}
	return true, nil
}

// stop is SIGTERM and the wait for the end.
func (i *instance) stop() error {
	i.terminate()
	for {
		if over, err := i.stopped(); over {
			return err
		}
		<-time.After(10 * time.Millisecond)
	}
}

// said is the log of this life of the process.
func (i *instance) said() string {
	f, err := os.Open(i.log)
	if err != nil {
		return ""
	}
	defer f.Close()
	if _, err := f.Seek(i.offset, io.SeekStart); err != nil {
		return ""
	}
	text, _ := io.ReadAll(f) // an error shows as a log that lacks something
	return string(text)
}

var (
	opened   = regexp.MustCompile(`open=(http://[^/\s]+)`)
	embedded = regexp.MustCompile(`msg="embedded broker listens" addr=(\S+)`)
)

var errNotUp = errors.New("the program has not said yet where it listens")

// get reads a path over HTTP.
func (i *instance) get(path string) (int, string, error) {
	m := opened.FindStringSubmatch(i.said())
	if m == nil || !i.running() {
		return 0, "", errNotUp
	}
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get(m[1] + path)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// ready says whether the service says so.
func (i *instance) ready() bool {
	status, _, err := i.get("/readyz")
	return err == nil && status == http.StatusOK
}

// samples are the counters and gauges by name and labels, as /metrics has them.
type samples map[string]float64

func (i *instance) metrics() (samples, error) {
	status, body, err := i.get("/metrics")
	if err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("cannot read /metrics of %s: status %d, %w", i.name, status, err)
	}
	s := samples{}
	for line := range strings.Lines(body) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if ok {
			name += "}"
		} else {
			name, value, ok = strings.Cut(strings.TrimSpace(line), " ")
		}
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil {
			s[name] = v
		}
	}
	return s, nil
}

// received is how many messages came, and ended how many of these have become
// something.
func (s samples) received() float64 { return s["gudang_messages_received_total"] }

func (s samples) ended() (sum float64) {
	for _, o := range []string{"stored", "duplicate", "ignored", "rejected"} {
		sum += s[`gudang_messages_total{outcome="`+o+`"}`]
	}
	return sum
}

func (s samples) unacked() float64 { return s["gudang_unacked_messages"] }

// measure notes how much memory the process has now.
func (i *instance) measure() {
	if !i.running() {
		return
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", i.cmd.Process.Pid))
	if err != nil {
		return // it has ended just now, or this system has no such file
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "VmRSS:"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			i.rss = max(i.rss, kb<<10)
		}
	}
}
