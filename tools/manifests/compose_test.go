package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// compose loads the file as docker compose does: with the specification's
// schema, and every reference looked up.
func compose(t *testing.T) *types.Project {
	t.Helper()
	const dir = "deploy"
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  dir,
		ConfigFiles: []types.ConfigFile{{Filename: dir + "/compose.yaml"}},
		Environment: types.Mapping{},
	}, loader.WithProfiles([]string{"*"}))
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestComposeIsReadAsItIsMeant(t *testing.T) {
	p := compose(t)
	for _, name := range []string{"mosquitto", "mongodb", "ingest", "prometheus", "grafana", "simulator"} {
		s, ok := p.Services[name]
		if !ok {
			t.Errorf("no service %s", name)
			continue
		}
		if (s.HealthCheck == nil || s.HealthCheck.Disable) && name != "simulator" && name != "ingest" { // ingest's is in its image
			t.Errorf("%s has no health check", name)
		}
		if s.Restart != "unless-stopped" || s.MemLimit == 0 || s.StopGracePeriod != nil && *s.StopGracePeriod == 0 {
			t.Errorf("%s has no restart or no limit", name)
		}
		// Only sensors come from outside.
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" && port.Published != "1883" {
				t.Errorf("%s opens port %s to the network", name, port.Published)
			}
		}
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s mounts what is not in the repository: %v", name, err)
			}
		}
	}
	if got := p.Services["simulator"].Profiles; !slices.Equal(got, []string{"simulator"}) {
		t.Errorf("the simulator's profiles are %v", got)
	}
}

// Each secret that a service is told of must be made, and be one of its own.
func TestComposeHasItsSecrets(t *testing.T) {
	p := compose(t)
	maker := string(read(t, "deploy/compose/secrets.sh"))
	for name, s := range p.Secrets {
		if filepath.Base(s.File) != name || !strings.Contains(maker, name) {
			t.Errorf("secrets.sh does not make %s, the file of the secret %s", s.File, name)
		}
	}
	for name, s := range p.Services {
		var mine []string
		for _, secret := range s.Secrets {
			mine = append(mine, "/run/secrets/"+secret.Source)
		}
		for key, value := range s.Environment {
			if value == nil {
				t.Errorf("%s: %s comes from the caller's environment", name, key)
				continue
			}
			if strings.HasPrefix(*value, "/run/secrets/") && !slices.Contains(mine, *value) {
				t.Errorf("%s: %s=%s is not among its secrets", name, key, *value)
			}
			if strings.Contains(key, "PASSWORD") && !strings.HasSuffix(key, "_FILE") {
				t.Errorf("%s: %s is not given as a file", name, key)
			}
		}
	}
}
