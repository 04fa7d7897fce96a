package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestStorageOfAFleet(t *testing.T) {
	t.Parallel()
	f := openFleetStore(t, []string{"DATA_DIR=" + t.TempDir()})
	f.now = time.Date(2026, 12, 6, 9, 59, 59, 0, time.UTC) // the last hour is full
	n := f.fill(t, 3, 24)
	ask := func(args ...string) string {
		t.Helper()
		var out strings.Builder
		if status := run(t.Context(), append([]string{"storage"}, args...), f.environ, &out, io.Discard); status != 0 {
			t.Fatalf("exit status %d:\n%s", status, out.String())
		}
		return out.String()
	}

	var said storageReport
	if err := json.Unmarshal([]byte(ask("-json")), &said); err != nil {
		t.Fatal(err)
	}
	if said.Buckets.Documents != 3*24 || said.Buckets.Readings != int64(n) || said.Saved < 60 || said.Against != "computed" {
		t.Errorf("%+v", said)
	}
	if said.Disk == nil || said.Disk.Bytes == 0 || said.Spans.Sampled || said.Spans.Readings != int64(n) {
		t.Errorf("disk %+v, spans %+v", said.Disk, said.Spans)
	}
	for _, row := range said.Spans.Spans {
		if row.InForce != (row.Span == "1h") || row.Outliers != (row.Span == "24h") {
			t.Errorf("%+v", row)
		}
		if row.InForce && (row.Bytes != said.Buckets.Bytes || row.Buckets != said.Buckets.Documents) {
			t.Errorf("the span in force costs %+v and takes %+v", row, said.Buckets)
		}
	}

	for text, ascii := range map[string]bool{ask(): false, ask("-ascii"): true} {
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			if utf8.RuneCountInString(line) > defaultWidth && !strings.Contains(line, f.environ[0][len("DATA_DIR="):]) {
				t.Errorf("wider than %d columns: %s", defaultWidth, line)
			}
			if ascii && len(line) != utf8.RuneCountInString(line) || strings.HasSuffix(line, " ") {
				t.Errorf("not plain, or with spaces at its end: %q", line)
			}
		}
		if !strings.Contains(text, fmt.Sprintf("saved      %.1f %%", said.Saved)) || !strings.Contains(text, "24h*") || strings.Contains(text, "█") == ascii {
			t.Errorf("ascii %v:\n%s", ascii, text)
		}
	}
}

func TestStorageOfNothing(t *testing.T) {
	t.Parallel()
	var out, errOut strings.Builder
	if status := run(t.Context(), []string{"storage"}, []string{"DATA_DIR=" + t.TempDir()}, &out, &errOut); status != 1 || !strings.Contains(errOut.String(), "nothing was written there yet") {
		t.Errorf("exit status %d: %s%s", status, out.String(), errOut.String())
	}
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		part  float64
		ascii bool
		want  string
	}{
		{0, false, ""},
		{1, false, "██████████"},
		{0.5, false, "█████"},
		{0.0001, false, "▏"},
		{0.55, false, "█████▌"},
		{2, false, "██████████"},
		{-1, false, ""},
		{0, true, ""},
		{1, true, "##########"},
		{0.0001, true, "#"},
		{0.55, true, "######"},
	} {
		if have := (canvas{ascii: c.ascii}).bar(c.part, 10); have != c.want {
			t.Errorf("bar of %v: %q, want %q", c.part, have, c.want)
		}
	}
	if have := (canvas{}).bar(1, -3); have != "" {
		t.Errorf("a bar with no room: %q", have)
	}
}

func TestWrap(t *testing.T) {
	if have := fmt.Sprintf("%q", wrap("one  two three averyverylongword é é", 9)); have != `["one two" "three" "averyverylongword" "é é"]` {
		t.Error(have)
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{10 * time.Second: "10s", time.Minute: "1m", 10 * time.Minute: "10m", time.Hour: "1h", 24 * time.Hour: "24h", 90 * time.Second: "1m30s", 90 * time.Minute: "1h30m"} {
		if have := short(d); have != want {
			t.Errorf("%v: %q, want %q", d, have, want)
		}
	}
}
