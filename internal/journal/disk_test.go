package journal

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gudang/internal/reading"
)

func openDir(t testing.TB, dir string, up Intake) *Journal {
	t.Helper()
	j, err := Open(Config{Dir: dir, MaxBytes: 64 << 20, Log: slog.New(slog.DiscardHandler)}, up, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestTwoProcessesCanNotShareAJournal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "journal")
	j := openDir(t, dir, newFeed())
	_, err := Open(Config{Dir: dir, MaxBytes: 1 << 20, Log: slog.New(slog.DiscardHandler)}, newFeed(), prometheus.NewRegistry())
	if err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("second open: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openDir(t, dir, newFeed())
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// killDir tells a copy of the test binary to be the process that is killed.
const killDir = "GUDANG_TEST_JOURNAL_DIR"

// TestKillChild is no test: it is what TestAKilledProcessLosesNothing starts.
// It journals messages from a number on, commits some of them, and prints what
// is acknowledged and what is committed, until it is killed.
func TestKillChild(t *testing.T) {
	dir := os.Getenv(killDir)
	if dir == "" {
		return
	}
	next, err := strconv.Atoi(os.Getenv(killDir + "_FIRST"))
	if err != nil {
		t.Fatal(err)
	}
	up := newFeed()
	j := openDir(t, dir, up)
	go func() { t.Error(j.Run(context.Background())) }()
	out := bufio.NewWriter(os.Stdout)
	var b reading.Batch
	var has []int
	for said := 0; ; {
		for range rand.IntN(50) {
			up.put(next)
			next++
		}
		for _, n := range up.ackedSoFar()[said:] {
			fmt.Fprintln(out, "acked", n)
			said++
		}
		select {
		case <-j.Ready():
			j.Take(&b)
			ns, refused := taken(t, &b)
			for _, n := range ns {
				fmt.Fprintln(out, "taken", n)
			}
			has = append(append(has, ns...), slices.Repeat([]int{-1}, refused)...)
		default:
			runtime.Gosched()
		}
		n := rand.IntN(len(has) + 1)
		for _, m := range has[:n] {
			fmt.Fprintln(out, "stored", m)
		}
		has = has[n:]
		if err := out.Flush(); err != nil { // the store has them before Done is called
			t.Fatal(err)
		}
		j.Done(n)
	}
}

func TestAKilledProcessLosesNothing(t *testing.T) {
	dir := t.TempDir()
	rounds := 20
	acked, stored := map[int]bool{}, map[int]bool{}
	next, twice := 0, 0
	for range rounds {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKillChild$")
		cmd.Env = append(os.Environ(), killDir+"="+dir, fmt.Sprintf("%s_FIRST=%d", killDir, next))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		left := rand.IntN(6000)
		for lines := bufio.NewScanner(out); lines.Scan(); left-- {
			var what string
			var n int
			if k, _ := fmt.Sscanf(lines.Text(), "%s %d", &what, &n); k != 2 {
				if left < 0 {
					break // its last line was cut off
				}
				t.Fatalf("the process says %q", lines.Text())
			}
			switch what {
			case "acked":
				acked[n] = true
				next = max(next, n+1)
			case "stored":
				if n >= 0 && stored[n] {
					twice++
				}
				stored[n] = true
			}
			next = max(next, n+1)
			if left == 0 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the process ended by itself")
		}
		next += 100 // what it had taken in and not acknowledged has numbers of its own
	}
	j := openDir(t, dir, newFeed())
	replayed := 0
	var b reading.Batch
	for j.handed < j.appended {
		j.Take(&b)
		ns, _ := taken(t, &b)
		for _, n := range ns {
			stored[n] = true
		}
		replayed += len(ns)
		j.Done(len(b.Deliveries))
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	lost := 0
	for n := range acked {
		if len(readingsOf(n)) > 0 && !stored[n] {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d messages are lost", lost)
	}
	t.Logf("%d messages acknowledged over %d kills, %d stored twice, %d replayed at the end", len(acked), rounds, twice, replayed)
	if len(acked) == 0 {
		t.Error("nothing was acknowledged: the test proves nothing")
	}
}

func TestAnHourWithoutTheStoreCostsDiskAndNoMemory(t *testing.T) {
	const n = 200_000
	up := newFeed()
	j := openDir(t, t.TempDir(), up)
	j.lim.deliveries, j.lim.readings = 2000, 4000
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- j.Run(ctx) }()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	// The feed gives room as the journal acknowledges, as the source does.
	fill := func(from, to int) {
		for i := from; i < to; i++ {
			up.put(i)
			if i%1000 == 999 {
				waitFor(t, func() bool {
					up.mu.Lock()
					defer up.mu.Unlock()
					return up.room == i+1
				})
				up.mu.Lock()
				up.acked = up.acked[:0]
				up.mu.Unlock()
			}
		}
	}
	fill(0, 20_000)
	before := heap()
	fill(20_000, n)
	if after := heap(); after > before+1<<20 {
		t.Errorf("heap grew from %d to %d kB", before>>10, after>>10)
	}
	if got := j.bytes(); got < 2<<20 {
		t.Errorf("the journal has %v bytes, it should have grown", got)
	}
	var b reading.Batch
	next, want := 0, upTo(n)
	for next < len(want) {
		<-j.Ready()
		j.Take(&b)
		ns, _ := taken(t, &b)
		if !slices.Equal(ns, want[next:next+len(ns)]) {
			t.Fatalf("behind message %d came %v", next, ns)
		}
		next += len(ns)
		j.Done(len(b.Deliveries))
	}
	cancel()
	<-ran
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func waitFor(t testing.TB, what func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !what(); {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
		time.Sleep(50 * time.Microsecond)
	}
}
