// Testrun runs go test in each of the given modules and shows what matters:
// one line a package, the output of what failed, the tests that were skipped
// and why, and a last line with the counts. In CI a skipped test is a failure,
// since a check that did not run has not passed.
//
//	testrun [module …] -- [go test arguments]
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	modules, args := split(os.Args[1:])
	r := newReport(os.Stdout)
	broken := false
	for _, dir := range modules {
		if err := run(r, dir, args); err != nil {
			fmt.Fprintf(os.Stderr, "testrun: %s: %v\n", dir, err)
			broken = true
		}
	}
	if !r.summary(os.Getenv("CI") != "") || broken {
		os.Exit(1)
	}
}

// split parts the modules from the arguments for go test.
func split(args []string) (modules, rest []string) {
	i := slices.Index(args, "--")
	if i < 0 {
		return []string{"."}, args
	}
	if i == 0 {
		return []string{"."}, args[1:]
	}
	return args[:i], args[i+1:]
}

// run reports on go test in one module. Its error is that of go test itself:
// what it says has been shown by then, but its exit status also counts what no
// event tells, such as a package pattern that matches nothing.
func run(r *report, dir string, args []string) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start go test: %w", err)
	}
	return errors.Join(r.read(out), cmd.Wait())
}

// event is a line of go test -json, as `go doc test2json` describes it.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// test is the name of a test, or of a package where Test is empty.
type test struct{ Package, Test string }

// report turns events into lines for people, and counts.
type report struct {
	w                       io.Writer
	output                  map[test]*strings.Builder
	passed, failed, skipped int
	skips                   []string
	brokenPackages          int
}

func newReport(w io.Writer) *report {
	return &report{w: w, output: map[test]*strings.Builder{}}
}

// read reports on the events of one go test.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				fmt.Fprintf(r.w, "%s", line) // go test's own words
			} else {
				r.add(e)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read the output of go test: %w", err)
		}
	}
}

func (r *report) add(e event) {
	id := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.w, e.Output)
	case "output":
		b := r.output[id]
		if b == nil {
			b = new(strings.Builder)
			r.output[id] = b
		}
		b.WriteString(e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.packageDone(e)
			return
		}
		r.testDone(id, e.Action)
	}
}

func (r *report) testDone(id test, action string) {
	text := r.take(id)
	switch action {
	case "pass":
		r.passed++
	case "fail":
		r.failed++
		fmt.Fprint(r.w, text)
	case "skip":
		r.skipped++
		r.skips = append(r.skips, fmt.Sprintf("%s %s: %s", id.Package, id.Test, reason(text)))
	}
}

// packageDone shows a package's closing line. Of one that failed it shows all
// that is left: a panic or a time-out leaves tests without an end.
func (r *report) packageDone(e event) {
	text := r.take(test{e.Package, ""})
	if e.Action != "fail" {
		r.forget(e.Package)
		fmt.Fprint(r.w, lastLine(text))
		return
	}
	r.brokenPackages++
	for _, id := range r.pending(e.Package) {
		fmt.Fprint(r.w, r.take(id))
	}
	fmt.Fprint(r.w, text)
}

// pending lists the tests of a package whose output is still held, in order.
func (r *report) pending(pkg string) []test {
	var ids []test
	for id := range r.output {
		if id.Package == pkg {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b test) int { return strings.Compare(a.Test, b.Test) })
	return ids
}

func (r *report) forget(pkg string) {
	for _, id := range r.pending(pkg) {
		delete(r.output, id)
	}
}

// take returns the output that is held for id, and lets go of it.
func (r *report) take(id test) string {
	b := r.output[id]
	if b == nil {
		return ""
	}
	delete(r.output, id)
	return b.String()
}

// summary prints the end of the report and says whether all is well.
func (r *report) summary(ci bool) bool {
	for _, s := range r.skips {
		fmt.Fprintln(r.w, "skipped:", s)
	}
	if ci && r.skipped > 0 {
		fmt.Fprintln(r.w, "FAIL: in CI every test must run")
	}
	fmt.Fprintf(r.w, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	return r.failed == 0 && r.brokenPackages == 0 && (!ci || r.skipped == 0)
}

// reason is what a skipped test said, without go test's own lines.
func reason(text string) string {
	var said []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			said = append(said, line)
		}
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}

// lastLine is the closing line of a package: what comes before it is the
// output of tests that passed.
func lastLine(text string) string {
	text = strings.TrimRight(text, "\n")
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	if text == "" {
		return ""
	}
	return text + "\n"
}
