// Package deploy tests the files that an installation starts from.
package deploy

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gudang/internal/testenv"
)

// shipped is mosquitto.conf without the two lines that belong to a machine:
// the test's broker has its own port and directory.
func shipped(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile("mosquitto.conf")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		key, _, _ := strings.Cut(line, " ")
		if line != "" && key != "#" && !strings.HasPrefix(key, "#") && key != "listener" && key != "persistence_location" {
			lines = append(lines, line)
		}
	}
	return lines
}

// With Mosquitto's own limits 1,020 of these 3,000 arrive.
func TestMosquittoKeepsWhatASubscriberMisses(t *testing.T) {
	const messages = 3000
	pub, sub := testenv.Need(t, "mosquitto_pub"), testenv.Need(t, "mosquitto_sub")
	broker := testenv.Mosquitto(t, shipped(t)...)
	host, port, err := net.SplitHostPort(broker.Addr)
	if err != nil {
		t.Fatal(err)
	}
	to := []string{"-h", host, "-p", port, "-q", "1", "-t", "warehouse/S-01/reading"}
	session := append([]string{"-c", "-i", "gudang-test"}, to...)

	run(t, exec.Command(sub, append(session, "-E")...)) // subscribes and goes away

	var lines strings.Builder
	for i := range messages {
		fmt.Fprintln(&lines, i)
	}
	publish := exec.Command(pub, append(to, "-l")...)
	publish.Stdin = strings.NewReader(lines.String())
	run(t, publish)

	// A restart in order must lose nothing either.
	broker.Stop()
	if _, err := os.Stat(filepath.Join(broker.Dir, "mosquitto.db")); err != nil {
		t.Fatalf("the broker saved nothing: %v", err)
	}
	broker.Start()

	got := run(t, exec.Command(sub, append(session, "-C", fmt.Sprint(messages), "-W", "30")...))
	if got != lines.String() {
		t.Errorf("got %d messages, want %d in order", strings.Count(got, "\n"), messages)
	}
}

// run returns what the command prints and fails the test if it fails.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("cannot run %q: %v\n%s", cmd.Args, err, errs.String())
	}
	return string(out)
}
