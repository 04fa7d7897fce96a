package testenv

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Prom is a Prometheus of the test's own.
type Prom struct {
	URL string // http://host:port

	t   testing.TB
	log LogBuffer
}

// Prometheus starts a Prometheus on a free port with the files given, by name,
// of which prometheus.yml is its configuration. It ends with the test.
func Prometheus(t testing.TB, files map[string]string) *Prom {
	t.Helper()
	path, dir := Need(t, "prometheus"), t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	addr := fmt.Sprintf("127.0.0.1:%d", FreePort(t))
	p := &Prom{URL: "http://" + addr, t: t}
	proc, err := startProcess(exec.Command(path, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr, "--log.level=warn"), &p.log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		proc.end(syscall.SIGKILL) // nothing is read from it again
		if t.Failed() {
			t.Logf("prometheus said:\n%s", p.log.tail())
		}
	})
	ready := func() bool {
		resp, err := http.Get(p.URL + "/-/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	if !poll(20*time.Second, func() bool { return ready() || proc.ended() }) || proc.ended() {
		t.Fatalf("cannot start prometheus:\n%s", p.log.tail())
	}
	return p
}

// Get asks an endpoint of its API, such as query, and decodes the data of the
// answer. The error is Prometheus' own.
func (p *Prom) Get(endpoint string, args url.Values, data any) error {
	p.t.Helper()
	return GetProm(p.URL+"/api/v1/"+endpoint, args, data)
}

// GetProm asks an endpoint of any API that is like that of Prometheus.
func GetProm(endpoint string, args url.Values, data any) error {
	resp, err := http.Get(endpoint + "?" + args.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("cannot read the answer of %s: %w", endpoint, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s %s: %s", endpoint, args.Encode(), answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// Alerts are the names of the alerts that fire.
func (p *Prom) Alerts() []string {
	p.t.Helper()
	var data struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	if err := p.Get("alerts", nil, &data); err != nil {
		p.t.Fatal(err)
	}
	var names []string
	for _, a := range data.Alerts {
		if a.State == "firing" {
			names = append(names, a.Labels["alertname"])
		}
	}
	return names
}
