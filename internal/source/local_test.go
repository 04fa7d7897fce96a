package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"gudang/internal/decode"
	"gudang/internal/reading"
)

type ackCount struct{ atomic.Int64 }

func (a *ackCount) Ack(uint16, byte) { a.Add(1) }

func newTestLocal(t testing.TB, limit int) *Local {
	t.Helper()
	d, err := decode.New(decode.Config{Topics: []string{"warehouse/{sensor}/reading"}, Zone: time.UTC, ClockAhead: time.Minute, ClockBehind: 24 * 365 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return NewLocal(limit, d, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

// give publishes a message of client and says what became of it.
func give(t *testing.T, l *Local, client, payload string, id uint16, qos byte, again bool) {
	t.Helper()
	if wanted, err := l.Receive(t.Context(), client, "warehouse/S-1/reading", []byte(payload), id, qos, again, &ackCount{}); !wanted || err != nil {
		t.Fatalf("wanted %v, error %v", wanted, err)
	}
}

// took is what has arrived.
func took(l *Local) reading.Batch {
	var b reading.Batch
	l.Intake().Take(&b)
	return b
}

// finished acknowledges what b has and gives back its room.
func finished(l *Local, b reading.Batch) {
	for i := range b.Deliveries {
		b.Deliveries[i].Done()
	}
	l.Intake().Done(len(b.Deliveries))
}

func TestLocalMakesDeliveriesOfMessages(t *testing.T) {
	l := newTestLocal(t, 10)
	acks := &ackCount{}
	for _, payload := range []string{`{"temperature":20.5}`, `{"temp`, `offline`} {
		if wanted, err := l.Receive(t.Context(), "c", "warehouse/S-1/reading", []byte(payload), 7, 1, false, acks); !wanted || err != nil {
			t.Errorf("%s: wanted %v, error %v", payload, wanted, err)
		}
	}
	give(t, l, "c", "20.5", 0, 0, false)
	b := took(l)
	want := []reading.Outcome{reading.Pending, reading.Rejected, reading.Ignored, reading.Pending}
	if len(b.Deliveries) != len(want) || len(b.Readings) != 2 {
		t.Fatalf("took %+v", b)
	}
	for i, d := range b.Deliveries {
		if d.Outcome != want[i] {
			t.Errorf("message %d: %v, want %v", i, d.Outcome, want[i])
		}
	}
	if d := b.Deliveries[0]; d.Acker != acks || d.ID != 7 || d.QoS != 1 || d.Readings != 1 {
		t.Errorf("delivery %+v", d)
	}
	if d := b.Deliveries[3]; d.Acker != nil {
		t.Error("a message at QoS 0 has an acker")
	}
	if n := testutil.ToFloat64(l.in.metrics.messages); n != 4 {
		t.Errorf("%v messages counted, want 4", n)
	}
}

func TestLocalLeavesOthersMessagesAlone(t *testing.T) {
	l := newTestLocal(t, 1)
	give(t, l, "c", "20", 1, 1, false) // no room is left
	if wanted, err := l.Receive(t.Context(), "c", "other/topic", []byte("20"), 2, 1, false, &ackCount{}); wanted || err != nil {
		t.Errorf("wanted %v, error %v", wanted, err)
	}
	if b := took(l); len(b.Deliveries) != 1 {
		t.Errorf("%d deliveries, want the one that is wanted", len(b.Deliveries))
	}
	if n := testutil.ToFloat64(l.in.metrics.messages); n != 1 {
		t.Errorf("%v messages counted, want 1", n)
	}
}

func TestALocalMessageThatComesAgainKeepsItsTime(t *testing.T) {
	l := newTestLocal(t, 10)
	give(t, l, "a", "20", 7, 1, false)
	first := took(l)
	for _, c := range []struct {
		name, client, payload string
		id                    uint16
		again, same           bool
	}{
		{"it comes again", "a", "20", 7, true, true},
		{"it comes a third time", "a", "20", 7, true, true},
		{"another client uses the identifier", "b", "20", 7, true, false},
		{"another payload has the identifier", "a", "21", 7, true, false},
		{"another identifier", "a", "20", 8, true, false},
		{"an equal message that is new", "a", "20", 7, false, false},
	} {
		give(t, l, c.client, c.payload, c.id, 1, c.again)
		b := took(l)
		if same := b.Readings[0].Time == first.Readings[0].Time; same != c.same {
			t.Errorf("%s: the same time is %v, want %v", c.name, same, c.same)
		}
		if d := b.Deliveries[0]; d.Hash == 0 || d.Stamp != b.Readings[0].Time {
			t.Errorf("%s: hash %d and stamp %d of a reading at %d", c.name, d.Hash, d.Stamp, b.Readings[0].Time)
		}
		l.Intake().Done(1)
	}
	// The next process is told.
	next := newTestLocal(t, 10)
	next.Remember(first.Deliveries[0].Hash, first.Deliveries[0].Stamp)
	give(t, next, "a", "20", 7, 1, true)
	if b := took(next); b.Readings[0].Time != first.Readings[0].Time {
		t.Errorf("after a restart it got the time %d, want %d", b.Readings[0].Time, first.Readings[0].Time)
	}
	give(t, l, "a", fmt.Sprintf(`{"time":%d,"t":20}`, time.Now().UnixMilli()), 9, 1, false)
	if d := took(l).Deliveries[0]; d.Hash != 0 || d.Stamp != 0 {
		t.Errorf("hash %d and stamp %d of a message with its own time", d.Hash, d.Stamp)
	}
}

// The journal carries hashes from one process to another, and perhaps from one
// version to another.
func TestTheHashOfAMessageStaysWhatItIs(t *testing.T) {
	m := message{client: "gw-1", topic: "warehouse/S-1/reading", payload: []byte("20.5"), id: 0x1234}
	if have, want := m.hash(), uint64(0x84171be768f78c56); have != want {
		t.Errorf("have %#x, want %#x", have, want)
	}
}

// All that can be unacknowledged is remembered, whatever else comes meanwhile.
func TestStampsRememberTheLatestMessages(t *testing.T) {
	const keep = 1000
	s := newStamps(keep)
	first := make([]int64, 3*keep)
	for i := range first {
		vs := values("a")
		s.stamp(vs, 1000, &message{client: "c", payload: []byte("20"), id: uint16(i), qos: 1})
		first[i] = vs[0].Time
	}
	for i := 2 * keep; i < 3*keep; i++ {
		vs := values("a")
		s.stamp(vs, 9_000_000, &message{client: "c", payload: []byte("20"), id: uint16(i), qos: 1, again: true})
		if vs[0].Time != first[i] {
			t.Fatalf("message %d got the time %d, want the %d that it got first", i, vs[0].Time, first[i])
		}
	}
	if n := len(s.given) + len(s.earlier); n > 2*keep {
		t.Errorf("%d messages are remembered", n)
	}
}

func TestLocalHoldsBackWhatItHasNoRoomFor(t *testing.T) {
	const limit, senders, each = 3, 8, 500
	l := newTestLocal(t, limit)
	acks := &ackCount{}
	var wg sync.WaitGroup
	for n := range senders {
		wg.Go(func() {
			for i := range each {
				if wanted, err := l.Receive(t.Context(), fmt.Sprint(n), "warehouse/S-1/reading", []byte("20"), uint16(i+1), 1, false, acks); !wanted || err != nil {
					t.Errorf("wanted %v, error %v", wanted, err)
				}
			}
		})
	}
	times := map[int64]bool{}
	for len(times) < senders*each {
		select {
		case <-l.Intake().Ready():
		case <-time.After(10 * time.Second):
			t.Fatalf("stuck after %d messages", len(times))
		}
		b := took(l)
		if n := l.Intake().Outstanding(); n > limit {
			t.Fatalf("%d messages are outstanding", n)
		}
		for _, r := range b.Readings {
			times[r.Time] = true
		}
		finished(l, b)
	}
	wg.Wait()
	if n := acks.Load(); n != senders*each {
		t.Errorf("%d acknowledged", n)
	}
	if n := testutil.ToFloat64(l.in.metrics.messages); n != senders*each {
		t.Errorf("%v messages counted: one that waits is one", n)
	}
}

func TestLocalGivesUpOnAClientThatIsGone(t *testing.T) {
	l := newTestLocal(t, 1)
	give(t, l, "c", "20", 1, 1, false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for qos := range byte(2) {
		if _, err := l.Receive(ctx, "c", "warehouse/S-1/reading", []byte("21"), uint16(qos), qos, false, &ackCount{}); !errors.Is(err, context.Canceled) {
			t.Errorf("QoS %d: error %v", qos, err)
		}
	}
	if b := took(l); len(b.Deliveries) != 1 || b.Overflow != 1 {
		t.Errorf("%d deliveries, %d lost; want 1 and the one at QoS 0, which nobody sends again", len(b.Deliveries), b.Overflow)
	}
}

func TestALocalStopWaitsForWhatWasTaken(t *testing.T) {
	l := newTestLocal(t, 2)
	connected := func() float64 { return testutil.ToFloat64(l.in.metrics.connected) }
	if l.Ready(t.Context()) == nil || connected() != 0 {
		t.Error("it is ready before it runs")
	}
	stop, stopNow := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(t.Context(), stop) }()
	until(t, "it is ready", func() bool { return l.Ready(t.Context()) == nil })
	if connected() != 1 {
		t.Error("gudang_mqtt_connected is not 1")
	}
	give(t, l, "c", "20", 1, 1, false)
	give(t, l, "c", "20", 2, 1, false)
	waiting := make(chan error, 1)
	go func() {
		_, err := l.Receive(t.Context(), "d", "warehouse/S-1/reading", []byte("20"), 1, 1, false, &ackCount{})
		waiting <- err
	}()
	stopNow()
	if err := <-waiting; !errors.Is(err, errStopping) {
		t.Errorf("a message that waited for room: %v", err)
	}
	if _, err := l.Receive(t.Context(), "d", "warehouse/S-1/reading", []byte("20"), 1, 1, false, &ackCount{}); !errors.Is(err, errStopping) {
		t.Errorf("a message after the stop: %v", err)
	}
	if l.Ready(t.Context()) == nil || connected() != 0 {
		t.Error("it is ready after the stop")
	}
	var b reading.Batch
	if l.Intake().Take(&b) || len(b.Deliveries) != 2 {
		t.Errorf("%d deliveries, and more to come", len(b.Deliveries))
	}
	l.Intake().Done(1)
	select {
	case <-ended:
		t.Error("it ended with a message unacknowledged")
	default:
	}
	l.Intake().Done(1)
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestALocalStopIsNotHeldUpForEver(t *testing.T) {
	l := newTestLocal(t, 2)
	give(t, l, "c", "20", 1, 1, false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Run(ctx, ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// Two goroutines a processor publish readings with a time of their own, and
// without one.
func BenchmarkLocalReceive(b *testing.B) {
	for name, payload := range map[string]string{
		"own time":     fmt.Sprintf(`{"time":%d,"temperature":21.5,"humidity":60}`, time.Now().UnixMilli()),
		"receive time": `{"temperature":21.5,"humidity":60}`,
	} {
		b.Run(name, func(b *testing.B) {
			l := newTestLocal(b, 50_000)
			go func() {
				var batch reading.Batch
				for range l.Intake().Ready() {
					if !l.Intake().Take(&batch) {
						return
					}
					l.Intake().Done(len(batch.Deliveries))
				}
			}()
			defer l.Intake().end()
			topics := make([]string, 1000)
			for i := range topics {
				topics[i] = fmt.Sprintf("warehouse/S-%d/reading", i)
			}
			acks := &ackCount{}
			b.ReportAllocs()
			b.SetParallelism(2)
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if _, err := l.Receive(b.Context(), "c", topics[i%len(topics)], []byte(payload), uint16(i), 1, false, acks); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
