package query

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"gudang/internal/mongodb"
)

// layout lists our collections and their indexes.
func layout(ctx context.Context, db *mongo.Database) ([]Collection, error) {
	names, err := db.ListCollectionNames(ctx, bson.D{{Key: "name", Value: bson.D{{Key: "$in", Value: ours}}}})
	if err != nil {
		return nil, err
	}
	all := []Collection{}
	for _, name := range ours { // in this order
		for _, have := range names {
			if have != name {
				continue
			}
			c := Collection{Name: have, Indexes: []Index{}}
			cursor, err := db.Collection(have).Indexes().List(ctx)
			if err != nil {
				return nil, err
			}
			var docs []bson.Raw
			if err := cursor.All(ctx, &docs); err != nil {
				return nil, err
			}
			for _, doc := range docs {
				c.Indexes = append(c.Indexes, indexOf(doc))
			}
			all = append(all, c)
		}
	}
	return all, nil
}

// indexOf reads an index's description.
func indexOf(doc bson.Raw) Index {
	var i Index
	i.Name, _ = doc.Lookup("name").StringValueOK()
	if after, ok := mongodb.Integer(doc.Lookup("expireAfterSeconds")); ok {
		i.ExpireAfter = &after
	}
	key, _ := doc.Lookup("key").DocumentOK()
	elements, _ := key.Elements()
	for _, e := range elements {
		field := e.Key()
		if direction, ok := e.Value().AsFloat64OK(); !ok || direction != 1 {
			field = fmt.Sprintf("%s: %v", field, e.Value())
		}
		i.Fields = append(i.Fields, field)
	}
	return i
}

// collections is the layout with what each takes on the disk, as far as the
// server says so.
func (m *Mongo) collections(ctx context.Context) ([]Collection, error) {
	db, err := m.client.Database()
	if err != nil {
		return nil, err
	}
	all, err := layout(ctx, db)
	if err != nil {
		return nil, m.failed("list the collections", err)
	}
	for i := range all {
		stats := bson.A{bson.D{{Key: "$collStats", Value: bson.D{{Key: "storageStats", Value: bson.D{}}}}}}
		err := m.aggregate(ctx, all[i].Name, stats, func(doc bson.Raw) error { // one of each shard
			all[i].count(doc)
			return nil
		})
		if err != nil && !mongodb.Lacks(err) {
			return nil, m.failed("measure "+all[i].Name, err)
		}
	}
	return all, nil
}

// count adds what one shard says.
func (c *Collection) count(doc bson.Raw) {
	sum := func(to **int64, v bson.RawValue) {
		if n, ok := mongodb.Integer(v); ok {
			if *to == nil {
				*to = new(int64)
			}
			**to += n
		}
	}
	n, _ := mongodb.Integer(doc.Lookup("storageStats", "count"))
	c.Documents += n
	sum(&c.Disk, doc.Lookup("storageStats", "storageSize"))
	for i := range c.Indexes {
		sum(&c.Indexes[i].Bytes, doc.Lookup("storageStats", "indexSizes", c.Indexes[i].Name))
	}
}
