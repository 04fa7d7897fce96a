package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

// progress shows how far a long command is: one line that changes on a
// terminal, a line every few seconds elsewhere.
type progress struct {
	out   io.Writer
	line  bool // on a terminal
	every time.Duration
	begun time.Time
	shown time.Time
	width int
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, every: 5 * time.Second, begun: time.Now(), shown: time.Now(), width: 80}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.line, p.every = true, 200*time.Millisecond
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			p.width = width
		}
	}
	return p
}

// show shows which part of the whole is done, from 0 to 1, and what is said of
// it; below 0 the whole is not known. It is cheap to call often.
func (p *progress) show(part float64, format string, args ...any) {
	now := time.Now()
	if now.Sub(p.shown) < p.every {
		return
	}
	p.shown = now
	text := p.text(part, now.Sub(p.begun), fmt.Sprintf(format, args...))
	if p.line {
		fmt.Fprintf(p.out, "\r\x1b[K%s", clipped(text, p.width-1))
		return
	}
	fmt.Fprintln(p.out, text)
}

const barWidth = 20

func (p *progress) text(part float64, took time.Duration, said string) string {
	if part < 0 {
		return fmt.Sprintf("%s  %s", took.Round(time.Second), said)
	}
	part = min(part, 1)
	bar := ""
	if p.line {
		n := int(part * barWidth)
		bar = "[" + strings.Repeat("=", n) + strings.Repeat(" ", barWidth-n) + "] "
	}
	left := ""
	if part > 0.01 {
		left = ", " + time.Duration(float64(took)*(1-part)/part).Round(time.Second).String() + " left"
	}
	return fmt.Sprintf("%s%3.0f %%  %s%s", bar, 100*part, said, left)
}

func clipped(text string, width int) string {
	if runes := []rune(text); len(runes) > width && width > 0 {
		return string(runes[:width])
	}
	return text
}

// end clears the line.
func (p *progress) end() {
	if p.line {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// rate is how many of n were done in a second.
func (p *progress) rate(n int64) float64 {
	return float64(n) / max(time.Since(p.begun).Seconds(), 1e-3)
}

// counted counts what is read.
type counted struct {
	io.Reader
	n atomic.Int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n.Add(int64(n))
	return n, err
}
