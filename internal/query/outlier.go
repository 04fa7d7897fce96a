package query

import (
	"maps"
	"slices"

	"gudang/internal/reading"
)

// pieceMost is how many readings of an outlier bucket Scan yields at once.
const pieceMost = 5000

// overflowReader reads the readings of a series in overflow from a time on and
// before another, in order of time, at most limit of them.
type overflowReader func(s reading.Series, from, until int64, limit int) ([]reading.Point, error)

// yieldOutlier yields an outlier bucket piece by piece. One that is migrated
// in part still has its arrays, and what of them was copied is in overflow as
// well: the union is what it holds.
func yieldOutlier(b *Stored, read overflowReader, yield func(*Stored) error) error {
	left := make(map[int32]float64, len(b.Offsets))
	for i, off := range b.Offsets[:min(len(b.Offsets), len(b.Values))] {
		left[off] = b.Values[i]
	}
	piece := Stored{Summary: b.Summary, ID: b.ID, Until: b.Until, More: true}
	for from := b.Start; piece.More; {
		points, err := read(b.Series, from, b.Until, pieceMost)
		if err != nil {
			return err
		}
		piece.Offsets, piece.Values = piece.Offsets[:0], piece.Values[:0]
		for _, p := range points {
			from = p.Time + 1
			off := int32(p.Time - b.Start)
			delete(left, off)
			piece.Offsets, piece.Values = append(piece.Offsets, off), append(piece.Values, p.Value)
		}
		if piece.More = len(points) == pieceMost; !piece.More {
			for _, off := range slices.Sorted(maps.Keys(left)) {
				piece.Offsets, piece.Values = append(piece.Offsets, off), append(piece.Values, left[off])
			}
		}
		if err := yield(&piece); err != nil {
			return err
		}
	}
	return nil
}
