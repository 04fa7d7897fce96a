//go:build unix

package chaos

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// lane is what a fault happens to.
type lane string

const (
	process lane = "process" // each instance has these three of its own
	network lane = "network"
	session lane = "session"
	store   lane = "store"
	broker  lane = "broker"
)

// lanes says how far apart the faults of a lane are.
var lanes = map[lane][2]time.Duration{
	process: {2 * time.Second, 8 * time.Second},
	network: {3 * time.Second, 12 * time.Second},
	session: {4 * time.Second, 20 * time.Second},
	store:   {2 * time.Second, 8 * time.Second},
	broker:  {6 * time.Second, 30 * time.Second},
}

// fault is one way to break something. in says where it may be asked for: any
// of these worlds will do.
type fault struct {
	name     string
	lane     lane
	in       world
	weight   int
	from, to time.Duration // how long it lasts
	begin    func(r *run, e *event)
	end      func(r *run, e *event) (over bool) // called again until it is over
}

// faults are all of them. A new one is a line here.
func faults() []fault {
	const ms, s = time.Millisecond, time.Second
	return []fault{
		{"kill -9", process, anywhere, 4, 50 * ms, 3 * s, (*run).kill, (*run).startAgain},
		{"SIGTERM", process, anywhere, 3, 50 * ms, 3 * s, (*run).terminate, (*run).awaitStop},
		{"freeze", process, anywhere, 1, 200 * ms, 4 * s, (*run).freeze, (*run).thaw},

		{"cut", network, anywhere, 3, 100 * ms, 4 * s, (*run).cutNetwork, (*run).healNetwork},
		{"reset", network, anywhere, 2, 0, 0, (*run).resetNetwork, nil},
		{"stall", network, anywhere, 2, 200 * ms, 5 * s, (*run).stallNetwork, (*run).healNetwork},
		{"stall of what is sent", network, anywhere, 2, 200 * ms, 5 * s, (*run).stallUp, (*run).healNetwork},
		{"stall of what is received", network, anywhere, 2, 200 * ms, 5 * s, (*run).stallDown, (*run).healNetwork},
		{"slow", network, anywhere, 1, s, 5 * s, (*run).slowNetwork, (*run).healNetwork},

		{"takeover", session, outside, 1, 50 * ms, 1500 * ms, (*run).takeOver, nil},

		{"lock", store, onSQLite, 3, 200 * ms, 4 * s, (*run).lockStore, (*run).unlockStore},
		{"long lock", store, onSQLite, 1, 5 * s, 8 * s, (*run).lockStore, (*run).unlockStore},
		{"pause", store, onMongo, 2, 200 * ms, 6 * s, (*run).pauseStore, (*run).healStore},
		{"replies cut", store, onMongo, 4, s, 5 * s, (*run).cutReplies, (*run).healStore},
		{"reset", store, onMongo, 2, 0, 0, (*run).resetStore, nil},
		{"cut", store, onMongo, 2, 100 * ms, 4 * s, (*run).cutStore, (*run).healStore},
		{"slow", store, onMongo, 1, s, 4 * s, (*run).slowStore, (*run).healStore},
		{"restart", store, onMongo, 1, 100 * ms, 2 * s, (*run).stopStore, (*run).startStore},

		{"restart", broker, persistent, 1, 50 * ms, 2 * s, (*run).stopBroker, (*run).startBroker},
	}
}

// event is a fault that is scheduled.
type event struct {
	fault
	n    int           // of which instance
	at   time.Duration // from the beginning
	long time.Duration
	luck uint64 // for what the fault itself draws

	began, ended time.Time
}

func (e *event) String() string {
	return fmt.Sprintf("%s %d: %s at %v for %v", e.lane, e.n, e.name, e.at, e.long)
}

// schedule draws what happens when, in the order of time.
func (s *setup) schedule() []*event {
	var events []*event
	for _, l := range []lane{process, network, session, store, broker} {
		lines := 1
		if l == process || l == network || l == session {
			lines = s.instances
		}
		for n := range lines {
			events = append(events, s.line(l, n)...)
		}
	}
	slices.SortStableFunc(events, func(a, b *event) int { return cmp.Compare(a.at, b.at) })
	return events
}

// line draws the faults of one lane.
func (s *setup) line(l lane, n int) (events []*event) {
	rng := dice(s.seed, fmt.Sprint(l, n))
	var choice []fault
	for _, f := range faults() {
		if f.lane == l && f.in&s.world != 0 {
			for range f.weight {
				choice = append(choice, f)
			}
		}
	}
	if len(choice) == 0 {
		return nil
	}
	gap := lanes[l]
	at := between(rng, 300*time.Millisecond, gap[1]/2)
	for at < s.duration {
		f := pick(rng, choice...)
		e := &event{fault: f, n: n, at: at, long: between(rng, f.from, f.to), luck: rng.Uint64()}
		e.long = min(e.long, s.duration-at)
		events = append(events, e)
		at += e.long + between(rng, gap[0], gap[1])
	}
	return events
}

func (r *run) kill(e *event) { r.instances[e.n].kill() }

func (r *run) startAgain(e *event) bool {
	r.startInstance(e.n)
	return true
}

func (r *run) freeze(e *event) { r.instances[e.n].signal(syscall.SIGSTOP) }

func (r *run) thaw(e *event) bool {
	r.instances[e.n].signal(syscall.SIGCONT)
	return true
}

func (r *run) terminate(e *event) { r.instances[e.n].terminate() }

func (r *run) awaitStop(e *event) bool {
	over, err := r.instances[e.n].stopped()
	if err != nil {
		r.problem("%v", err)
	}
	if over {
		r.startInstance(e.n)
	}
	return over
}

func (r *run) cutNetwork(e *event) {
	p := r.mqtt[e.n]
	p.set(func() { p.refuse = true })
	p.drop(e.luck%2 == 0)
}

func (r *run) resetNetwork(e *event) { r.mqtt[e.n].drop(true) }

func (r *run) stallNetwork(e *event) { r.stall(e, true, true) }
func (r *run) stallUp(e *event)      { r.stall(e, true, false) }
func (r *run) stallDown(e *event)    { r.stall(e, false, true) }

func (r *run) stall(e *event, upward, downward bool) {
	p := r.mqtt[e.n]
	p.set(func() { p.stalled = [2]bool{upward, downward} })
}

func (r *run) slowNetwork(e *event) {
	p := r.mqtt[e.n]
	p.set(func() { p.delay = time.Duration(5+e.luck%30) * time.Millisecond })
}

func (r *run) healNetwork(e *event) bool {
	r.mqtt[e.n].heal()
	return true
}

// takeOver is another client with our id: it gets our messages, acknowledges
// none, and goes without a word.
func (r *run) takeOver(e *event) {
	id, long := r.clientID(e.n), e.long
	r.background.Go(func() {
		got, err := impostor(r.broker.Addr, id, long)
		r.note("the other client with the id %s read %d bytes and left: %v", id, got, err)
	})
}

// impostor connects with an id that is not its own, reads for a while and
// leaves.
func impostor(addr, id string, long time.Duration) (int64, error) {
	c, err := net.DialTimeout("tcp", addr, 2*time.Second)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	// CONNECT (MQTT 3.1.1, section 3.1): protocol level 4, no flags, which
	// means the session as it is, keep-alive 60 s.
	body := append([]byte{0, 4, 'M', 'Q', 'T', 'T', 4, 0, 0, 60}, binary.BigEndian.AppendUint16(nil, uint16(len(id)))...)
	body = append(body, id...)
	if _, err := c.Write(append([]byte{1 << 4, byte(len(body))}, body...)); err != nil {
		return 0, err
	}
	c.SetReadDeadline(time.Now().Add(long))
	n, err := io.Copy(io.Discard, c)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		err = nil
	}
	return n, err
}

// lockStore is a tool that someone has open on the file, in a transaction.
func (r *run) lockStore(*event) {
	db, err := sqlite3.Open(filepath.Join(r.data(), "gudang.db"))
	if err != nil {
		r.note("no lock: %v", err)
		return
	}
	if err := errors.Join(db.BusyTimeout(time.Second), db.Exec("BEGIN IMMEDIATE")); err != nil {
		r.note("no lock: %v", errors.Join(err, db.Close()))
		return
	}
	r.locker = db
}

func (r *run) unlockStore(*event) bool {
	if r.locker == nil {
		return true
	}
	if err := errors.Join(r.locker.Exec("ROLLBACK"), r.locker.Close()); err != nil {
		r.problem("cannot end the lock: %v", err)
	}
	r.locker = nil
	return true
}

func (r *run) pauseStore(*event) { r.mongo.set(func() { r.mongo.stalled = [2]bool{true, true} }) }

func (r *run) cutReplies(e *event) {
	r.mongo.set(func() { r.mongo.cutEach = 2 + int(e.luck%6) })
}

func (r *run) resetStore(*event) { r.mongo.drop(true) }

func (r *run) cutStore(e *event) {
	r.mongo.set(func() { r.mongo.refuse = true })
	r.mongo.drop(e.luck%2 == 0)
}

func (r *run) slowStore(e *event) {
	r.mongo.set(func() { r.mongo.delay = time.Duration(20+e.luck%200) * time.Millisecond })
}

func (r *run) healStore(*event) bool {
	r.mongo.heal()
	return true
}

func (r *run) stopStore(*event) { r.ferret.Stop() }

func (r *run) startStore(*event) bool {
	r.ferret.Start()
	return true
}

func (r *run) stopBroker(*event) { r.broker.Stop() }

func (r *run) startBroker(*event) bool {
	r.broker.Start()
	return true
}
