package web

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"hash/maphash"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"
)

// Auth is who may read: whoever has the token, or the name and the password.
// Without both everybody may.
type Auth struct {
	Token              string
	Username, Password string
}

const (
	// wrongDelay is how long a wrong credential waits for its answer, and
	// maxWrong how many of one address may wait at a time. Together they bound
	// guessing to 16 tries a second, and a dashboard with an old password does
	// not lock out the Prometheus beside it.
	wrongDelay = 500 * time.Millisecond
	maxWrong   = 8

	// places is the size of the table of addresses that are waiting. It never
	// grows: two addresses that share a place share its bound.
	places = 256
)

// guard asks for credentials. It keeps their hashes only, and compares hashes:
// neither what is right in a guess nor its length shows in the time it takes.
type guard struct {
	bearer, basic             bool
	token, username, password [sha256.Size]byte

	seed    maphash.Seed
	wrong   [places]atomic.Int32
	refused throttle // for the log
}

// newGuard is nil where everybody may read.
func newGuard(a Auth) *guard {
	if a == (Auth{}) {
		return nil
	}
	return &guard{
		bearer: a.Token != "", token: sha256.Sum256([]byte(a.Token)),
		basic: a.Username != "" || a.Password != "", username: sha256.Sum256([]byte(a.Username)), password: sha256.Sum256([]byte(a.Password)),
		seed: maphash.MakeSeed(),
	}
}

// known says whether the credentials of the request are right.
func (g *guard) known(r *http.Request) bool {
	if username, password, ok := r.BasicAuth(); ok {
		return g.basic && same(g.username, username)&same(g.password, password) == 1
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return g.bearer && strings.EqualFold(scheme, "Bearer") && same(g.token, strings.TrimSpace(token)) == 1
}

func same(want [sha256.Size]byte, got string) int {
	sum := sha256.Sum256([]byte(got))
	return subtle.ConstantTimeCompare(want[:], sum[:])
}

// place is where the wrong tries from an address are counted. An IPv6 client
// has a network of its own, so there the network is the address.
func (g *guard) place(remote string) *atomic.Int32 {
	var addr netip.Addr
	if ap, err := netip.ParseAddrPort(remote); err == nil {
		addr = ap.Addr().Unmap()
		if addr.Is6() {
			addr = netip.PrefixFrom(addr, 64).Masked().Addr()
		}
	}
	return &g.wrong[maphash.Comparable(g.seed, addr)%places]
}

// challenge tells a client how to say who it is.
func (g *guard) challenge(h http.Header) {
	if g.bearer {
		h.Add("WWW-Authenticate", `Bearer realm="gudang"`)
	}
	if g.basic {
		h.Add("WWW-Authenticate", `Basic realm="gudang", charset="UTF-8"`)
	}
}

const (
	alivePath = "/healthz"
	readyPath = "/readyz"
)

// anonymous says whether a request is answered without credentials. Probes
// have none; to one that offers some the ready path says more, so there they
// must be right.
func anonymous(r *http.Request) bool {
	return r.URL.Path == alivePath || r.URL.Path == readyPath && r.Header.Get("Authorization") == ""
}

// admit lets through who may read.
func (s *Server) admit(next http.Handler) http.Handler {
	if s.guard == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !anonymous(r) {
			if err := s.refuse(r); err != nil {
				if err == errWho {
					s.guard.challenge(w.Header())
				}
				s.fail(w, r, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// refuse is why a request is not let through, or nil. It holds back the answer
// to a wrong credential, and does not even look at one more than may wait.
func (s *Server) refuse(r *http.Request) *httpError {
	if r.Header.Get("Authorization") == "" {
		return errWho
	}
	place := s.guard.place(r.RemoteAddr)
	defer place.Add(-1)
	if place.Add(1) > maxWrong {
		return errGuesses
	}
	if s.guard.known(r) {
		return nil
	}
	if ok, missed := s.guard.refused.allow(time.Now()); ok {
		s.log.Warn("http credentials are wrong", "remote", r.RemoteAddr, "unlogged", missed)
	}
	ctx, cancel := context.WithTimeout(r.Context(), wrongDelay)
	defer cancel()
	<-ctx.Done()
	return errWho
}
