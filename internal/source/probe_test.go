package source

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"gudang/internal/testenv"
)

func probed(ctx context.Context, t *testing.T, raw, user, password string) (Probed, error) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return Probe(ctx, Config{URLs: []*url.URL{u}, ClientID: "the-service", Username: user, Password: password, QoS: 1, MaxUnacked: 1, MaxPacket: 1 << 16})
}

func TestProbeIsAStranger(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t)
	p, err := probed(t.Context(), t, b.URL, "", "")
	if err != nil || p.Took <= 0 || !strings.Contains(p.Version, "mosquitto") {
		t.Errorf("%+v, %v", p, err)
	}
	if log := b.Log(); strings.Contains(log, "the-service") || !strings.Contains(log, "gudang-doctor-") {
		t.Errorf("the probe came under another id than one of its own:\n%s", log)
	}
}

func TestProbeSaysWhatTheBrokerSays(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "passwords")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := testenv.Mosquitto(t, "allow_anonymous false", "password_file "+file)
	if _, err := probed(t.Context(), t, b.URL, "fleet", "wrong-password"); !errors.Is(err, packets.ErrorRefusedNotAuthorised) || strings.Contains(err.Error(), "wrong-password") {
		t.Errorf("credentials that are refused: %v", err)
	}
	if _, err := probed(t.Context(), t, "tcp://127.0.0.1:1", "", ""); err == nil || !strings.Contains(err.Error(), "tcp://127.0.0.1:1") {
		t.Errorf("a broker that is not there: %v", err)
	}
}

func TestProbeDoesNotWaitForABrokerThatSaysNothing(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if _, err := probed(ctx, t, "tcp://"+ln.Addr().String(), "", ""); err == nil {
		t.Error("a listener that says nothing was taken for a broker")
	}
	if took := time.Since(begun); took > probeTimeout/2 {
		t.Errorf("it took %v", took)
	}
}
