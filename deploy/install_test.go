package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gudang/internal/testenv"
)

// exposure is systemd's sum of what a service could do to its machine, in
// tenths: 100 is everything.
const exposure = 20

func TestTheUnitIsSoundAndHardened(t *testing.T) {
	t.Parallel()
	analyze := testenv.Need(t, "systemd-analyze")
	version := regexp.MustCompile(`systemd (\d+)`).FindStringSubmatch(run(t, exec.Command(analyze, "--version")))
	old := len(version[1]) < 3 || version[1] < "250" // looks only at units that are installed
	// The program isn't installed here; another that is there stands in for it.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "gudang.service")
	installed := strings.Replace(text(t, "systemd/gudang.service"), "/usr/bin/gudang-ingest", self, 1)
	if err := os.WriteFile(unit, []byte(installed), 0o600); err != nil {
		t.Fatal(err)
	}
	checks := [][]string{{"verify", "--man=no", unit}}
	if !old {
		checks = append(checks, []string{"security", "--offline=yes", "--no-pager", "--threshold=" + strconv.Itoa(exposure), unit})
	}
	for _, args := range checks {
		if out, err := exec.Command(analyze, args...).CombinedOutput(); err != nil {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}
}

func TestThePackageHasWhatTheUnitNeeds(t *testing.T) {
	pkg, unit := text(t, "deb/nfpm.yaml"), text(t, "systemd/gudang.service")
	for _, setting := range []string{"ExecStart", "EnvironmentFile"} {
		path := regexp.MustCompile(`(?m)^` + setting + `=(\S+)$`).FindStringSubmatch(unit)
		if path == nil || !strings.Contains(pkg, "dst: "+path[1]+",") {
			t.Errorf("the package lacks what the unit has as %s: %v", setting, path)
		}
	}
	// What is not built must be there.
	for _, m := range regexp.MustCompile(`src: ([\w./*-]+)`).FindAllStringSubmatch(pkg, -1) {
		if found, err := filepath.Glob("../" + m[1]); err != nil || len(found) == 0 {
			t.Errorf("the package wants %s, which is not there: %v", m[1], err)
		}
	}
}

// The image is built of what .dockerignore lets through.
func TestTheImageIsBuiltOfWhatIsThere(t *testing.T) {
	ignore := text(t, "../.dockerignore")
	copied := 0
	for line := range strings.Lines(text(t, "../Dockerfile")) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "COPY" || strings.HasPrefix(f[1], "--") {
			continue
		}
		for _, src := range f[1 : len(f)-1] {
			copied++
			if _, err := os.Stat("../" + src); err != nil || !strings.Contains(ignore, "\n!"+src+"\n") {
				t.Errorf("COPY %s: not there, or kept out by .dockerignore: %v", src, err)
			}
		}
	}
	if copied == 0 {
		t.Error("found nothing that is copied")
	}
}

func TestTheScriptsAreShell(t *testing.T) {
	scripts, err := filepath.Glob("*/*.sh")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("found no scripts: %v", err)
	}
	for _, name := range scripts {
		shell, _, _ := strings.Cut(strings.TrimPrefix(text(t, name), "#!/bin/"), "\n")
		if out, err := exec.Command(testenv.Need(t, shell), "-n", name).CombinedOutput(); err != nil {
			t.Errorf("%s -n %s: %v\n%s", shell, name, err, out)
		}
	}
}

// Secrets are made once, and differ.
func TestTheSecretsOfCompose(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secrets.sh"), []byte(text(t, "compose/secrets.sh")), 0o600); err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for round := range 2 {
		run(t, exec.Command("sh", filepath.Join(dir, "secrets.sh")))
		for _, name := range []string{"mqtt_password", "http_token", "mongodb_password", "mongodb_root_password", "grafana_password"} {
			secret := text(t, filepath.Join(dir, "secrets", name))
			if other, taken := seen[secret]; len(secret) != 48 || taken != (round == 1) || round == 1 && other != name {
				t.Errorf("round %d: %s has %d bytes, and was there before: %v", round, name, len(secret), taken)
			}
			seen[secret] = name
		}
	}
	if uri := text(t, filepath.Join(dir, "secrets", "mongodb_uri")); !strings.Contains(uri, ":"+text(t, filepath.Join(dir, "secrets", "mongodb_password"))+"@") {
		t.Error("mongodb_uri does not have its password")
	}
	if info, err := os.Stat(filepath.Join(dir, "secrets")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory can be read by others: %v, %v", info.Mode(), err)
	}
}
