package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// bench is one run of everything, in a directory of its own.
type bench struct {
	ctx     context.Context
	dir     string
	root    string // of the module
	program string
	scale   int // divides the numbers of messages
	run     int // numbers what each measurement starts
}

// build compiles the tools, from copies: their folder may be read-only.
func (b *bench) build(tools string) error {
	for _, name := range []string{"mqttload", "nullmongo", "pahosub"} {
		src := filepath.Join(b.dir, "src", name)
		if err := os.CopyFS(src, os.DirFS(filepath.Join(tools, name))); err != nil {
			return fmt.Errorf("cannot copy the source of %s: %w (give its folder with -tools)", name, err)
		}
		cmd := exec.CommandContext(b.ctx, "go", "build", "-o", filepath.Join(b.dir, name), ".")
		cmd.Dir, cmd.Env = src, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("cannot build %s: %w: %s", name, err, text)
		}
	}
	return nil
}

// process is a program that runs beside this one.
type process struct {
	cmd  *exec.Cmd
	said bytes.Buffer
	done chan error
}

func (b *bench) start(env []string, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(b.ctx, name, args...), done: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 15 * time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", name, err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	return p, nil
}

func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.wait(15 * time.Second)
}

func (p *process) wait(limit time.Duration) error {
	select {
	case err := <-p.done:
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() < 0 {
			return nil // by our signal
		}
		return err
	case <-time.After(limit):
		return errors.Join(fmt.Errorf("%s does not end", p.cmd.Path), p.cmd.Process.Kill())
	}
}

// seconds is the processor time that the process has used.
func (p *process) seconds() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // a name may have spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("cannot read the times of process %d", p.cmd.Process.Pid)
	}
	user, err := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return float64(user+system) / 100, errors.Join(err, err2) // USER_HZ is 100 on every Linux
}

// peakMB is the most memory that the process has had.
func (p *process) peakMB() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kb, err := strconv.Atoi(strings.Fields(rest + " 0")[0])
	return float64(kb) / 1024, err
}

// freeAddr is an address of this machine that nobody listens at.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// pollEvery is short against what is measured, and long against what a look at
// the metrics costs the service that is measured.
const pollEvery = 100 * time.Millisecond

// await polls until ok says so, or fails.
func (b *bench) await(what string, limit time.Duration, ok func() (bool, error)) error {
	var last error
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		done, err := ok()
		if done {
			return nil
		}
		last = err
		select {
		case <-time.After(pollEvery):
		case <-b.ctx.Done():
			return b.ctx.Err()
		}
	}
	return errors.Join(fmt.Errorf("waited %v in vain: %s", limit, what), last)
}

func get(url string) (string, error) {
	resp, err := http.Get(url) //nolint:gosec,noctx // of a process that this one has started
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return string(text), err
}
