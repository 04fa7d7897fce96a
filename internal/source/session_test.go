package source

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestASessionFileRemembersTheFiltersOfItsClient(t *testing.T) {
	f := sessionFile{filepath.Join(t.TempDir(), "new", "session.json")}
	if had, err := f.read("a"); err != nil || had != nil {
		t.Fatalf("before it exists: %v, %v", had, err)
	}
	if err := f.write("a", []string{"x/+", "y/#"}); err != nil {
		t.Fatal(err)
	}
	had, err := f.read("a")
	if err != nil || !slices.Equal(had, []string{"x/+", "y/#"}) {
		t.Errorf("read %v, %v", had, err)
	}
	if gone := dropped(had, []string{"y/#", "z"}); !slices.Equal(gone, []string{"x/+"}) {
		t.Errorf("dropped %v, want x/+", gone)
	}
	if had, err := f.read("b"); err != nil || had != nil {
		t.Errorf("of another client: %v, %v", had, err)
	}
	if err := os.WriteFile(f.path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.read("a"); err == nil {
		t.Error("a damaged file gave no error")
	}
	if had, err := (sessionFile{}).read("a"); err != nil || had != nil {
		t.Errorf("without a file: %v, %v", had, err)
	}
	if err := (sessionFile{}).write("a", nil); err != nil {
		t.Errorf("without a file: %v", err)
	}
}
