//go:build unix

package chaos

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/fleet"
	"gudang/internal/manifest"
	"gudang/internal/testenv"
)

// run is one run. What is not said otherwise belongs to the test's goroutine.
type run struct {
	setup
	t   *testing.T
	dir string

	broker     *testenv.Broker // nil: the program's own
	ferret     *testenv.Ferret // nil: SQLite
	mongo      *proxy
	mqtt       []*proxy // between each instance and the broker, or the fleet and the program's own broker
	instances  []*instance
	locker     *sqlite3.Conn // holds the lock on the embedded store
	background sync.WaitGroup

	events    []*event
	began     time.Time
	published fleet.Summary
	problems  []string

	mu        sync.Mutex // guards the chronicle
	chronicle *os.File
}

// patience is how long nothing may change before a wait is given up. It is
// longer than the service waits for a store that does not answer, and than the
// pauses after which it tries again.
const patience = 75 * time.Second

func newRun(t *testing.T, s setup) *run {
	t.Helper()
	dir, err := os.MkdirTemp("", fmt.Sprintf("gudang-chaos-seed-%d-", s.seed))
	if err != nil {
		t.Fatal(err)
	}
	r := &run{setup: s, t: t, dir: dir}
	if r.chronicle, err = os.Create(filepath.Join(dir, "events.log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	r.note("%s", s.describe())
	r.events = s.schedule()
	for _, e := range r.events {
		r.note("planned: %v", e)
	}
	target := ""
	if s.world&outside != 0 {
		r.broker = testenv.Mosquitto(t, s.broker...)
		target = r.broker.Addr
	}
	if s.world&onMongo != 0 {
		r.ferret = testenv.FerretDB(t)
		r.mongo = newProxy(t, r.ferret.Addr, true)
	}
	for n := range s.instances {
		r.mqtt = append(r.mqtt, newProxy(t, target, false))
		env := slices.Concat(s.env, []string{"DATA_DIR=" + r.data(), "MQTT_CLIENT_ID=" + r.clientID(n), "EMBEDDED_MQTT_ADDR=127.0.0.1:0"})
		if r.broker != nil {
			env = append(env, "MQTT_URL=tcp://"+r.mqtt[n].addr())
		}
		if r.mongo != nil {
			env = append(env, "MONGODB_URI=mongodb://"+r.mongo.addr()+"/?maxPoolSize=1")
			// Two instances share the database, not the disk.
			env = append(env, fmt.Sprintf("DATA_DIR=%s-%d", r.data(), n))
		}
		r.instances = append(r.instances, newInstance(t, dir, fmt.Sprintf("ingest-%d", n), env))
	}
	return r
}

func (r *run) data() string            { return filepath.Join(r.dir, "data") }
func (r *run) clientID(n int) string   { return fmt.Sprintf("gudang-%d", n) }
func (r *run) manifest() string        { return filepath.Join(r.dir, "manifest") }
func (r *run) file(name string) string { return filepath.Join(r.dir, name) }

// note writes a line of the chronicle, from any goroutine.
func (r *run) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.chronicle, "%s %s\n", time.Now().UTC().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}

// problem is something that must not be.
func (r *run) problem(format string, args ...any) {
	said := fmt.Sprintf(format, args...)
	r.note("PROBLEM: %s", said)
	r.problems = append(r.problems, said)
}

// close keeps the directory of a run that failed and removes that of others.
func (r *run) close() {
	for _, i := range r.instances {
		i.kill()
	}
	r.background.Wait()
	if r.locker != nil {
		r.locker.Close()
	}
	if r.t.Failed() && r.broker != nil {
		if err := os.WriteFile(r.file("mosquitto.log"), []byte(r.broker.Log()), 0o600); err != nil {
			r.t.Log(err)
		}
	}
	r.chronicle.Close()
	if r.t.Failed() {
		r.t.Logf("seed %d: everything about the run is in %s", r.seed, r.dir)
		return
	}
	os.RemoveAll(r.dir)
}

// startInstance starts an instance. With a broker inside, its address is new.
func (r *run) startInstance(n int) {
	i := r.instances[n]
	i.start(r.t)
	if r.world&inside == 0 {
		return
	}
	// The player must not wait: the fleet is let through once the program has
	// said where it listens.
	p := r.mqtt[n]
	p.set(func() { p.target = "" })
	said, exited := i.said, i.exited
	r.background.Go(func() {
		for {
			if m := embedded.FindStringSubmatch(said()); m != nil {
				p.set(func() { p.target = m[1] })
				return
			}
			select {
			case <-exited:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
}

// play is the whole run.
func (r *run) play() {
	for n := range r.instances {
		r.startInstance(n)
	}
	// A broker keeps messages for a session that it knows: the fleet begins
	// when every session is there.
	r.await("every instance is ready", func() (bool, string) {
		ready := 0
		for _, i := range r.instances {
			if i.ready() {
				ready++
			}
		}
		return ready == len(r.instances), fmt.Sprint(ready)
	})
	if len(r.problems) > 0 {
		return
	}
	r.began = time.Now()
	published := r.publish()
	r.strike()
	r.healAll()
	var ended *fleetEnd
	r.await("every message is acknowledged to the fleet", func() (bool, string) {
		select {
		case end := <-published.done:
			ended = &end
			return true, ""
		default:
			return false, published.progress()
		}
	})
	if ended == nil {
		published.stop()
		<-published.done
		return
	}
	r.published = ended.summary
	if ended.err != nil || ended.summary.Unacked() > 0 {
		r.problem("the fleet ended with %d messages unacknowledged: %v", ended.summary.Unacked(), ended.err)
	}
	r.settle()
	if r.timeless {
		r.countValues()
	} else {
		r.verify()
	}
	for _, i := range r.instances {
		if err := i.stop(); err != nil {
			r.problem("at the end: %v", err)
		}
	}
	r.readLogs()
}

// step is the beginning or the end of a fault. It is done again until it says
// that it is over; what follows in its lane waits.
type step struct {
	at time.Duration
	of *event
	do func() (over bool)
}

func (r *run) steps() (steps []step) {
	for _, e := range r.events {
		steps = append(steps, step{e.at, e, func() bool {
			e.began = time.Now()
			r.note("begins: %s %d: %s", e.lane, e.n, e.name)
			e.begin(r, e)
			e.ended = time.Now()
			return true
		}})
		if e.end == nil {
			continue
		}
		steps = append(steps, step{e.at + e.long, e, func() bool {
			if !e.end(r, e) {
				return false
			}
			e.ended = time.Now()
			r.note("ended:  %s %d: %s", e.lane, e.n, e.name)
			return true
		}})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	return steps
}

// strike carries out the schedule.
func (r *run) strike() {
	steps := r.steps()
	for len(steps) > 0 || time.Since(r.began) < r.duration {
		busy := map[string]bool{}
		steps = slices.DeleteFunc(steps, func(s step) bool {
			where := fmt.Sprint(s.of.lane, s.of.n)
			if s.at > time.Since(r.began) || busy[where] || !s.do() {
				busy[where] = true
				return false
			}
			return true
		})
		r.supervise()
		<-time.After(10 * time.Millisecond)
	}
}

// supervise looks after the processes as an operating system does.
func (r *run) supervise() {
	for n, i := range r.instances {
		i.measure()
		if !i.wanted || i.running() {
			continue
		}
		switch said := i.said(); {
		case strings.HasPrefix(said, "ingest: "):
			i.wanted = false
			r.problem("%s does not start: %s", i.name, said)
		default:
			r.problem("%s ended by itself: %v", i.name, i.cmd.ProcessState)
			r.startInstance(n)
		}
	}
}

func (r *run) healAll() {
	for _, p := range append(slices.Clone(r.mqtt), r.mongo) {
		if p != nil {
			p.heal()
		}
	}
	r.note("all is healed")
}

// await polls until cond holds. It gives up when what cond says has not
// changed for a while: a wait that goes on is bounded by what there is to do.
func (r *run) await(what string, cond func() (bool, string)) bool {
	last, changed := "", time.Now()
	for {
		ok, state := cond()
		if ok {
			r.note("so it is: %s", what)
			return true
		}
		if state != last {
			last, changed = state, time.Now()
		}
		if time.Since(changed) > patience+r.flush {
			r.problem("for %v nothing has changed and it is still not so: %s (%s)", patience+r.flush, what, state)
			return false
		}
		<-time.After(100 * time.Millisecond)
		r.supervise()
	}
}

// still is how long the counters must rest before the run counts as settled:
// longer than the broker and the service need to wake each other.
const still = 1500 * time.Millisecond

// settle waits until all that was published has become something.
func (r *run) settle() {
	last, since := "", time.Now()
	r.await("ready, and every message has ended", func() (bool, string) {
		var state strings.Builder
		settled := true
		for _, i := range r.instances {
			m, err := i.metrics()
			if err != nil {
				return false, err.Error()
			}
			// What is replayed from the journal ends, too, and was received by
			// the process before.
			kept := m["gudang_journal_bytes"]
			settled = settled && m.unacked() == 0 && kept == 0 && (m.ended() == m.received() || r.journal && m.ended() > m.received()) && i.ready()
			fmt.Fprintf(&state, "%s received %v, ended %v, unacknowledged %v, %v bytes in the journal; ", i.name, m.received(), m.ended(), m.unacked(), kept)
		}
		if s := state.String(); s != last || !settled {
			last, since = s, time.Now()
		}
		return time.Since(since) > still, last
	})
}

// verify is the judge.
func (r *run) verify() {
	cmd := exec.Command(program(r.t), "verify", "-manifest", r.manifest(), "-wait", "20s")
	cmd.Env = r.instances[0].env
	if r.ferret != nil {
		cmd.Env = append(cmd.Env, "MONGODB_URI="+r.ferret.URI+"?maxPoolSize=1")
	}
	out, err := cmd.CombinedOutput()
	if err := os.WriteFile(r.file("verify"), out, 0o600); err != nil {
		r.t.Error(err)
	}
	if err != nil {
		r.problem("verify: %v\n%s", err, out)
	}
}

// fleetEnd is what became of the fleet.
type fleetEnd struct {
	summary fleet.Summary
	err     error
}

// publishing is a fleet under way.
type publishing struct {
	progress func() string // what has been acknowledged until now
	done     chan fleetEnd
	stop     func()
}

// readLogs looks for what no log may have.
func (r *run) readLogs() {
	for n, i := range r.instances {
		text, err := os.ReadFile(i.log)
		if err != nil {
			r.problem("%v", err)
			continue
		}
		for line := range strings.Lines(string(text)) {
			if forbidden.MatchString(line) {
				r.problem("%s says: %s", i.name, strings.TrimSpace(line))
				break
			}
		}
		if limit := 300 << 20; i.rss > limit && !raceEnabled {
			r.problem("%s takes %d MB of memory", i.name, i.rss>>20)
		}
		r.countConnects(n, string(text))
	}
}

var (
	forbidden = regexp.MustCompile(`^panic|^fatal error|DATA RACE|BUG|goroutine \d+ \[`)
	connected = regexp.MustCompile(`(?m)^time=(\S+) .*msg="connected to broker"`)
)

// aftermath is how long a fault explains that a connection is made: the
// longest pause before another attempt, and some.
const aftermath = 20 * time.Second

// countConnects counts the connections that no fault explains.
func (r *run) countConnects(n int, log string) {
	unexplained := 0
	for _, m := range connected.FindAllStringSubmatch(log, -1) {
		at, err := time.Parse(time.RFC3339Nano, m[1])
		if err != nil {
			r.problem("cannot read the log's time: %v", err)
			return
		}
		explained := slices.ContainsFunc(r.instances[n].starts, func(start time.Time) bool {
			return at.After(start.Add(-time.Second)) && at.Before(start.Add(aftermath))
		}) || slices.ContainsFunc(r.events, func(e *event) bool {
			return (e.n == n || e.lane == broker || e.lane == store) && at.After(e.began) && at.Before(e.ended.Add(aftermath))
		})
		if !explained {
			unexplained++
		}
	}
	if limit := 10 * (1 + int(time.Since(r.began)/time.Minute)); unexplained > limit {
		r.problem("%s connected %d times without a fault that explains it", r.instances[n].name, unexplained)
	}
}

// publish starts the fleet.
func (r *run) publish() *publishing {
	r.t.Helper()
	if r.timeless {
		return r.publishValues()
	}
	log, err := os.Create(r.file("fleet.log"))
	if err != nil {
		r.t.Fatal(err)
	}
	url := "tcp://" + r.mqtt[0].addr()
	if r.broker != nil {
		url = r.broker.URL
	}
	f, err := fleet.New(r.fleet)
	if err != nil {
		r.t.Fatal(err)
	}
	m, err := fleet.NewMQTT(fleet.MQTTConfig{Broker: url, Connections: r.writers, QoS: 1, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		r.t.Fatal(err)
	}
	file, err := os.Create(r.manifest())
	if err != nil {
		r.t.Fatal(err)
	}
	w, err := manifest.NewWriter(file, manifest.Header{Seed: r.seed, Start: f.Start().UnixMilli()})
	if err != nil {
		r.t.Fatal(err)
	}
	return runFleet(r.t, f, m, w, log, file)
}
