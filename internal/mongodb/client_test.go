package mongodb

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestNewTellsWhatCanNeverWork(t *testing.T) {
	for _, c := range []struct{ name, uri, database string }{
		{"no scheme", "localhost:27017", "gudang"},
		{"no host", "mongodb://", "gudang"},
		{"a wrong option", "mongodb://localhost/?w=majority&connectTimeoutMS=soon", "gudang"},
		{"a password with a slash that is not escaped", "mongodb://me:s3/cret@localhost/", "gudang"},
		{"a password with a bad escape", "mongodb://me:s3cret%zz@localhost/", "gudang"},
		{"two hosts for SRV", "mongodb+srv://a.example.com,b.example.com/?connectTimeoutMS=soon", "gudang"},
		{"writes that nobody confirms", "mongodb://localhost/?w=0", "gudang"},
		{"no database", "mongodb://localhost", ""},
		{"a database with a dot", "mongodb://localhost", "a.b"},
		{"a database with too long a name", "mongodb://localhost", strings.Repeat("x", 64)},
	} {
		_, err := New(c.uri, c.database)
		if err == nil {
			t.Errorf("%s: taken", c.name)
		} else if strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: the password shows: %v", c.name, err)
		}
	}
}

func TestNewDoesNotAskTheNetwork(t *testing.T) {
	begun := time.Now()
	for _, uri := range []string{
		"mongodb://203.0.113.1:27017", "mongodb://no-such-host.invalid",
		"mongodb+srv://me:pass@no-such-host.invalid/?srvMaxHosts=2&retryWrites=true", "mongodb+srv://no-such-host.invalid",
	} {
		if _, err := New(uri, "gudang"); err != nil {
			t.Errorf("%s: %v", uri, err)
		}
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestWriteConcernIsSafeUnlessTheURISaysOtherwise(t *testing.T) {
	for _, c := range []struct {
		uri      string
		w        any
		journal  bool
		majority bool
	}{
		{"mongodb://localhost", "majority", true, true},
		{"mongodb://localhost/?w=1", 1, true, false},
		{"mongodb://localhost/?journal=false", "majority", false, true},
		{"mongodb://localhost/?w=3&journal=false", 3, false, false},
	} {
		client, err := New(c.uri, "gudang")
		if err != nil {
			t.Errorf("%s: %v", c.uri, err)
			continue
		}
		wc := client.options.WriteConcern
		if wc.W != c.w || *wc.Journal != c.journal || client.Majority() != c.majority {
			t.Errorf("%s: w %v, journal %t, majority %t", c.uri, wc.W, *wc.Journal, client.Majority())
		}
	}
}

func TestErrorsDoNotShowSecrets(t *testing.T) {
	client := &Client{uri: "mongodb://me:p%40ss%2Fword@localhost/?tlsCertificateKeyFilePassword=k3y&appName=x"}
	text := client.redact(errors.New(`cannot use p%40ss%2Fword or p@ss/word or k3y of me`)).Error()
	if text != "cannot use xxxxx or xxxxx or xxxxx of me" {
		t.Error(text)
	}
	plain := errors.New("nothing to hide")
	if got := client.redact(plain); got.Error() != plain.Error() || !errors.Is(got, plain) {
		t.Error("an error without a secret was changed")
	}
}

func TestUseAfterCloseIsAnError(t *testing.T) {
	client, err := New("mongodb://localhost", "gudang")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if _, err := client.Database(); err == nil {
		t.Error("a closed client gave a database")
	}
}
