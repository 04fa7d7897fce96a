package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gudang/internal/fleet"
	"gudang/internal/history"
)

// command runs a command with the program's settings and those given.
func (p *program) command(settings []string, args ...string) (int, string) {
	var out, errOut bytes.Buffer
	status := run(p.t.Context(), args, append(append([]string(nil), p.environ...), settings...), &out, &errOut)
	return status, out.String() + errOut.String()
}

// export reads all that the API has of these sensors, an answer a line.
func (p *program) export(sensors ...string) string {
	p.t.Helper()
	var all strings.Builder
	for _, id := range sensors {
		for after := ""; ; {
			status, body := p.get("/api/v1/readings?limit=70&sensor=" + url.QueryEscape(id) + "&after=" + url.QueryEscape(after))
			if status != 200 {
				p.t.Fatalf("status %d: %s", status, body)
			}
			all.WriteString(strings.TrimSpace(body) + "\n")
			var page struct{ Next string }
			if err := json.Unmarshal([]byte(body), &page); err != nil {
				p.t.Fatal(err)
			}
			if after = page.Next; after == "" {
				break
			}
		}
	}
	return all.String()
}

func (p *program) imported(settings []string, args ...string) (int, history.Summary) {
	p.t.Helper()
	status, said := p.command(settings, append([]string{"import", "-json"}, args...)...)
	var sum history.Summary
	if err := json.Unmarshal([]byte(said), &sum); err != nil {
		p.t.Fatalf("import %q: status %d\n%s", args, status, said)
	}
	return status, sum
}

// A fleet's readings are kept raw beside their buckets, are held against them,
// are built into buckets of another span, and what the API exports of them
// makes the same store elsewhere.
func TestRawReadingsVerifyRebuildAndImport(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, environ []string) {
		p := start(t, append(environ, "RAW=true")...)
		p.untilReady()
		if status, said := p.verify(); status != 2 {
			t.Errorf("verify without raw readings: status %d\n%s", status, said)
		}
		name := simulate(t, "tcp://"+p.service.broker.Addr(), fleet.Config{Sensors: 3, Interval: 10 * time.Second, Count: 90, Duplicate: 0.1, Late: 0.1, Seed: 11})
		if status, said := p.verify("-manifest", name, "-wait", "60s"); status != 0 {
			t.Fatalf("verify: status %d\n%s", status, said)
		}
		if status, said := p.verify("-wait", "60s"); status != 0 || !strings.Contains(said, "raw          180 readings of 6 series") || !strings.Contains(said, "same         180\n") {
			t.Fatalf("verify against raw: status %d\n%s", status, said)
		}
		// Nothing is to be done, and it may be done beside the service.
		if status, said := p.command(nil, "rebuild", "-json"); status != 0 || !strings.Contains(said, `"raw":180,"added":0,"mended":0,"moved":0`) {
			t.Errorf("rebuild: status %d\n%s", status, said)
		}
		exported := p.export("S-0001", "S-0002", "S-0003")
		p.end()

		if status, said := p.command(nil, "rebuild", "-span", "10m"); status != 0 || !strings.Contains(said, "raw        180 readings of 6 series\n") {
			t.Errorf("rebuild with another span: status %d\n%s", status, said)
		}
		for _, args := range [][]string{{"verify"}, {"verify", "-manifest", name}} {
			if status, said := p.command([]string{"BUCKET_SPAN=10m"}, args...); status != 0 {
				t.Errorf("%q after that: status %d\n%s", args, status, said)
			}
		}

		file := filepath.Join(t.TempDir(), "exported.json.gz")
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		if _, err := w.Write([]byte(exported)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, zipped.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		elsewhere := []string{"DATA_DIR=" + t.TempDir(), "MONGODB_DATABASE=elsewhere"}
		// FerretDB does not say what of a bulk was there already.
		told := p.service.cfg.MongoDBURI == ""
		for i, stored := range []int64{180, 0} {
			status, sum := p.imported(elsewhere, file)
			if status != 0 || sum.Readings != 180 || sum.Stored+sum.Already != 180 || told && sum.Stored != stored || sum.Conflicts+sum.Bad != 0 {
				t.Errorf("import %d: status %d, %+v", i+1, status, sum)
			}
		}
		for _, args := range [][]string{{"verify"}, {"verify", "-manifest", name}} {
			if status, said := p.command(elsewhere, args...); status != 0 {
				t.Errorf("%q of what was imported: status %d\n%s", args, status, said)
			}
		}
	})
}

func TestBadLinesAreNamedAndCostThemselves(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "history.csv")
	text := "time;temperature;note\n2019-05-01 07:00:10;20.5;x\n2019-05-01 07:00:20;NaN;x\n\nlater;20.7;\n1556668830;20.8;\n1556668830;20.9;\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"DATA_DIR=" + filepath.Join(dir, "data"), "TIMEZONE=Asia/Jakarta", "RAW=true"}
	call := func(args ...string) (int, string) {
		var out, errOut bytes.Buffer
		status := run(t.Context(), args, environ, &out, &errOut)
		return status, out.String() + errOut.String()
	}
	for _, args := range [][]string{{}, {file, file}, {filepath.Join(dir, "none.csv")}, {"-wrong", file}} {
		if status, _ := call(append([]string{"import"}, args...)...); status != 2 {
			t.Errorf("import %q: status %d, want 2", args, status)
		}
	}
	if status, said := call("import", file); status != 1 || !strings.Contains(said, "no -sensor for all") {
		t.Errorf("without a sensor: status %d\n%s", status, said)
	}
	status, said := call("import", file, "-sensor", "Old 1")
	want := `line 3  not_finite: temperature: the value is NaN or an infinity
line 5  invalid_value: its time cannot be read
lines          5
readings       3
stored         2
already there  0
conflicts      1
bad            2
empty          2 cells
no number      2 cells of columns that are no known metric
a conflict is a reading whose series has another value at that time, which stays
`
	if status != 1 || said != want {
		t.Errorf("status %d\n%s, want\n%s", status, said, want)
	}
	if status, said := call("verify"); status != 0 || !strings.Contains(said, "same         2\n") {
		t.Errorf("verify: status %d\n%s", status, said)
	}
}

func TestRebuildSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	environ := []string{"DATA_DIR=" + t.TempDir()}
	call := func(args ...string) (int, string) {
		var out, errOut bytes.Buffer
		status := run(t.Context(), args, environ, &out, &errOut)
		return status, out.String() + errOut.String()
	}
	for _, args := range [][]string{{"-span", "7s"}, {"-from", "yesterday"}, {"-after", "S-01"}, {"x"}} {
		if status, _ := call(append([]string{"rebuild"}, args...)...); status != 2 {
			t.Errorf("rebuild %q: status %d, want 2", args, status)
		}
	}
	if status, said := call("rebuild"); status != 1 || !strings.Contains(said, "nothing was written there yet") {
		t.Errorf("without a store: status %d\n%s", status, said)
	}
	if status, _ := call("import", "-sensor", "a", os.DevNull); status != 1 {
		t.Errorf("an empty file: status %d, want 1", status)
	}
	if status, said := call("rebuild"); status != 0 || !strings.Contains(said, "nothing to rebuild") {
		t.Errorf("without raw readings: status %d\n%s", status, said)
	}
}

func TestSeriesNamesAreFlags(t *testing.T) {
	for _, text := range []string{"S-01 temperature", "a b c", "it's here x"} {
		var s seriesName
		if err := s.Set(text); err != nil || s.String() != text {
			t.Errorf("%q is %q, error %v", text, s.String(), err)
		}
	}
	if have := shellWord("it's"); have != `'it'\''s'` {
		t.Error(have)
	}
}

func TestProgressIsToldOnALine(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.show(0.5, "%d readings", 7)
	if out.Len() > 0 {
		t.Errorf("told at once: %q", out.String())
	}
	p.shown = time.Now().Add(-time.Minute)
	p.show(0.25, "%d readings", 7)
	if !strings.HasPrefix(out.String(), " 25 %  7 readings, ") || !strings.HasSuffix(out.String(), " left\n") {
		t.Errorf("%q", out.String())
	}
	p.line, p.width = true, 32
	if have := clipped(p.text(0.5, 10*time.Second, "7 readings"), p.width-1); have != "[==========          ]  50 %  7" {
		t.Errorf("%q", have)
	}
	if have := p.text(-1, 10*time.Second, "7 readings"); have != "10s  7 readings" {
		t.Errorf("%q", have)
	}
}
