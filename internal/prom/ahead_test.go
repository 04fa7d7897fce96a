package prom_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func thirty() world {
	w := make(world)
	for i := range 30 {
		w.every(fmt.Sprintf("S-%02d", i), "temperature", 0, 60_000, 10_000, wave(float64(i), 0, 1))
	}
	return w
}

func TestAFleetIsReadSideBySide(t *testing.T) {
	t.Parallel()
	const width = 8
	var reads atomic.Int64
	together := make(chan struct{})
	a := api(&broken{thirty().sqlite(t), func(ctx context.Context) error {
		switch n := reads.Add(1); { // the first is the list
		case n == width+1:
			close(together)
		case n > 1 && n <= width:
			select {
			case <-together:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}})
	w, err := do(a, http.MethodGet, "/query?timeout=20s&query=temperature&time="+seconds(50_000), "")
	if n := strings.Count(w.Body.String(), `"sensor"`); err != nil || n != 30 {
		t.Fatalf("%d series, error %v: %.300s", n, err, w.Body)
	}
	for i := range 30 {
		want := fmt.Sprintf(`{"metric":{"__name__":"temperature","sensor":"S-%02d"},"value":[1768003250,"%d"]}`, i, i)
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s is not in the answer: %s", want, w.Body)
		}
	}
}

func TestNothingIsReadBehindAQuerysBack(t *testing.T) {
	t.Parallel()
	var reads, under atomic.Int64
	a := api(&broken{thirty().sqlite(t), func(ctx context.Context) error {
		under.Add(1)
		defer under.Add(-1)
		if reads.Add(1) == 1 { // the list
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}})
	w, err := do(a, http.MethodGet, "/query?timeout=300ms&query=temperature&time="+seconds(50_000), "")
	if err != nil || w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %v: %s", w.Code, err, w.Body)
	}
	if n := under.Load(); n != 0 || reads.Load() != 1+8 {
		t.Errorf("%d of %d reads are still under way behind the answer", n, reads.Load())
	}
}
