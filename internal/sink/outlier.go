package sink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

// An outlier bucket keeps its counters only; its readings are documents of
// their own in overflow, where their _id refuses a second copy. Two documents
// cannot be written at once, so the counters may be behind what overflow holds
// when a writer dies. Before it inserts, a writer therefore leaves a mark, and
// whoever sweeps counts a marked bucket's readings once nobody writes to it any
// more. A writer that is still under way then finds that the bucket was settled
// since it read it, adds nothing to the counters, and leaves its mark again.

// outlierStore is what the outlier path needs of a server. Each method is one
// command, and can be sent again.
type outlierStore interface {
	// mark has the buckets looked after by settle.
	mark(ctx context.Context, list []Outlier) error
	// flag makes the bucket an outlier, and creates it if it is not there: from
	// here on nobody pushes to its arrays. It says whether it was not one yet.
	flag(ctx context.Context, o Outlier) (fresh bool, err error)
	// read yields those of the buckets that are stored.
	read(ctx context.Context, ids bson.A, yield func(bson.Raw)) error
	// insert inserts documents into overflow and says which were there already,
	// and which will never be taken.
	insert(ctx context.Context, docs []bson.Raw) (exists, refused []int, err error)
	// values is what overflow has under these ids.
	values(ctx context.Context, ids bson.A) (map[[16]byte]float64, error)
	// dropArrays ends the migration of a bucket.
	dropArrays(ctx context.Context, id [16]byte) error
	// add adds to the counters of a bucket that was not settled since.
	add(ctx context.Context, id [16]byte, settles int64, t totals) (ok bool, err error)

	marks(ctx context.Context) ([]mark, error)
	total(ctx context.Context, o Outlier) (totals, error)
	// settle sets the counters of a bucket that is still as it was read.
	settle(ctx context.Context, id [16]byte, was outlierState, t totals) (ok bool, err error)
	unmark(ctx context.Context, m mark) error
}

// mark says that the counters of an outlier may be behind.
type mark struct {
	Outlier
	id [16]byte
	n  int64 // how often it was marked
}

// totals is the summary of readings.
type totals struct {
	count         int64
	sum, min, max float64
}

func (t *totals) add(v float64) {
	if t.count == 0 {
		t.min, t.max = v, v
	}
	t.count++
	t.sum += v
	t.min, t.max = min(t.min, v), max(t.max, v)
}

// outlierState is what a stored bucket says of its being an outlier.
type outlierState struct {
	found, outlier, arrays bool
	settles                int64
	totals
}

func stateOf(doc bson.Raw) outlierState {
	s := outlierState{found: true}
	s.outlier, _ = doc.Lookup("isOutlier").BooleanOK()
	s.arrays = !doc.Lookup("offsets").IsZero() || !doc.Lookup("values").IsZero()
	s.settles, _ = mongodb.Integer(doc.Lookup("settles"))
	s.count, _ = mongodb.Integer(doc.Lookup("count"))
	s.sum, _ = doc.Lookup("sum").AsFloat64OK()
	s.min, _ = doc.Lookup("min").AsFloat64OK()
	s.max, _ = doc.Lookup("max").AsFloat64OK()
	return s
}

// makeOutliers makes outliers of the buckets of items that alone are above the
// threshold, so that they never are documents of that size.
func makeOutliers(ctx context.Context, store bucketStore, span reading.Span, items []*item, res *Result) {
	for _, it := range items {
		fresh, err := migrate(ctx, store, it.outlier(span))
		if fresh {
			res.Migrated++
		}
		if err == nil {
			it.fate = exists // it is: compare finds out what of it
			err = compare(ctx, store, []*item{it})
		}
		switch {
		case errors.Is(err, errDamaged):
			it.fate, it.detail = refused, err.Error()
			res.Writes.Rejected++
		case err == nil && it.fate == exists:
			err = errContested // deleted at this moment
			fallthrough
		case err != nil:
			it.fate = failed
			res.Writes.Failed++
			if res.Err == nil {
				res.Err = err
			}
		}
	}
}

// writeOutliers stores what is left of the items whose buckets are outliers.
func writeOutliers(ctx context.Context, store outlierStore, span reading.Span, items []item, res *Result) error {
	var some []*item
	var list []Outlier
	for i := range items {
		if items[i].fate == apart {
			some = append(some, &items[i])
			list = append(list, items[i].outlier(span))
		}
	}
	if len(some) == 0 {
		return nil
	}
	err := store.mark(ctx, list)
	if err != nil {
		err = fmt.Errorf("cannot mark outlier buckets: %w", err)
	}
	for i, it := range some {
		if err == nil {
			err = it.insert(ctx, store, list[i], res)
		}
		if err != nil {
			it.fate = failed
			res.Writes.Failed++
			continue
		}
		res.Outliers = append(res.Outliers, list[i])
	}
	return err
}

// insert stores the readings of one item one by one, and counts those that are
// new.
func (it *item) insert(ctx context.Context, store outlierStore, o Outlier, res *Result) error {
	docs, ids := overflowDocs(it.left)
	exists, never, err := store.insert(ctx, docs)
	if err != nil {
		return fmt.Errorf("cannot insert into %q: %w", mongodb.Overflow, err)
	}
	if err := it.compareOverflow(ctx, store, ids, exists); err != nil {
		return err
	}
	old := make(map[int]bool, len(exists)+len(never))
	for _, i := range exists {
		old[i] = true
	}
	for _, i := range never {
		old[i] = true
		it.refused = append(it.refused, reading.Refusal{Bucket: it.given, Offset: it.left.Offsets[i], Reason: reading.StoreRefused, Detail: "the store refuses the reading's document"})
	}
	var t totals
	for i, v := range it.left.Values {
		if !old[i] {
			t.add(v)
		}
	}
	if t.count > 0 {
		ok, err := store.add(ctx, it.id, it.settles, t)
		if err == nil && !ok {
			err = store.mark(ctx, []Outlier{o}) // settled meanwhile, with these or without
		}
		if err != nil {
			return fmt.Errorf("cannot count the readings of an outlier bucket: %w", err)
		}
		res.Writes.OK++
	}
	if len(exists) > 0 {
		res.Writes.Exists++
	}
	it.fate = settled
	return nil
}

// compareOverflow refuses the readings that overflow has.
func (it *item) compareOverflow(ctx context.Context, store outlierStore, ids bson.A, exists []int) error {
	if len(exists) == 0 {
		return nil
	}
	some := make(bson.A, len(exists))
	for i, at := range exists {
		some[i] = ids[at]
	}
	stored, err := store.values(ctx, some)
	if err != nil {
		return fmt.Errorf("cannot read what is there: %w", err)
	}
	for _, at := range exists {
		r := reading.Refusal{Bucket: it.given, Offset: it.left.Offsets[at], Verdict: reading.Duplicate}
		id := it.left.ID(it.left.Start + int64(r.Offset))
		if v, ok := stored[id]; ok && v != it.left.Values[at] {
			r.Verdict = reading.Conflict
		}
		it.refused = append(it.refused, r)
	}
	return nil
}

// overflowDocs is the readings of a bucket as documents of overflow, with their
// ids.
func overflowDocs(b *reading.Bucket) ([]bson.Raw, bson.A) {
	docs, ids := make([]bson.Raw, b.Count()), make(bson.A, b.Count())
	buf := make([]byte, 0, b.Count()*readingSize(b.Series))
	for i, off := range b.Offsets {
		t := b.Start + int64(off)
		id := b.ID(t)
		from := len(buf)
		buf = appendReading(buf, id, b.Series, t, b.Values[i])
		docs[i], ids[i] = bson.Raw(buf[from:len(buf):len(buf)]), binaryID(id)
	}
	return docs, ids
}

// appendReading appends the document of one reading, as overflow and raw have
// it.
func appendReading(dst []byte, id [16]byte, s reading.Series, t int64, v float64) []byte {
	dst, doc := mongodb.Begin(dst)
	dst = mongodb.AppendUUID(dst, "_id", id)
	dst = mongodb.AppendString(dst, "sensorId", s.Sensor)
	dst = mongodb.AppendString(dst, "metric", s.Metric)
	dst = mongodb.AppendDate(dst, "time", t)
	dst = mongodb.AppendFloat(dst, "value", v+0)
	return mongodb.End(dst, doc)
}

// readingSize is how many bytes appendReading appends.
func readingSize(s reading.Series) int { return 88 + len(s.Sensor) + len(s.Metric) }

func binaryID(id [16]byte) bson.Binary {
	return bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]}
}

var errDamaged = errors.New("its arrays are damaged")

// migrate makes an outlier of a bucket, whatever of that was done before. It
// may be stopped after each step and be done again, by anyone: the arrays are
// there until their readings are in overflow, and after the flag nothing is
// added to them.
func migrate(ctx context.Context, store outlierStore, o Outlier) (fresh bool, err error) {
	id := o.ID(o.Start)
	doc, err := readOne(ctx, store, id)
	if err != nil {
		return false, err
	}
	if doc != nil {
		if _, detail := storedReadings(doc, o.Key); detail != "" {
			return false, fmt.Errorf("%w: %s", errDamaged, detail)
		}
	}
	if err := store.mark(ctx, []Outlier{o}); err != nil {
		return false, err
	}
	if fresh, err = store.flag(ctx, o); err != nil {
		return false, err
	}
	return fresh, moveArrays(ctx, store, o)
}

// moveArrays copies the arrays of a flagged bucket to overflow and drops them.
func moveArrays(ctx context.Context, store outlierStore, o Outlier) error {
	id := o.ID(o.Start)
	doc, err := readOne(ctx, store, id)
	if err != nil || doc == nil || !stateOf(doc).arrays {
		return err
	}
	stored, detail := storedReadings(doc, o.Key)
	if detail != "" {
		return fmt.Errorf("%w: %s", errDamaged, detail)
	}
	b := &reading.Bucket{Series: o.Series, Start: o.Start}
	for off, v := range stored {
		b.Add(o.Start+int64(off), v)
	}
	docs, _ := overflowDocs(b)
	if _, never, err := store.insert(ctx, docs); err != nil || len(never) > 0 {
		return errors.Join(fmt.Errorf("cannot copy %d readings to %q", len(docs), mongodb.Overflow), err)
	}
	return store.dropArrays(ctx, id)
}

func readOne(ctx context.Context, store outlierStore, id [16]byte) (doc bson.Raw, err error) {
	err = store.read(ctx, bson.A{binaryID(id)}, func(d bson.Raw) { doc = append(bson.Raw(nil), d...) })
	return doc, err
}

const (
	// settleAfter is how long nobody must have marked an outlier before its
	// counters are put right, and forgetAfter how long until its mark goes:
	// longer than any command of a writer is under way.
	settleAfter = 5 * time.Second
	forgetAfter = 2 * time.Minute
)

// settler puts counters right. It remembers since when the marks are as they
// are, by its own clock: those of others may be wrong.
type settler struct {
	seen map[[16]byte]*seenMark
	now  func() time.Time
}

type seenMark struct {
	n       int64
	since   time.Time
	settled bool
}

// settleAll goes through the marks once.
func (s *settler) settleAll(ctx context.Context, store outlierStore) (settled int, err error) {
	marks, err := store.marks(ctx)
	if err != nil {
		return 0, fmt.Errorf("cannot read the marks of outlier buckets: %w", err)
	}
	seen := make(map[[16]byte]*seenMark, len(marks))
	var first error
	for _, m := range marks {
		have := s.seen[m.id]
		if have == nil || have.n != m.n {
			have = &seenMark{n: m.n, since: s.now()}
		}
		seen[m.id] = have
		changed, err := s.settleOne(ctx, store, m, have)
		if changed {
			settled++
		}
		if err != nil && first == nil {
			first = fmt.Errorf("cannot settle the outlier bucket of %q: %w", m.Sensor, err)
		}
	}
	s.seen = seen
	return settled, first
}

func (s *settler) settleOne(ctx context.Context, store outlierStore, m mark, have *seenMark) (changed bool, err error) {
	quiet := s.now().Sub(have.since)
	forget := quiet >= forgetAfter
	if quiet < settleAfter || have.settled && !forget {
		return false, nil
	}
	doc, err := readOne(ctx, store, m.id)
	if err != nil {
		return false, err
	}
	if doc == nil || !stateOf(doc).outlier {
		// It was marked and never flagged, or deleted since.
		if forget {
			err = store.unmark(ctx, m)
		}
		return false, err
	}
	if err := moveArrays(ctx, store, m.Outlier); err != nil {
		return false, err
	}
	total, err := store.total(ctx, m.Outlier)
	if err != nil {
		return false, err
	}
	was := stateOf(doc)
	if !total.equals(was.totals) {
		ok, err := store.settle(ctx, m.id, was, total)
		if err != nil || !ok {
			return false, err // someone wrote meanwhile: next time
		}
		changed = true
	}
	have.settled = true
	if forget {
		err = store.unmark(ctx, m)
	}
	return changed, err
}

// equals says whether counters need not be written: a sum depends on the order
// of adding in its last bits.
func (t totals) equals(o totals) bool {
	near := t.sum - o.sum
	limit := 1e-12 * (1 + max(t.sum, -t.sum))
	return t.count == o.count && t.min == o.min && t.max == o.max && near <= limit && near >= -limit
}
