package testenv

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestMosquittoIsStoppedStartedAndKilled(t *testing.T) {
	b := Mosquitto(t)
	pub := Need(t, "mosquitto_pub")
	host, port, _ := strings.Cut(b.Addr, ":")
	publish := func() error {
		return exec.Command(pub, "-h", host, "-p", port, "-q", "1", "-t", "a/b", "-m", "1").Run()
	}
	if err := publish(); err != nil {
		t.Fatalf("cannot publish to a new broker: %v", err)
	}
	b.Stop()
	if publish() == nil {
		t.Fatal("the broker answers after Stop")
	}
	b.Start()
	if err := publish(); err != nil {
		t.Fatalf("cannot publish after Start: %v", err)
	}
	b.Kill()
	if publish() == nil {
		t.Fatal("the broker answers after Kill")
	}
	b.Restart()
	if err := publish(); err != nil {
		t.Fatalf("cannot publish after Restart: %v", err)
	}
	if !strings.Contains(b.Log(), "New client connected") {
		t.Errorf("the log lacks the connections:\n%s", b.Log())
	}
}

func TestMosquittoTakesConfigurationLines(t *testing.T) {
	b := Mosquitto(t, "allow_anonymous false", "persistence true")
	pub := Need(t, "mosquitto_pub")
	host, port, _ := strings.Cut(b.Addr, ":")
	if exec.Command(pub, "-h", host, "-p", port, "-t", "a", "-m", "1").Run() == nil {
		t.Error("an anonymous client was let in")
	}
	b.Stop()
	Eventually(t, time.Second, "the broker's log mentions saving", func() bool {
		return strings.Contains(b.Log(), "Saving in-memory database")
	})
}
