// Command dashboards writes the Grafana dashboards of deploy/grafana. They are
// made by code so that each query is written once and can be tested.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// out is where the dashboards go: a link, by which go test sees them change.
const out = "out"

func main() {
	if err := write(out); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	for name, build := range map[string]func() (dashboard.Dashboard, error){"service.json": service, "fleet.json": fleet} {
		text, err := encode(build)
		if err != nil {
			return fmt.Errorf("cannot make %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil { //nolint:gosec // for Grafana to read
			return err
		}
	}
	return nil
}

// encode is a dashboard as Grafana reads it.
func encode(build func() (dashboard.Dashboard, error)) ([]byte, error) {
	d, err := build()
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // for people to read
	enc.SetIndent("", "  ")
	err = enc.Encode(d)
	return text.Bytes(), err
}
