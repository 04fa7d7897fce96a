package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gudang/internal/testenv"
	"gudang/internal/web"
)

// pair is a certificate and its key.
func pair(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"gudang.example.com"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// The service is asked as a container's health check asks it: by the program
// itself, with the same settings.
func TestHealthAsksTheServiceWithItsOwnSettings(t *testing.T) {
	t.Parallel()
	certFile, keyFile := pair(t)
	for name, environ := range map[string][]string{
		"plain":             nil,
		"with TLS":          {"HTTP_CERT_FILE=" + certFile, "HTTP_KEY_FILE=" + keyFile},
		"with a token":      {"HTTP_TOKEN=t0ken"},
		"every interface":   {"HTTP_ADDR=0.0.0.0:0"},
		"without a name":    {"HTTP_ADDR=:0"},
		"token and no host": {"HTTP_ADDR=:0", "HTTP_TOKEN=t0ken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := testenv.Mosquitto(t)
			p := start(t, append([]string{"MQTT_URL=" + b.URL}, environ...)...)
			_, port, ok := cutLast(p.service.web.Addr(), ":")
			host, _, ok2 := cutLast(p.service.cfg.HTTPAddr, ":")
			if !ok || !ok2 {
				t.Fatal(p.service.web.Addr())
			}
			environ := append(environ, "DATA_DIR="+t.TempDir(), "HTTP_ADDR="+host+":"+port)
			health := func(args ...string) int {
				var out, errOut bytes.Buffer
				return run(t.Context(), append([]string{"health"}, args...), environ, &out, &errOut)
			}
			testenv.Eventually(t, 20*time.Second, "healthy and ready", func() bool { return health() == 0 && health("-ready") == 0 })
			b.Stop()
			testenv.Eventually(t, 20*time.Second, "not ready without the broker", func() bool { return health("-ready") == 1 })
			if status := health(); status != 0 {
				t.Errorf("without the broker: status %d, want 0: it is alive", status)
			}
			p.end()
			if status := health(); status != 1 {
				t.Errorf("without the service: status %d, want 1", status)
			}
		})
	}
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func TestTheStartSaysWhatIsOpenToTheNetwork(t *testing.T) {
	token, cert := web.Auth{Token: "x"}, &web.Certificate{}
	for _, c := range []struct {
		addr string
		cfg  web.Config
		says string
	}{
		{"127.0.0.1:8080", web.Config{}, ""},
		{"[::1]:8080", web.Config{}, ""},
		{"localhost:8080", web.Config{}, ""},
		{"[::ffff:127.0.0.1]:8080", web.Config{}, ""},
		{"0.0.0.0:8080", web.Config{}, "asks for no password"},
		{":8080", web.Config{}, "asks for no password"},
		{"gudang.example.com:8080", web.Config{}, "asks for no password"},
		{"10.0.0.1:8080", web.Config{Certificate: cert}, "asks for no password"},
		{"10.0.0.1:8080", web.Config{Auth: token}, "without TLS"},
		{"10.0.0.1:8080", web.Config{Auth: token, Certificate: cert}, ""},
	} {
		var log bytes.Buffer
		s := &service{cfg: &config{HTTPAddr: c.addr}, log: slog.New(slog.NewTextHandler(&log, nil))}
		s.warnOpen(c.cfg)
		if got := log.String(); c.says == "" && got != "" || !strings.Contains(got, c.says) {
			t.Errorf("%s: said %q, want %q in it", c.addr, got, c.says)
		}
	}
}

// A pair that does not fit is found out at the start, which says so in a line.
func TestACertificateThatDoesNotFitStopsTheStart(t *testing.T) {
	certFile, _ := pair(t)
	_, keyFile := pair(t)
	var out, errOut bytes.Buffer
	status := run(t.Context(), nil, []string{
		"DATA_DIR=" + t.TempDir(), "HTTP_ADDR=127.0.0.1:0", "EMBEDDED_MQTT_ADDR=127.0.0.1:0", "HTTP_CERT_FILE=" + certFile, "HTTP_KEY_FILE=" + keyFile,
	}, &out, &errOut)
	if text := errOut.String(); status != 2 || strings.Count(text, "\n") != 1 || !strings.Contains(text, "HTTP_CERT_FILE") {
		t.Errorf("status %d, said %q", status, text)
	}
}
