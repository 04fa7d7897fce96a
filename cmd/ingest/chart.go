package main

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// defaultWidth is that of a terminal whose width is not known.
const defaultWidth = 80

// canvas is what a command draws on.
type canvas struct {
	width int
	ascii bool
}

// canvasOf is the terminal behind out. One that is called dumb gets plain
// ASCII, as does who asks for it.
func canvasOf(out io.Writer, ascii bool) canvas {
	c := canvas{width: defaultWidth, ascii: ascii || os.Getenv("TERM") == "dumb"}
	if file, ok := out.(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			c.width = width
		}
	}
	return c
}

// bar is a bar of the part of width columns, in eighths of one where there are
// signs for that. What is not nothing has at least a sliver.
func (c canvas) bar(part float64, width int) string {
	eighths := int(part*float64(width)*8 + 0.5)
	if eighths <= 0 && part > 0 {
		eighths = 1
	}
	eighths = min(max(eighths, 0), 8*max(width, 0))
	if c.ascii {
		return strings.Repeat("#", (eighths+7)/8)
	}
	bar := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		bar += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return bar
}

// wrap breaks a text into lines of the width, at spaces. A word that is longer
// has a line of its own.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
