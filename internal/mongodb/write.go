package mongodb

import (
	"context"
	"errors"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// Answer is what a server says to a command that writes many documents, each
// for itself.
type Answer struct {
	N       int                      // documents that were inserted, matched or upserted
	Errors  []mongo.WriteError       // of those that were not, by Index
	Concern *mongo.WriteConcernError // done, but not safely
}

// Err is the first thing that is wrong with it.
func (a Answer) Err() error {
	if a.Concern != nil {
		return *a.Concern
	}
	if len(a.Errors) > 0 {
		return a.Errors[0]
	}
	return nil
}

// Duplicates says whether all that went wrong is that documents were there
// already.
func (a Answer) Duplicates() bool {
	for _, e := range a.Errors {
		if e.Code != CodeDuplicateKey {
			return false
		}
	}
	return a.Concern == nil
}

// CodeDuplicateKey is the server's answer to a second document with a key that
// must be the only one of its kind.
const CodeDuplicateKey = 11000

// commandBytes is what an insert or update command takes beside its documents.
const commandBytes = 256

// Insert inserts the documents, whatever becomes of the others. The error says
// that there was no answer, or that the command was refused as a whole: then
// any of them may have been done.
//
// The driver's own BulkWrite costs several times as much: it copies each
// document through a reader of its own to see whether it has an _id, marshals it
// and its statement by reflection, and makes a result for each. What it does
// beside that, sending a command again when its answer is lost, every caller
// does too, and knows what to make of what it then finds.
func (c *Client) Insert(ctx context.Context, db *mongo.Database, collection string, docs []bson.Raw) (Answer, error) {
	size := 0
	for _, doc := range docs {
		size += len(doc) + 8
	}
	cmd, doc := c.begin("insert", collection, size)
	cmd, array := BeginIn(cmd, bson.TypeArray, "documents")
	for i, d := range docs {
		cmd = append(AppendIndex(cmd, bson.TypeEmbeddedDocument, i), d...)
	}
	return run(ctx, db, End(End(cmd, array), doc), len(docs))
}

// Update is the same for n updates of one document each. Statement appends the
// elements of the i-th: q, u and what else it has. Size is about what they take.
func (c *Client) Update(ctx context.Context, db *mongo.Database, collection string, n, size int, statement func(dst []byte, i int) []byte) (Answer, error) {
	cmd, doc := c.begin("update", collection, size)
	cmd, array := BeginIn(cmd, bson.TypeArray, "updates")
	for i := range n {
		var at int
		cmd, at = Begin(AppendIndex(cmd, bson.TypeEmbeddedDocument, i))
		cmd = End(statement(cmd, i), at)
	}
	return run(ctx, db, End(End(cmd, array), doc), n)
}

func (c *Client) begin(command, collection string, size int) ([]byte, int) {
	cmd, doc := Begin(make([]byte, 0, size+commandBytes))
	cmd = AppendString(cmd, command, collection)
	cmd = AppendBool(cmd, "ordered", false)
	return AppendDocument(cmd, "writeConcern", c.concern), doc
}

// concernDocument is a write concern as commands have it.
func concernDocument(wc *writeconcern.WriteConcern) (bson.Raw, error) {
	var doc bson.D
	if wc.W != nil {
		doc = append(doc, bson.E{Key: "w", Value: wc.W})
	}
	if wc.Journal != nil {
		doc = append(doc, bson.E{Key: "j", Value: *wc.Journal})
	}
	return bson.Marshal(doc)
}

// run runs a command that writes so many documents.
func run(ctx context.Context, db *mongo.Database, cmd bson.Raw, documents int) (Answer, error) {
	reply, err := db.RunCommand(ctx, cmd).Raw()
	var fault mongo.WriteException
	if errors.As(err, &fault) {
		reply, err = fault.Raw, nil
	}
	if err != nil {
		return Answer{}, err
	}
	n, _ := Integer(reply.Lookup("n"))
	// A document that was not sent: whoever counts what was answered will notice.
	fault.WriteErrors = slices.DeleteFunc(fault.WriteErrors, func(e mongo.WriteError) bool { return e.Index < 0 || e.Index >= documents })
	return Answer{N: int(n), Errors: fault.WriteErrors, Concern: fault.WriteConcernError}, nil
}
