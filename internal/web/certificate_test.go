package web

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// writePair writes a new certificate for 127.0.0.1 with that serial number,
// and its key.
func writePair(t *testing.T, dir string, serial int64) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "gudang"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A clock of the file system that is coarse must not hide the change.
	later := time.Now().Add(time.Duration(serial) * time.Second)
	for _, name := range []string{certFile, keyFile} {
		if err := os.Chtimes(name, later, later); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// served is the serial number of the certificate that a new client is shown.
func served(t *testing.T, addr string) int64 {
	t.Helper()
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func TestARenewedCertificateIsTaken(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := writePair(t, dir, 1)
	var log bytes.Buffer
	cert, err := LoadCertificate(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	c := config(example())
	c.Certificate = cert
	s := New(c)
	running(t, s)
	// look makes the next handshake look at the files.
	look := func() {
		cert.mu.Lock()
		defer cert.mu.Unlock()
		cert.looked = time.Time{}
	}
	expect := func(what string, serial int64) {
		t.Helper()
		if got := served(t, s.Addr()); got != serial {
			t.Errorf("%s: certificate %d, want %d", what, got, serial)
		}
	}
	expect("at the start", 1)
	writePair(t, dir, 2)
	expect("right after a change, which is not looked for at each handshake", 1)
	look()
	expect("at the next look", 2)

	if err := os.WriteFile(keyFile, []byte("half a fil"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		look()
		expect("with a key that is broken", 2)
	}
	if err := os.Remove(certFile); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		look()
		expect("with a file that is missing", 2)
	}
	writePair(t, dir, 3)
	look()
	expect("once the pair fits again", 3)

	text := log.String()
	if body := do(s, http.MethodGet, "/metrics").Body.String(); !strings.Contains(body, "\ngudang_http_certificate_expiry_timestamp_seconds "+
		strconv.FormatFloat(float64(cert.pair.Leaf.NotAfter.Unix()), 'g', -1, 64)+"\n") {
		t.Error("the metric of its end is not that of the certificate in use")
	}
	if renewed, kept := strings.Count(text, "is renewed"), strings.Count(text, "stays in use"); renewed != 2 || kept != 2 {
		t.Errorf("%d renewals and %d troubles in the log, want 2 and 2:\n%s", renewed, kept, text)
	}
}

func TestTLSIsSpokenAndNothingOlder(t *testing.T) {
	certFile, keyFile := writePair(t, t.TempDir(), 1)
	cert, err := LoadCertificate(certFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c := config(example())
	c.Certificate = cert
	s := New(c)
	running(t, s)
	roots := x509.NewCertPool()
	roots.AddCert(cert.pair.Leaf)
	for _, h2 := range []bool{false, true} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: h2}}
		w, err := client.Get(s.URL() + "healthz")
		if err != nil {
			t.Fatal(err)
		}
		w.Body.Close()
		if w.StatusCode != 200 || (w.ProtoMajor == 2) != h2 || !strings.HasPrefix(s.URL(), "https://") {
			t.Errorf("%s: %d over %s", s.URL(), w.StatusCode, w.Proto)
		}
		client.CloseIdleConnections()
	}
	if _, err := tls.Dial("tcp", s.Addr(), &tls.Config{RootCAs: roots, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	w, err := http.Get("http://" + s.Addr() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	w.Body.Close()
	if w.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %d", w.StatusCode)
	}
}

func TestAPairThatCannotBeReadIsOneLine(t *testing.T) {
	certFile, keyFile := writePair(t, t.TempDir(), 1)
	other, _ := writePair(t, t.TempDir(), 2)
	for name, pair := range map[string][2]string{
		"no certificate":                  {"/does/not/exist", keyFile},
		"no key":                          {certFile, "/does/not/exist"},
		"a key in place of a certificate": {keyFile, keyFile},
		"the key of another":              {other, keyFile},
		"a directory":                     {filepath.Dir(certFile), keyFile},
	} {
		_, err := LoadCertificate(pair[0], pair[1], slog.New(slog.DiscardHandler))
		if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), pair[0]) && !strings.Contains(err.Error(), pair[1]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
