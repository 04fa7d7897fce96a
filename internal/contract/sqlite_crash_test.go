package contract

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"gudang/internal/query"
	"gudang/internal/reading"
	"gudang/internal/sink"
)

// crashDir tells a copy of the test binary to be the process that is killed.
const crashDir = "GUDANG_TEST_CRASH_DIR"

const crashSeries = 20

// crashFlush is flush n: each series gets one reading more, ten to a bucket.
func crashFlush(n int) []*reading.Bucket {
	var flush []*reading.Bucket
	at := base + int64(n)*6000
	for i := range crashSeries {
		start := minute.Start(at)
		flush = append(flush, bucketOf(series(fmt.Sprintf("crash-%d", i), "x"), start, point{int32(at - start), float64(n)}))
	}
	return flush
}

// TestSQLiteCrashChild is no test: it is what TestSQLiteSurvivesKill starts.
// It writes flushes, the first of which may be stored already, and prints the
// number of each that is committed, until it is killed.
func TestSQLiteCrashChild(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		return
	}
	w, err := sink.OpenSQLite(dir, minute)
	if err != nil {
		t.Fatal(err)
	}
	first, err := strconv.Atoi(os.Getenv(crashDir + "_FIRST"))
	if err != nil {
		t.Fatal(err)
	}
	for n := first; ; n++ {
		if res := w.WriteBuckets(context.Background(), crashFlush(n)); res.Err != nil {
			t.Fatal(res.Err)
		}
		fmt.Printf("committed %d\n", n)
	}
}

// TestSQLiteSurvivesKill kills a writer at random moments. Each flush that it
// said was committed must be there once, the one after it wholly or not at
// all, and the lock must be gone.
func TestSQLiteSurvivesKill(t *testing.T) {
	dir := t.TempDir()
	const rounds = 20
	next := 0 // the first flush that was not reported as committed
	for round := range rounds {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSQLiteCrashChild$")
		cmd.Env = append(os.Environ(), crashDir+"="+dir, fmt.Sprintf("%s_FIRST=%d", crashDir, next))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// It is killed while it writes one of its flushes, some before the
		// first is committed.
		for left, lines := rand.IntN(40), bufio.NewScanner(out); lines.Scan(); left-- {
			var n int
			if _, err := fmt.Sscanf(lines.Text(), "committed %d", &n); err != nil {
				t.Fatalf("the writer says %q", lines.Text())
			}
			if n != next {
				t.Fatalf("round %d: flush %d is committed, want %d", round, n, next)
			}
			next++
			if left <= 0 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the writer ended by itself")
		}
		wantCrashed(t, dir, next)
	}
	t.Logf("%d flushes over %d kills", next, rounds)
}

// wantCrashed checks that the flushes below next are stored, and perhaps next.
func wantCrashed(t *testing.T, dir string, next int) {
	t.Helper()
	r := openSQLiteReader(t, dir)
	stored := make([]int, next+1)
	err := r.Scan(t.Context(), func(b *query.Stored) error {
		if b.Count != int64(len(b.Offsets)) || len(b.Offsets) != len(b.Values) {
			return fmt.Errorf("bucket %v: count %d, %d offsets, %d values", b.Key, b.Count, len(b.Offsets), len(b.Values))
		}
		for i, off := range b.Offsets {
			n := int(b.Values[i])
			if n < 0 || n > next || b.Start+int64(off) != base+int64(n)*6000 {
				return fmt.Errorf("bucket %v: offset %d has value %v", b.Key, off, b.Values[i])
			}
			stored[n]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for n, count := range stored {
		if count != crashSeries && (n < next || count != 0) {
			t.Fatalf("flush %d of %d: %d of its %d readings are stored", n, next, count, crashSeries)
		}
	}
	w, err := sink.OpenSQLite(dir, minute)
	if err != nil {
		t.Fatalf("after a kill: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
