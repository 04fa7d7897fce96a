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
	"sync"
	"syscall"
	"testing"
	"time"

	"gudang/internal/testenv"
)

// live is our own program as a process, with the store inside, and a Prometheus
// that scrapes it with what is shipped.
type live struct {
	addr   string          // of its HTTP
	mqtt   string          // where sensors publish
	broker *testenv.Broker // nil: the one inside
	prom   *testenv.Prom
}

const liveToken = "t0ken"

// startLive starts all of it. The waiting times of the alerts are cut to what a
// test has.
func startLive(t *testing.T, broker *testenv.Broker) *live {
	t.Helper()
	l := &live{addr: fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t)), broker: broker}
	environ := []string{"BUCKET_SPAN=1s", "READING_INTERVAL=500ms", "HTTP_TOKEN=" + liveToken, "HTTP_USERNAME=gudang", "HTTP_PASSWORD=" + liveToken}
	if broker != nil {
		l.mqtt = broker.Addr
		environ = append(environ, "MQTT_URL="+broker.URL)
	} else {
		l.mqtt = fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
		environ = append(environ, "EMBEDDED_MQTT_ADDR="+l.mqtt)
	}
	startIngest(t, l.addr, environ...)
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

// built is the program under test, built once, as make build does, whose work
// is used again.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gudang-deploy-")
	if err != nil {
		return "", err
	}
	builtIn = dir
	path := filepath.Join(dir, "under-test")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "gudang/cmd/ingest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build the program: %w\n%s", err, out)
	}
	return path, nil
})

var builtIn string // is removed at the end

func TestMain(m *testing.M) {
	status := m.Run()
	os.RemoveAll(builtIn)
	os.Exit(status)
}

// startIngest starts the program, and ends it with the test.
func startIngest(t *testing.T, addr string, environ ...string) {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
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

// publish sends a reading of each metric of some sensors.
func (l *live) publish(t *testing.T) {
	t.Helper()
	for _, sensor := range []string{"S-01", "S-02"} {
		l.send(t, sensor, `{"temperature": 26.4, "humidity": 61}`)
	}
}

func (l *live) send(t *testing.T, sensor, payload string) {
	t.Helper()
	host, port, _ := strings.Cut(l.mqtt, ":")
	run(t, exec.Command(testenv.Need(t, "mosquitto_pub"), "-h", host, "-p", port, "-q", "1", "-t", "warehouse/"+sensor+"/reading", "-m", payload))
}

func (l *live) fires(name string) bool { return slices.Contains(l.prom.Alerts(), name) }

// A real Prometheus scrapes a live instance with the shipped files: quiet while
// all is well, and the alert fires when the broker is stopped.
func TestAnAlertFiresWhenTheBrokerIsStopped(t *testing.T) {
	t.Parallel()
	l := startLive(t, testenv.Mosquitto(t))
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
