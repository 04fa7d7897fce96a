package main

import (
	"strings"
	"testing"
)

const passing = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"chatter\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.002s\n"}
{"Action":"pass","Package":"p","Elapsed":0.002}
`

const skipping = `{"Action":"run","Package":"q","Test":"TestB/real"}
{"Action":"output","Package":"q","Test":"TestB/real","Output":"=== RUN   TestB/real\n"}
{"Action":"output","Package":"q","Test":"TestB/real","Output":"    b_test.go:7: mosquitto is missing: apt-get install mosquitto\n"}
{"Action":"output","Package":"q","Test":"TestB/real","Output":"    --- SKIP: TestB/real (0.00s)\n"}
{"Action":"skip","Package":"q","Test":"TestB/real","Elapsed":0}
{"Action":"output","Package":"q","Output":"ok  \tq\t0.002s\n"}
{"Action":"pass","Package":"q","Elapsed":0.002}
`

const failing = `{"Action":"run","Package":"r","Test":"TestC"}
{"Action":"output","Package":"r","Test":"TestC","Output":"    c_test.go:3: got 1, want 2\n"}
{"Action":"fail","Package":"r","Test":"TestC","Elapsed":0}
{"Action":"output","Package":"r","Output":"FAIL\tr\t0.002s\n"}
{"Action":"fail","Package":"r","Elapsed":0.002}
`

const panicking = `{"Action":"run","Package":"s","Test":"TestD"}
{"Action":"output","Package":"s","Test":"TestD","Output":"panic: test timed out\n"}
{"Action":"output","Package":"s","Output":"FAIL\ts\t0.002s\n"}
{"Action":"fail","Package":"s","Elapsed":0.002}
`

const unbuildable = `{"ImportPath":"t","Action":"build-output","Output":"t.go:1: undefined: x\n"}
{"ImportPath":"t","Action":"build-fail"}
{"Action":"output","Package":"t","Output":"FAIL\tt [build failed]\n"}
{"Action":"fail","Package":"t","Elapsed":0,"FailedBuild":"t"}
`

func TestReport(t *testing.T) {
	tests := map[string]struct {
		events string
		ci     bool
		ok     bool
		want   string
	}{
		"a package that passes is one line": {
			passing, true, true, "ok  \tp\t0.002s\n1 passed, 0 failed, 0 skipped\n",
		},
		"a skipped test is named with its reason": {
			skipping, false, true,
			"ok  \tq\t0.002s\n" +
				"skipped: q TestB/real: b_test.go:7: mosquitto is missing: apt-get install mosquitto\n" +
				"0 passed, 0 failed, 1 skipped\n",
		},
		"in CI a skipped test fails the run": {
			skipping, true, false,
			"ok  \tq\t0.002s\n" +
				"skipped: q TestB/real: b_test.go:7: mosquitto is missing: apt-get install mosquitto\n" +
				"FAIL: in CI every test must run\n" +
				"0 passed, 0 failed, 1 skipped\n",
		},
		"a failure shows what the test said": {
			failing, false, false,
			"    c_test.go:3: got 1, want 2\nFAIL\tr\t0.002s\n0 passed, 1 failed, 0 skipped\n",
		},
		"a test that never ended shows what it said": {
			panicking, false, false,
			"panic: test timed out\nFAIL\ts\t0.002s\n0 passed, 0 failed, 0 skipped\n",
		},
		"a package that cannot be built shows why": {
			unbuildable, false, false,
			"t.go:1: undefined: x\nFAIL\tt [build failed]\n0 passed, 0 failed, 0 skipped\n",
		},
		"a failure is not forgotten when a later package passes": {
			failing + passing, false, false,
			"    c_test.go:3: got 1, want 2\nFAIL\tr\t0.002s\nok  \tp\t0.002s\n1 passed, 1 failed, 0 skipped\n",
		},
		"what is no event is shown as it is": {
			"go: no such package\n" + passing, false, true,
			"go: no such package\nok  \tp\t0.002s\n1 passed, 0 failed, 0 skipped\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			r := newReport(&out)
			if err := r.read(strings.NewReader(tt.events)); err != nil {
				t.Fatal(err)
			}
			if ok := r.summary(tt.ci); ok != tt.ok {
				t.Errorf("ok is %v, want %v", ok, tt.ok)
			}
			if out.String() != tt.want {
				t.Errorf("got\n%s\nwant\n%s", out.String(), tt.want)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	tests := map[string]struct{ args, modules, rest string }{
		"modules and arguments": {"a b -- -race ./...", "a b", "-race ./..."},
		"arguments only":        {"-race ./...", ".", "-race ./..."},
		"no module":             {"-- ./...", ".", "./..."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			modules, rest := split(strings.Fields(tt.args))
			if got := strings.Join(modules, " "); got != tt.modules {
				t.Errorf("modules %q, want %q", got, tt.modules)
			}
			if got := strings.Join(rest, " "); got != tt.rest {
				t.Errorf("rest %q, want %q", got, tt.rest)
			}
		})
	}
}
