package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"gudang/internal/testenv"
)

// A server that will never have time series collections stops the start with
// one line.
func TestTimeSeriesAreRefusedAtTheStart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // if it starts nevertheless
	defer cancel()
	var out, errOut bytes.Buffer
	status := run(ctx, nil, []string{
		"BUCKETS=timeseries", "MONGODB_URI=" + testenv.FerretDB(t).URI,
		"DATA_DIR=" + t.TempDir(), "HTTP_ADDR=127.0.0.1:0", "EMBEDDED_MQTT_ADDR=127.0.0.1:0",
	}, &out, &errOut)
	if text := errOut.String(); status != 2 || strings.Count(text, "\n") != 1 || !strings.Contains(text, "BUCKETS: timeseries is not possible here, it needs MongoDB 5.0 or newer") {
		t.Errorf("status %d, said %q", status, text)
	}
}

// One that is away does not: it may be started after us. What it is turns out
// when it is there, and until then readings wait in the journal.
func TestTimeSeriesAreAskedForWhenTheServerIsThere(t *testing.T) {
	f := testenv.FerretDB(t)
	f.Stop()
	p := start(t, "BUCKETS=timeseries", "MONGODB_URI="+f.URI+"?serverSelectionTimeoutMS=300")
	if !strings.Contains(p.log.String(), "cannot see yet whether the store has time series collections") {
		t.Errorf("the start did not say that it could not ask")
	}
	f.Start()
	testenv.Eventually(t, 30*time.Second, "/readyz says what is wrong", func() bool {
		_, body := p.get("/readyz")
		return strings.Contains(body, "it needs MongoDB 5.0 or newer")
	})
}

// With a server that has them, readings go through the whole program.
func TestTimeSeriesAreWritten(t *testing.T) {
	server := testenv.NewTimeSeriesServer(t)
	p := start(t, "BUCKETS=timeseries", "FLUSH_INTERVAL=50ms", "RETENTION=1h", "MONGODB_URI="+server.URI+"?retryWrites=false")
	p.untilReady()
	pub(t, &testenv.Broker{Addr: p.service.broker.Addr()}, "-t", "warehouse/S-01/reading", "-m", `{"temperature": 26.5}`)
	testenv.Eventually(t, 20*time.Second, "the reading can be read", func() bool {
		_, body := p.get("/api/v1/readings?sensor=S-01")
		return strings.Contains(body, `"metric":"temperature"`) && strings.Contains(body, `"value":26.5`)
	})
	_, body := p.get("/api/v1/buckets?sensor=S-01")
	if !strings.Contains(body, `"count":1,"sum":26.5,"min":26.5,"max":26.5`) {
		t.Errorf("buckets: %s", body)
	}
	if n := len(server.Seen("create")); n == 0 {
		t.Error("no collection was made")
	}
	if status, _, errOut := p.call("refresh"); status != 2 {
		t.Errorf("refresh: status %d, %s", status, errOut)
	}
}
