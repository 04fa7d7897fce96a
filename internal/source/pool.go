package source

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"gudang/internal/decode"
)

// Pool is several sessions with a broker that share the filters between them,
// where one connection is what limits the rate. They are one source: one
// intake, one set of metrics, ready when all of them are.
type Pool struct {
	in       *entrance
	sessions []*Source
	retired  []*Source
}

// MaxConnections is how many sessions a pool may have.
const MaxConnections = 64

// NewPool makes n sessions. Each decodes its messages by itself, so each gets a
// decoder of its own. The first has the client id as it is, so that one
// connection can become several and several one. Sessions of a larger pool that
// ran before here are emptied and removed: the broker would go on giving them
// their share.
func NewPool(cfg Config, n int, decoder func() (*decode.Decoder, error), reg Registerer) (*Pool, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if n > 1 && cfg.Share == "" {
		cfg.Share = shareOf(cfg.ClientID)
	}
	p := &Pool{in: newEntrance(cfg.MaxUnacked, cfg.Log, reg)}
	for i := 1; i <= MaxConnections; i++ {
		member := cfg.member(i)
		had, err := sessionFile{member.SessionFile}.read(member.ClientID)
		if err != nil {
			cfg.Log.Warn("cannot tell whether an earlier session is left at the broker", "client_id", member.ClientID, "error", err)
		}
		if i > n && len(had) == 0 {
			continue
		}
		d, err := decoder()
		if err != nil {
			return nil, err
		}
		s := newSession(member, d, p.in)
		if i <= n {
			p.sessions = append(p.sessions, s)
			continue
		}
		s.retired, s.filters = true, had
		p.retired = append(p.retired, s)
	}
	return p, nil
}

// shareOf makes the name of a share group of a client id.
func shareOf(clientID string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("/+#", r) {
			return '-'
		}
		return r
	}, clientID)
}

// member is the configuration of session i.
func (c Config) member(i int) Config {
	c.Sender = ""
	if i > 1 {
		c.ClientID = fmt.Sprintf("%s-%d", c.ClientID, i)
		c.Sender = c.ClientID
		if c.SessionFile != "" {
			ext := filepath.Ext(c.SessionFile)
			c.SessionFile = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(c.SessionFile, ext), i, ext)
		}
	}
	return c
}

// Intake is where the next stage takes messages from.
func (p *Pool) Intake() *Intake { return p.in.intake }

// Remember is as a Source's.
func (p *Pool) Remember(hash uint64, stamp int64) { p.in.remember(hash, stamp) }

// Run keeps the sessions up until stop ends, as a Source's does.
func (p *Pool) Run(ctx, stop context.Context) error {
	errs := make([]error, len(p.sessions)+len(p.retired))
	var all sync.WaitGroup
	for i, s := range append(p.sessions[:len(p.sessions):len(p.sessions)], p.retired...) {
		all.Go(func() { errs[i] = s.Run(ctx, stop) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Ready says whether messages can arrive by each session, and if not, why.
func (p *Pool) Ready(ctx context.Context) error {
	if len(p.sessions) == 1 {
		return p.sessions[0].Ready(ctx)
	}
	var errs []error
	for _, s := range p.sessions {
		if err := s.Ready(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.cfg.ClientID, err))
		}
	}
	return errors.Join(errs...)
}

// errRemoved says that a session that is no longer wanted is gone.
var errRemoved = errors.New("the session is removed")

// empty takes what the broker has queued for a session that is no longer
// wanted, and removes it.
func (s *Source) empty(ctx, stop context.Context, l *link) error {
	s.up()
	s.log.Info("removing a session of an earlier MQTT_CONNECTIONS", "client_id", s.cfg.ClientID)
	s.quit(ctx, l)
	for l.conn.unacked() > 0 && !ended(ctx, stop) {
		changed := s.in.intake.changed()
		select {
		case <-changed:
		case err := <-l.lost:
			s.leave(l, 0)
			return err
		case <-stop.Done():
		case <-ctx.Done():
		}
	}
	s.leave(l, goodbye)
	if l.conn.unacked() > 0 {
		return errors.New("stopped before the session was empty")
	}
	s.removeSession(ctx)
	return errRemoved
}
