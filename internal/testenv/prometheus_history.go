package testenv

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// PrometheusHistory starts a Prometheus that holds the samples in the text, which
// is in the format of OpenMetrics and may be of any time, and returns its
// address. It ends with the test.
//
// Debian's is a 2.x, of which a window and a look back have both ends closed,
// where those of 3.x are open on the left. Its look back is set a millisecond
// shorter here, which comes to the same.
func PrometheusHistory(t testing.TB, openMetrics string) string {
	t.Helper()
	server, tool, dir := Need(t, "prometheus"), Need(t, "promtool"), t.TempDir()
	text, conf, data := filepath.Join(dir, "samples.txt"), filepath.Join(dir, "prometheus.yml"), filepath.Join(dir, "data")
	for name, content := range map[string]string{text: openMetrics, conf: "global: {evaluation_interval: 1m}\n"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(tool, "tsdb", "create-blocks-from", "openmetrics", "--quiet", text, data).CombinedOutput(); err != nil {
		t.Fatalf("promtool does not take the samples: %v\n%s", err, out)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", FreePort(t))
	var log LogBuffer
	proc, err := startProcess(exec.Command(server, "--config.file="+conf, "--storage.tsdb.path="+data, "--storage.tsdb.retention.time=100y",
		"--query.lookback-delta=4m59s999ms", "--web.listen-address="+addr, "--log.level=warn"), &log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		proc.end(syscall.SIGKILL) // nothing is read from it again
		if t.Failed() {
			t.Logf("prometheus said:\n%s", log.tail())
		}
	})
	ready := func() bool {
		resp, err := http.Get("http://" + addr + "/-/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	if !poll(20*time.Second, func() bool { return ready() || proc.ended() }) || proc.ended() {
		t.Fatalf("cannot start prometheus:\n%s", log.tail())
	}
	return "http://" + addr
}
