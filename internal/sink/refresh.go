package sink

import (
	"context"
	"errors"
	"maps"
	"slices"

	"gudang/internal/reading"
)

// Refresher rewrites sensors' documents from the buckets, of which they are
// copies.
type Refresher interface {
	// RefreshSensor makes the sensor's document what truth says, with up to
	// keep points of each metric. Truth reads the buckets; it is called after
	// the document was read, and the document is written only if it is still
	// the same: buckets are written before documents, so truth has all that
	// the document had, and nothing that is merged in between is lost. What
	// lives in the document alone stays: an earlier firstSeen and the end of
	// its outliers. Truth may be called several times.
	RefreshSensor(ctx context.Context, id string, keep int, truth func(context.Context) (reading.Sensor, error)) (Refreshed, error)
}

// Refreshed is what became of a document.
type Refreshed uint8

// What becomes of a document that is compared with the buckets.
const (
	Same      Refreshed = iota // it was as it should be
	Behind                     // nothing in it was wrong, but readings were not in it yet
	Corrected                  // it was wrong
	Created                    // there was none
	Left                       // the buckets have nothing to compare with
)

// String is the result as metrics and commands name it.
func (r Refreshed) String() string {
	return [...]string{"same", "behind", "corrected", "created", "left"}[r]
}

// refreshed is the document that a sensor should have.
func refreshed(truth, old reading.Sensor) reading.Sensor {
	if old.ID == "" {
		return truth
	}
	truth.FirstSeen = min(truth.FirstSeen, old.FirstSeen)
	truth.OutlierUntil = old.OutlierUntil
	return truth
}

// difference says how the document differed from what it should be. One that
// is right after a merge would have become so by itself.
func difference(old, truth reading.Sensor, keep int) Refreshed {
	damaged := old.ID == ""
	old.Merge(truth, max(1, keep))
	if !damaged && old.FirstSeen == truth.FirstSeen && old.LastSeen == truth.LastSeen && maps.EqualFunc(old.Metrics, truth.Metrics, slices.Equal) {
		return Behind
	}
	return Corrected
}

var errContestedSensor = errors.New("its document is contested by other instances")
