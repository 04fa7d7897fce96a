package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/fleet"
	"gudang/internal/testenv"
)

// call runs a command with the program's settings.
func (p *program) call(args ...string) (status int, out, errOut string) {
	var o, e bytes.Buffer
	status = run(p.t.Context(), args, p.environ, &o, &e)
	return status, o.String(), e.String()
}

// alterStore does to the embedded store what someone with a tool could.
func (p *program) alterStore(text string) {
	p.t.Helper()
	db, err := sqlite3.Open(filepath.Join(p.service.cfg.DataDir, "gudang.db"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer db.Close()
	if err := db.BusyTimeout(5 * time.Second); err != nil {
		p.t.Fatal(err)
	}
	if err := db.Exec(text); err != nil {
		p.t.Fatal(err)
	}
}

func (p *program) refresh(want refreshReport) {
	p.t.Helper()
	status, out, errOut := p.call("refresh", "-json")
	var have refreshReport
	if err := json.Unmarshal([]byte(out), &have); err != nil {
		p.t.Fatalf("%v: %q, %s", err, out, errOut)
	}
	errs := len(have.Errors)
	have.Seconds, have.Errors = 0, nil
	if fmt.Sprint(have) != fmt.Sprint(want) || (status == 1) != (want.Failed > 0) || errs != want.Failed {
		p.t.Errorf("status %d, %+v with %d errors, want %+v", status, have, errs, want)
	}
}

// The command runs beside the service, which has the store open for writing.
func TestRefreshCorrectsDocumentsBesideTheService(t *testing.T) {
	p := start(t, "FLUSH_INTERVAL=50ms", "LATEST_READINGS=3")
	p.untilReady()
	simulate(t, "tcp://"+p.service.broker.Addr(), fleet.Config{Sensors: 20, Interval: 10 * time.Second, Count: 400, Seed: 5})
	testenv.Eventually(t, 20*time.Second, "all is in the documents", func() bool {
		_, out, _ := p.call("refresh", "-json")
		return strings.Contains(out, `"sensors":20,"unchanged":20,`)
	})
	_, right := p.get("/api/v1/sensors?limit=100")

	p.alterStore(`UPDATE sensors SET metrics = replace(metrics, '"value":', '"value":1') WHERE _id < 'S-0004'`)
	p.alterStore(`DELETE FROM sensors WHERE _id >= 'S-0019'`)
	p.refresh(refreshReport{Sensors: 20, Unchanged: 15, Corrected: 3, Created: 2})
	if _, have := p.get("/api/v1/sensors?limit=100"); have != right {
		t.Errorf("the documents are\n%s\nwant\n%s", have, right)
	}

	p.alterStore(`DELETE FROM sensors WHERE _id = 'S-0007'`)
	if status, out, errOut := p.call("refresh", "S-0007"); status != 0 || !strings.Contains(out, "1 sensors:") || !strings.Contains(out, "1 created") {
		t.Errorf("status %d: %s%s", status, out, errOut)
	}
	if _, have := p.get("/api/v1/sensors?limit=100"); have != right {
		t.Errorf("the documents are\n%s\nwant\n%s", have, right)
	}

	p.alterStore(`UPDATE buckets SET offsets = 'poison' WHERE sensorId = 'S-0002'`)
	p.refresh(refreshReport{Sensors: 20, Unchanged: 19, Failed: 1})
	for result, want := range map[string]float64{"same": 0, "failed": 0} { // the task has not begun: it counts what it does
		if have := p.metric(`gudang_sensors_refreshed_total{result="` + result + `"}`); have != want {
			t.Errorf("%s: %v", result, have)
		}
	}
}

func TestRefreshSaysWhatItCannotDo(t *testing.T) {
	p := start(t)
	p.untilReady()
	for _, c := range []struct {
		args   []string
		status int
	}{
		{[]string{"refresh", "nobody"}, 1},
		{[]string{"refresh", "a", "b"}, 2},
		{[]string{"refresh", "-x"}, 2},
		{[]string{"refresh"}, 0}, // an empty store is as it should be
	} {
		if status, out, errOut := p.call(c.args...); status != c.status {
			t.Errorf("%v: status %d: %s%s", c.args, status, out, errOut)
		}
	}
}
