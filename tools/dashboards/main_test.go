package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func TestTheDashboardsAreThoseOfTheCode(t *testing.T) {
	for name, build := range map[string]func() (dashboard.Dashboard, error){"service.json": service, "fleet.json": fleet} {
		want, err := encode(build)
		if err != nil {
			t.Fatal(err)
		}
		have, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(have, want) {
			t.Errorf("%s is not what the code makes: make dashboards", name)
		}
		again, err := encode(build)
		if err != nil || !bytes.Equal(want, again) {
			t.Errorf("%s is made anew each time: %v", name, err)
		}
	}
}
