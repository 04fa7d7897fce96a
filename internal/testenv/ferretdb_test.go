package testenv

import "testing"

func TestFerretDBKeepsItsPlaceOverARestart(t *testing.T) {
	f := FerretDB(t)
	uri := f.URI
	f.Stop()
	if answers(f.Addr) {
		t.Fatal("the server answers after Stop")
	}
	f.Start()
	if f.URI != uri || !answers(f.Addr) {
		t.Fatalf("after a restart at %s, before at %s", f.URI, uri)
	}
}

func TestModuleDirIsFoundFromBelow(t *testing.T) {
	if _, err := moduleDir("test/ferretdb"); err != nil {
		t.Error(err)
	}
	if _, err := moduleDir("no/such/folder"); err == nil {
		t.Error("found a folder that is not there")
	}
}
