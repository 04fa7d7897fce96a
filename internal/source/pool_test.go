package source

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"gudang/internal/decode"
	"gudang/internal/reading"
	"gudang/internal/testenv"
)

// openPool starts a pool of n sessions, whose files are in dir.
func openPool(t *testing.T, url, dir string, n int) (*station, *Pool) {
	t.Helper()
	urls, err := ParseURLs(url)
	if err != nil {
		t.Fatal(err)
	}
	st := &station{t: t, log: &testenv.LogBuffer{}, done: make(chan error, 1), outcomes: map[reading.Outcome]int{}}
	pool, err := NewPool(Config{
		URLs: urls, ClientID: "pool/" + t.Name(), QoS: 1, KeepAlive: 5 * time.Second, MaxUnacked: 10_000, MaxPacket: 400 << 10,
		SessionFile: filepath.Join(dir, "session.json"), Log: slog.New(slog.NewTextHandler(st.log, nil)),
	}, n, func() (*decode.Decoder, error) {
		return decode.New(decode.Config{Topics: []string{"warehouse/{sensor}/reading"}, Zone: time.UTC, ClockAhead: time.Minute, ClockBehind: 24 * 365 * time.Hour})
	}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	st.input = pool
	st.start()
	until(t, "ready", st.ready)
	return st, pool
}

func TestAPoolSharesTheMessages(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t)
	st, pool := openPool(t, b.URL, t.TempDir(), 3)
	if up := testutil.ToFloat64(pool.in.metrics.connected); up != 1 {
		t.Errorf("gudang_mqtt_connected is %v", up)
	}
	send(t, publisher(t, b.URL), 0, 3000)
	until(t, "every reading", func() bool { return st.distinct() == 3000 })
	if n := st.readings(); n != 3000 {
		t.Errorf("%d readings for 3000 messages", n)
	}
	for _, s := range pool.sessions {
		s.receiving.Lock()
		if s.in.now.IsZero() {
			t.Errorf("no message came by %s", s.cfg.ClientID)
		}
		s.receiving.Unlock()
	}

	b.Stop()
	until(t, "says which sessions are down", func() bool {
		err := st.Ready(t.Context())
		return err != nil && strings.Count(err.Error(), "pool/") == 3
	})
	if up := testutil.ToFloat64(pool.in.metrics.connected); up != 0 {
		t.Errorf("without the broker gudang_mqtt_connected is %v", up)
	}
	b.Start()
	until(t, "ready again", st.ready)
	send(t, publisher(t, b.URL), 3000, 100)
	until(t, "what came after", func() bool { return st.distinct() == 3100 })
	st.finish()
}

// With a smaller number, and then with one connection, the sessions that are
// left over hold messages that nobody else would get.
func TestASmallerPoolEmptiesTheSessionsThatAreLeftOver(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t)
	dir := t.TempDir()
	pub := publisher(t, b.URL)
	sent, had := 0, 0
	for _, n := range []int{1, 4, 2, 1, 3} {
		st, pool := openPool(t, b.URL, dir, n)
		send(t, pub, sent, 400)
		sent += 400
		until(t, fmt.Sprintf("every reading by %d sessions", n), func() bool { return st.distinct() == sent-had })
		until(t, "no session is left over", func() bool {
			return strings.Count(st.log.String(), "session at the broker is removed") == len(pool.retired)
		})
		st.finish()
		had = sent
		send(t, pub, sent, 200) // for whom nobody is there
		sent += 200
	}
	st, pool := openPool(t, b.URL, dir, 3)
	until(t, "the last", func() bool { return st.distinct() == sent-had })
	if len(pool.retired) > 0 {
		t.Errorf("%d sessions are to be removed once more", len(pool.retired))
	}
	st.finish()
}
