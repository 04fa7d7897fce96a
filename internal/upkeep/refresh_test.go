package upkeep

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gudang/internal/reading"
)

// refreshFleet is sensors that are walked in order. Before, if set, runs ahead of each question and
// may fail it.
type refreshFleet struct {
	ids    []string
	before func(what string) error
	done   []string
	at     []time.Duration // since the test began
	begun  time.Time
}

func (s *refreshFleet) next(_ context.Context, after string) (string, error) {
	if s.before != nil {
		if err := s.before("next"); err != nil {
			return "", err
		}
	}
	for _, id := range s.ids {
		if id > after {
			return id, nil
		}
	}
	return "", reading.ErrNotFound
}

func (s *refreshFleet) do(_ context.Context, id string) error {
	if s.before != nil {
		if err := s.before(id); err != nil {
			return err
		}
	}
	s.done = append(s.done, id)
	s.at = append(s.at, time.Since(s.begun))
	return nil
}

// refreshFor runs the task for as long as given and returns what it did.
func refreshFor(t *testing.T, s *refreshFleet, from string, during time.Duration) {
	t.Helper()
	s.begun = time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	r := &Refresh{Next: s.next, Do: s.do, Begin: func() string { return from }, Log: slog.New(slog.DiscardHandler)}
	if err := r.Run(ctx); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if late := time.Since(s.begun) - during; late > 0 {
		t.Errorf("it ended %v late", late)
	}
}

func TestRefreshSeesEachSensorOnceADay(t *testing.T) {
	ids := []string{"a", "b", "c", "d"}
	for from, want := range map[string][]string{
		"": ids, "a": {"b", "c", "d", "a"}, "c": {"d", "a", "b", "c"}, "d": ids, "bb": {"c", "d", "a", "b"}, "z": ids,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &refreshFleet{ids: ids}
			refreshFor(t, s, from, 23*time.Hour)
			if !slices.Equal(s.done, want) {
				t.Errorf("from %q: %v, want %v", from, s.done, want)
			}
			for i := 1; i < len(s.at); i++ {
				if gap := s.at[i] - s.at[i-1]; gap < refreshEvery {
					t.Errorf("two sensors within %v", gap)
				}
			}
			s.done = nil
			refreshFor(t, s, from, 25*time.Hour)
			if want := slices.Concat(want, ids); !slices.Equal(s.done, want) {
				t.Errorf("from %q, on the second day: %v, want %v", from, s.done, want)
			}
		})
	}
}

func TestRefreshGoesOnWhereAnErrorStoppedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &refreshFleet{ids: []string{"a", "b", "c"}}
		begun, failures := time.Now(), 0
		s.before = func(what string) error {
			since := time.Since(begun)
			if len(s.done) == 1 && since < 5*time.Hour { // the store is away
				failures++
				return errors.New("away")
			}
			if what == "b" { // and b can never be read
				return errors.New("damaged")
			}
			return nil
		}
		refreshFor(t, s, "", 23*time.Hour)
		if want := []string{"a", "c"}; !slices.Equal(s.done, want) {
			t.Errorf("%v, want %v", s.done, want)
		}
		if most := int(5*time.Hour/refreshPause) + 1; failures > most {
			t.Errorf("a store that is away was asked %d times, want at most %d", failures, most)
		}
	})
}

func TestRefreshRestsTenTimesAsLongAsItWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &refreshFleet{ids: []string{"a", "b"}}
		s.before = func(string) error { time.Sleep(time.Second); return nil } // the fake clock's
		refreshFor(t, s, "", time.Hour)
		if len(s.at) != 2 || s.at[1]-s.at[0] != 22*time.Second {
			t.Errorf("done at %v", s.at)
		}
	})
}
