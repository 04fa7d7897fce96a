package deploy

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gudang/internal/testenv"
)

// live is our own program as a process, with a broker of the test's and the
// store inside, and a Prometheus that scrapes it with what is shipped.
type live struct {
	addr   string
	broker *testenv.Broker
	prom   *testenv.Prom
}

const liveToken = "t0ken"

// startLive starts all three. The waiting times of the alerts are cut to what
// a test has.
func startLive(t *testing.T) *live {
	t.Helper()
	l := &live{addr: fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t)), broker: testenv.Mosquitto(t)}
	startIngest(t, l.addr, "MQTT_URL="+l.broker.URL, "BUCKET_SPAN=1s", "READING_INTERVAL=500ms", "HTTP_TOKEN="+liveToken)
	l.prom = testenv.Prometheus(t, map[string]string{
		"token":          liveToken,
		"rules.yml":      regexp.MustCompile(`(?m)^( +for:) .*$`).ReplaceAllString(text(t, "prometheus/rules.yml"), "$1 1s"),
		"prometheus.yml": shippedScrape(t, l.addr),
	})
	return l
}

// shippedScrape is prometheus.yml with what belongs to an installation
// replaced. Each replacement must find its place, or the file has changed.
func shippedScrape(t *testing.T, addr string) string {
	t.Helper()
	conf := text(t, "prometheus/prometheus.yml")
	for old, new := range map[string]string{
		"scrape_interval: 15s": "scrape_interval: 200ms", "evaluation_interval: 15s": "evaluation_interval: 200ms",
		"/run/secrets/http_token": "token", "[ingest:8080]": "[\"" + addr + "\"]",
	} {
		if !strings.Contains(conf, old) {
			t.Fatalf("prometheus.yml has no %q", old)
		}
		conf = strings.ReplaceAll(conf, old, new)
	}
	return conf
}

// startIngest builds and starts the program, and ends it with the test.
func startIngest(t *testing.T, addr string, environ ...string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "under-test")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "gudang/cmd/ingest") // as make build, whose work is used again
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the program: %v\n%s", err, out)
	}
	var log testenv.LogBuffer
	cmd := exec.Command(path)
	cmd.Env = append(environ, "HTTP_ADDR="+addr, "DATA_DIR="+t.TempDir(), "MQTT_CLIENT_ID="+t.Name())
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("the service ended with %v and said:\n%s", err, &log)
		}
	})
	testenv.Eventually(t, 20*time.Second, "the service is ready", func() bool {
		resp, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// publish sends a few readings of some sensors.
func (l *live) publish(t *testing.T) {
	t.Helper()
	host, port, _ := strings.Cut(l.broker.Addr, ":")
	for _, sensor := range []string{"S-01", "S-02"} {
		args := []string{"-h", host, "-p", port, "-q", "1", "-t", "warehouse/" + sensor + "/reading", "-m", `{"temperature": 26.4, "humidity": 61}`}
		run(t, exec.Command(testenv.Need(t, "mosquitto_pub"), args...))
	}
}

func (l *live) fires(name string) bool { return slices.Contains(l.prom.Alerts(), name) }

// A real Prometheus scrapes a live instance with the shipped files: quiet while
// all is well, and the alert fires when the broker is stopped.
func TestAnAlertFiresWhenTheBrokerIsStopped(t *testing.T) {
	t.Parallel()
	l := startLive(t)
	testenv.Eventually(t, 30*time.Second, "the rules see readings, and no alert fires", func() bool {
		l.publish(t)
		return has(t, l.prom.URL, "job:gudang_readings_stored:rate5m > 0") && len(l.prom.Alerts()) == 0
	})
	l.broker.Stop()
	testenv.Eventually(t, 20*time.Second, "GudangBrokerDown fires", func() bool { return l.fires("GudangBrokerDown") })
	for _, other := range []string{"GudangDown", "GudangStoreDown", "GudangStuck"} {
		if l.fires(other) {
			t.Errorf("%s fires, too", other)
		}
	}
	l.broker.Start()
	testenv.Eventually(t, 30*time.Second, "it ends when the broker is back", func() bool { return !l.fires("GudangBrokerDown") })
}
