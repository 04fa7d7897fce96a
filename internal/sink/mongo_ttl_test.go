package sink

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/reading"
	"gudang/internal/testenv"
)

// ttlServer speaks as much of MongoDB's protocol as it takes to be told about
// indexes: no server of the tests has TTL.
type ttlServer struct {
	uri string

	mu      sync.Mutex
	indexes map[string]map[string]bson.D // by collection and name
	sent    []string                     // commands that change something
	fails   map[string]int32             // by command: the code that it ends with
	monitor any                          // ttlMonitorEnabled; nil: getParameter is refused
}

func newTTLServer(t *testing.T) *ttlServer {
	s := &ttlServer{indexes: map[string]map[string]bson.D{}, fails: map[string]int32{}, monitor: true}
	s.uri = testenv.ServeMongo(t, s.answer)
	return s
}

func (s *ttlServer) answer(command bson.Raw, _ bson.D) bson.D {
	s.mu.Lock()
	defer s.mu.Unlock()
	elements, _ := command.Elements()
	name := elements[0].Key()
	collection, _ := elements[0].Value().StringValueOK()
	have := s.indexes[collection]
	ok := bson.D{{Key: "ok", Value: 1.0}}
	if code := s.fails[name]; code != 0 {
		return bson.D{{Key: "ok", Value: 0.0}, {Key: "code", Value: code}, {Key: "errmsg", Value: "it fails"}}
	}
	switch name {
	case "listIndexes":
		if have == nil {
			return bson.D{{Key: "ok", Value: 0.0}, {Key: "code", Value: int32(26)}, {Key: "errmsg", Value: "ns does not exist"}}
		}
		list := bson.A{}
		for _, id := range slices.Sorted(maps.Keys(have)) {
			list = append(list, have[id])
		}
		return append(bson.D{{Key: "cursor", Value: bson.D{{Key: "id", Value: int64(0)}, {Key: "ns", Value: "gudang." + collection}, {Key: "firstBatch", Value: list}}}}, ok...)
	case "createIndexes":
		spec := command.Lookup("indexes", "0").Document()
		s.add(collection, spec.Lookup("name").StringValue(), spec.Lookup("key").Document(), spec.Lookup("expireAfterSeconds"))
	case "collMod":
		id := command.Lookup("index", "name").StringValue()
		have[id][2].Value = command.Lookup("index", "expireAfterSeconds")
	case "dropIndexes":
		delete(have, command.Lookup("index").StringValue())
	case "getParameter":
		if s.monitor == nil {
			return bson.D{{Key: "ok", Value: 0.0}, {Key: "code", Value: int32(13)}, {Key: "errmsg", Value: "not authorized on admin"}}
		}
		return append(bson.D{{Key: "ttlMonitorEnabled", Value: s.monitor}}, ok...)
	default:
		return ok
	}
	if name != "getParameter" {
		s.sent = append(s.sent, name+" "+collection)
	}
	return ok
}

func (s *ttlServer) add(collection, name string, key, after any) {
	if s.indexes[collection] == nil {
		s.indexes[collection] = map[string]bson.D{}
	}
	s.indexes[collection][name] = bson.D{{Key: "name", Value: name}, {Key: "key", Value: key}, {Key: "expireAfterSeconds", Value: after}}
}

// expire tells the server, and returns what it was sent.
func (s *ttlServer) expire(t *testing.T, buckets, raw time.Duration) (byServer bool, why string, sent []string, err error) {
	t.Helper()
	m, err := OpenMongo(s.uri, "gudang")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s.sent = nil
	byServer, why, err = m.Expire(t.Context(), buckets, raw)
	return byServer, why, s.sent, err
}

func TestTheServerIsToldWhatToDelete(t *testing.T) {
	t.Parallel()
	const hours = 720 * time.Hour
	start := bson.D{{Key: "start", Value: 1}}
	for name, c := range map[string]struct {
		have         func(s *ttlServer)
		buckets, raw time.Duration
		want         []string
		byServer     bool
		why          string
		fails        bool
	}{
		"an empty database":            {nil, 0, 0, nil, true, "", false},
		"both retentions":              {nil, hours, hours, []string{"createIndexes buckets", "createIndexes overflow", "createIndexes raw"}, true, "", false},
		"only that of raw":             {nil, 0, hours, []string{"createIndexes raw"}, true, "", false},
		"it is there already":          {func(s *ttlServer) { s.add("raw", "gudang-retention", bson.D{{Key: "time", Value: 1}}, 2592000) }, 0, hours, nil, true, "", false},
		"fractions of a second go up":  {func(s *ttlServer) { s.add("raw", "gudang-retention", bson.D{{Key: "time", Value: 1}}, 61) }, 0, time.Minute + time.Millisecond, nil, true, "", false},
		"it is changed":                {func(s *ttlServer) { s.add("raw", "gudang-retention", bson.D{{Key: "time", Value: 1}}, 60) }, 0, hours, []string{"collMod raw"}, true, "", false},
		"it is dropped":                {func(s *ttlServer) { s.add("buckets", "gudang-retention", start, 60) }, 0, 0, []string{"dropIndexes buckets"}, true, "", false},
		"that of someone else stays":   {func(s *ttlServer) { s.add("buckets", "mine", start, 60) }, 0, 0, nil, true, "", false},
		"one of our name, not of ours": {func(s *ttlServer) { s.add("buckets", "gudang-retention", bson.D{{Key: "at", Value: 1}}, 60) }, 0, 0, nil, true, "", false},
		"collMod is not allowed": {func(s *ttlServer) {
			s.add("raw", "gudang-retention", bson.D{{Key: "time", Value: 1}}, 60)
			s.fails["collMod"] = 13
		}, 0, hours, []string{"dropIndexes raw", "createIndexes raw"}, true, "", false},
		"neither is the way around": {func(s *ttlServer) {
			s.add("raw", "gudang-retention", bson.D{{Key: "time", Value: 1}}, 60)
			s.fails["collMod"], s.fails["dropIndexes"] = 13, 13
		}, 0, hours, nil, false, "", true},
		"it cannot be dropped": {func(s *ttlServer) {
			s.add("raw", "gudang-retention", bson.D{{Key: "time", Value: 1}}, 60)
			s.fails["dropIndexes"] = 13
		}, 0, 0, nil, false, "", true},
		"another index is in the way":     {func(s *ttlServer) { s.fails["createIndexes"] = 85 }, hours, 0, nil, false, "it fails", false},
		"the monitor is off":              {func(s *ttlServer) { s.monitor = false }, hours, 0, []string{"createIndexes buckets", "createIndexes overflow"}, false, "monitor is off", false},
		"it is not told about":            {func(s *ttlServer) { s.monitor = nil }, 0, hours, []string{"createIndexes raw"}, false, "does not say", false},
		"the indexes cannot be looked at": {func(s *ttlServer) { s.fails["listIndexes"] = 13 }, 0, hours, nil, false, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTTLServer(t)
			if c.have != nil {
				c.have(s)
			}
			byServer, why, sent, err := s.expire(t, c.buckets, c.raw)
			if (err != nil) != c.fails || byServer != c.byServer || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
				t.Errorf("by the server: %t, why: %q, error: %v", byServer, why, err)
			}
			if !slices.Equal(sent, c.want) {
				t.Errorf("sent %q, want %q", sent, c.want)
			}
			if again, _, sent, err := s.expire(t, c.buckets, c.raw); err == nil && (len(sent) > 0 || again != byServer) {
				t.Errorf("told again it was sent %q", sent)
			}
		})
	}
}

func TestAServerThatIsAwayIsToldLater(t *testing.T) {
	t.Parallel()
	m, err := OpenMongo("mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=50", "gudang")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if byServer, why, err := m.Expire(t.Context(), time.Hour, 0); err == nil || byServer || why != "" {
		t.Errorf("by the server: %t, %q", byServer, why)
	}
	if err := m.DeleteBefore(t.Context(), reading.KindBuckets, 1, nil); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("deleted from nowhere: %v", err)
	}
}
