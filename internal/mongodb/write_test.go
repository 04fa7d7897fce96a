package mongodb

import (
	"bytes"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"gudang/internal/testenv"
)

func TestDocumentsAreWhatTheDriverWouldMarshal(t *testing.T) {
	id := [16]byte{1, 2, 3, 15: 16}
	inner := marshal(t, bson.D{{Key: "x", Value: "y"}})
	want := marshal(t, bson.D{
		{Key: "text", Value: "倉庫 \U0001f4e6"},
		{Key: "empty", Value: ""},
		{Key: "id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]}},
		{Key: "at", Value: bson.DateTime(-5)},
		{Key: "yes", Value: true},
		{Key: "no", Value: false},
		{Key: "n", Value: int32(-7)},
		{Key: "v", Value: 0.1},
		{Key: "ints", Value: []int32{5, 4, 3, 2, 1, 0, -1, -2, -3, -4, -5}},
		{Key: "floats", Value: []float64{1.5}},
		{Key: "none", Value: []float64{}},
		{Key: "doc", Value: bson.D{{Key: "x", Value: "y"}}},
		{Key: "copy", Value: "y"},
	})
	have, doc := Begin([]byte("before"))
	have = AppendString(have, "text", "倉庫 \U0001f4e6")
	have = AppendString(have, "empty", "")
	have = AppendUUID(have, "id", id)
	have = AppendDate(have, "at", -5)
	have = AppendBool(have, "yes", true)
	have = AppendBool(have, "no", false)
	have = AppendInt32(have, "n", -7)
	have = AppendFloat(have, "v", 0.1)
	have = AppendInt32s(have, "ints", []int32{5, 4, 3, 2, 1, 0, -1, -2, -3, -4, -5})
	have = AppendFloats(have, "floats", []float64{1.5})
	have = AppendFloats(have, "none", nil)
	have = AppendDocument(have, "doc", inner)
	have = AppendValue(have, "copy", inner.Lookup("x"))
	have = End(have, doc)
	if !bytes.Equal(have[len("before"):], want) {
		t.Errorf("have %s\nwant %s", bson.Raw(have[len("before"):]), want)
	}
}

func TestWritesWaitForWhatTheURISays(t *testing.T) {
	for uri, want := range map[string]string{
		"mongodb://h/":                     `{"w": "majority","j": true}`,
		"mongodb://h/?w=2":                 `{"w": {"$numberInt":"2"},"j": true}`,
		"mongodb://h/?w=1&journal=false":   `{"w": {"$numberInt":"1"},"j": false}`,
		"mongodb+srv://h.example/?w=zones": `{"w": "zones","j": true}`,
	} {
		c, err := New(uri, "gudang")
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		cmd, doc := c.begin("insert", Buckets, 0)
		if have := bson.Raw(End(cmd, doc)).Lookup("writeConcern").String(); have != want {
			t.Errorf("%s: %s, want %s", uri, have, want)
		}
	}
}

// Both commands against a server: what it says of each document arrives.
func TestEachDocumentOfACommandHasItsAnswer(t *testing.T) {
	c, err := New(testenv.FerretDB(t).URI, "gudang")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	db, err := c.Database()
	if err != nil {
		t.Fatal(err)
	}
	doc := func(id string, n int32) bson.Raw {
		return marshal(t, bson.D{{Key: "_id", Value: id}, {Key: "n", Value: n}})
	}
	answer, err := c.Insert(t.Context(), db, "c", []bson.Raw{doc("a", 1), doc("b", 2)})
	if err != nil || answer.N != 2 || !answer.Duplicates() || answer.Err() != nil {
		t.Fatalf("%+v, %v", answer, err)
	}
	answer, err = c.Insert(t.Context(), db, "c", []bson.Raw{doc("c", 3), doc("a", 4)})
	if err != nil || answer.N != 1 || len(answer.Errors) != 1 || answer.Errors[0].Index != 1 || answer.Errors[0].Code != CodeDuplicateKey || !answer.Duplicates() {
		t.Fatalf("%+v, %v", answer, err)
	}
	if text := answer.Err().Error(); !strings.Contains(text, "E11000") {
		t.Errorf("the error says %q", text)
	}
	ids := []string{"a", "z", "b"} // z is not there
	answer, err = c.Update(t.Context(), db, "c", len(ids), 0, func(dst []byte, i int) []byte {
		dst = AppendDocument(dst, "q", marshal(t, bson.D{{Key: "_id", Value: ids[i]}}))
		return AppendDocument(dst, "u", marshal(t, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: int32(10)}}}}))
	})
	if err != nil || answer.N != 2 || len(answer.Errors) != 0 {
		t.Fatalf("%+v, %v", answer, err)
	}
	var sum struct{ N int32 }
	if err := db.Collection("c").FindOne(t.Context(), bson.D{{Key: "_id", Value: "a"}}).Decode(&sum); err != nil || sum.N != 11 {
		t.Errorf("n is %d, error %v", sum.N, err)
	}
	if _, err = c.Insert(t.Context(), db, "", nil); err == nil {
		t.Error("a command that is refused as a whole has no error")
	}
}

func TestAnswerTellsWhatIsWrong(t *testing.T) {
	duplicate, other := mongo.WriteError{Code: CodeDuplicateKey}, mongo.WriteError{Code: 121, Message: "no"}
	concern := &mongo.WriteConcernError{Code: 64}
	for _, c := range []struct {
		answer Answer
		only   bool
		fine   bool
	}{
		{Answer{N: 3}, true, true},
		{Answer{Errors: []mongo.WriteError{duplicate, duplicate}}, true, false},
		{Answer{Errors: []mongo.WriteError{duplicate, other}}, false, false},
		{Answer{Errors: []mongo.WriteError{duplicate}, Concern: concern}, false, false},
		{Answer{N: 3, Concern: concern}, false, false},
	} {
		if c.answer.Duplicates() != c.only || (c.answer.Err() == nil) != c.fine {
			t.Errorf("%+v: only duplicates %t, error %v", c.answer, c.answer.Duplicates(), c.answer.Err())
		}
	}
}
