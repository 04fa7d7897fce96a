package sink

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/reading"
)

// The outlier path of the fake: each method is a command, which can fail
// before it does anything, or after, when its reply is lost.

func (f *fakeServer) limits() (int, reading.Span) { return f.most, 60_000 }

func (f *fakeServer) command(do func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	if f.before != nil {
		if err := f.before(f.n); err != nil {
			return err
		}
	}
	do()
	if f.after != nil {
		return f.after(f.n)
	}
	return nil
}

func (f *fakeServer) mark(_ context.Context, list []Outlier) error {
	return f.command(func() {
		for _, o := range list {
			id := o.ID(o.Start)
			f.marked[id] = mark{Outlier: o, id: id, n: f.marked[id].n + 1}
		}
	})
}

func (f *fakeServer) flag(_ context.Context, o Outlier) (fresh bool, err error) {
	err = f.command(func() {
		id := o.ID(o.Start)
		doc, there := f.docs[id]
		if !there {
			doc = emptyDoc(id, o.Key)
			set(doc, "offsets", nil)
			set(doc, "values", nil)
			f.docs[id] = doc
		}
		fresh = field(doc, "isOutlier") == false
		set(doc, "isOutlier", true)
	})
	return fresh, err
}

func (f *fakeServer) insert(_ context.Context, docs []bson.Raw) (exists, refused []int, err error) {
	err = f.command(func() {
		for i, doc := range docs {
			_, data := doc.Lookup("_id").Binary()
			if _, there := f.overflow[[16]byte(data)]; there {
				exists = append(exists, i)
				continue
			}
			f.overflow[[16]byte(data)] = reading.Reading{
				Series: reading.Series{Sensor: doc.Lookup("sensorId").StringValue(), Metric: doc.Lookup("metric").StringValue()},
				Time:   doc.Lookup("time").DateTime(), Value: doc.Lookup("value").Double(),
			}
		}
	})
	return exists, nil, err
}

func (f *fakeServer) values(_ context.Context, ids bson.A) (found map[[16]byte]float64, err error) {
	err = f.command(func() {
		found = map[[16]byte]float64{}
		for _, id := range ids {
			id := [16]byte(id.(bson.Binary).Data)
			if r, there := f.overflow[id]; there {
				found[id] = r.Value
			}
		}
	})
	return found, err
}

func (f *fakeServer) dropArrays(_ context.Context, id [16]byte) error {
	return f.command(func() {
		if doc, there := f.docs[id]; there && field(doc, "isOutlier") == true {
			set(doc, "offsets", nil)
			set(doc, "values", nil)
		}
	})
}

func (f *fakeServer) unsettled(id [16]byte, settles int64) bson.D {
	doc, there := f.docs[id]
	if there && field(doc, "isOutlier") == true && field(doc, "settles") == settles {
		return doc
	}
	return nil
}

func (f *fakeServer) add(_ context.Context, id [16]byte, settles int64, t totals) (ok bool, err error) {
	err = f.command(func() {
		if doc := f.unsettled(id, settles); doc != nil {
			count(doc, t)
			ok = true
		}
	})
	return ok, err
}

func (f *fakeServer) marks(context.Context) (list []mark, err error) {
	err = f.command(func() {
		for _, m := range f.marked {
			list = append(list, m)
		}
	})
	return list, err
}

func (f *fakeServer) total(_ context.Context, o Outlier) (t totals, err error) {
	err = f.command(func() {
		for _, r := range f.overflow {
			if r.Series == o.Series && r.Time >= o.Start && r.Time < o.Until {
				t.add(r.Value)
			}
		}
	})
	return t, err
}

func (f *fakeServer) settle(_ context.Context, id [16]byte, was outlierState, t totals) (ok bool, err error) {
	err = f.command(func() {
		doc := f.unsettled(id, was.settles)
		if doc == nil || int64(field(doc, "count").(int32)) != was.count {
			return
		}
		set(doc, "count", int32(t.count))
		set(doc, "sum", t.sum)
		set(doc, "min", t.min)
		set(doc, "max", t.max)
		set(doc, "settles", was.settles+1)
		ok = true
	})
	return ok, err
}

func (f *fakeServer) unmark(_ context.Context, m mark) error {
	return f.command(func() {
		if f.marked[m.id].n == m.n {
			delete(f.marked, m.id)
		}
	})
}
