package testenv

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Ferret is a FerretDB of the test's own: a server that speaks MongoDB's
// protocol. It takes one writer, and stops a bulk at its first error. Its
// methods are called by the test's goroutine.
type Ferret struct {
	Addr string // host:port
	URI  string // mongodb://host:port/

	t     testing.TB
	path  string
	dir   string
	log   LogBuffer
	proc  *process  // nil: not running
	stdin io.Closer // closing it ends the server, even if the test is killed
}

// FerretDB starts the server on a free port and ends it with the test. The
// first test on a machine builds it, which takes a minute or two.
func FerretDB(t testing.TB) *Ferret {
	t.Helper()
	path, err := buildFerretDB()
	if err != nil {
		Missing(t, fmt.Sprintf("no FerretDB to test against: %v", err))
	}
	f := &Ferret{t: t, path: path, dir: t.TempDir(), Addr: "127.0.0.1:0"}
	t.Cleanup(func() {
		f.Kill() // nothing is read from it again: an orderly end would only take time
		if t.Failed() {
			t.Logf("FerretDB said:\n%s", f.log.tail())
		}
	})
	f.Start()
	return f
}

// Start starts the server again on the same port, with the data it had.
func (f *Ferret) Start() {
	f.t.Helper()
	if f.proc != nil {
		return
	}
	cmd := exec.Command(f.path, "-addr", f.Addr, "-dir", f.dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	stdout, out := io.Pipe()
	cmd.Stdout = out
	p, err := startProcess(cmd, &f.log)
	if err != nil {
		f.t.Fatal(err)
	}
	go func() {
		<-p.done
		out.Close()
	}()
	lines := bufio.NewReader(stdout)
	uri, err := lines.ReadString('\n')
	go io.Copy(io.Discard, lines)
	f.URI = strings.TrimSpace(uri)
	f.Addr = strings.TrimSuffix(strings.TrimPrefix(f.URI, "mongodb://"), "/")
	f.proc, f.stdin = p, stdin
	if err != nil || !poll(10*time.Second, func() bool { return answers(f.Addr) }) {
		f.Kill()
		f.t.Fatalf("cannot start FerretDB:\n%s", f.log.tail())
	}
}

// Stop ends the server in order.
func (f *Ferret) Stop() { f.end(syscall.SIGTERM) }

// Kill ends it as a power cut would.
func (f *Ferret) Kill() { f.end(syscall.SIGKILL) }

func (f *Ferret) end(sig syscall.Signal) {
	if f.proc != nil {
		f.proc.end(sig)
		f.stdin.Close()
		f.proc = nil
	}
}

// buildFerretDB is the path of the server's program. It is built once for each
// state of its sources and kept in the user's cache.
func buildFerretDB() (string, error) {
	src, err := moduleDir("test/ferretdb")
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, name := range []string{"main.go", "go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(src, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintln(hash, name, len(content))
		hash.Write(content)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "gudang-test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, fmt.Sprintf("ferretdb-%x", hash.Sum(nil)[:8]))
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	// The packages' tests run side by side: one builds, the others wait for it.
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		return "", fmt.Errorf("cannot build it without the go command: %w", err)
	}
	partial := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(partial)
	build := exec.Command(goTool, "build", "-o", partial, ".")
	build.Dir = src
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build it in %s: %w\n%s", src, err, out)
	}
	return path, os.Rename(partial, path)
}

// moduleDir finds a folder of the repository from wherever in it the test
// runs.
func moduleDir(name string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		found := filepath.Join(dir, filepath.FromSlash(name))
		if _, err := os.Stat(filepath.Join(found, "go.mod")); err == nil {
			return found, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("cannot find the folder " + name + " in any parent folder")
		}
		dir = parent
	}
}
