package mongodb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

func TestExplainTellsTroubleApart(t *testing.T) {
	client := &Client{uri: "mongodb://localhost"}
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"wrong password", mongo.CommandError{Code: 18, Message: "Authentication failed."}, ErrCredentials},
		{"wrong password at the handshake", errors.New("connection() error occurred during connection handshake: auth error: sasl conversation error"), ErrCredentials},
		{"no right to write", mongo.CommandError{Code: 13, Message: "not authorized on gudang"}, ErrDenied},
		{"no right to write, told of one write", mongo.BulkWriteException{WriteErrors: []mongo.BulkWriteError{{WriteError: mongo.WriteError{Code: 13}}}}, ErrDenied},
		{"no such host", fmt.Errorf("dial: %w", &net.DNSError{Name: "db", Err: "no such host"}), ErrAway},
		{"connection reset", mongo.CommandError{Labels: []string{"NetworkError"}, Message: "reset"}, ErrAway},
		{"no server found", errors.New("server selection error: context deadline exceeded"), ErrAway},
		{"no answer in time", context.DeadlineExceeded, ErrAway},
		{"stopped by us", context.Canceled, nil},
		{"anything else", mongo.CommandError{Code: 11602, Message: "interrupted"}, nil},
	} {
		have := client.Explain(c.err)
		for _, kind := range []error{ErrAway, ErrCredentials, ErrDenied} {
			if errors.Is(have, kind) != errors.Is(c.want, kind) {
				t.Errorf("%s: %v, want %v", c.name, have, c.want)
			}
		}
	}
	if client.Explain(nil) != nil {
		t.Error("no trouble was explained")
	}
}

func TestAServerThatIsAwayIsNamedInFewWords(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{
			"one server", "server selection error: context deadline exceeded, current topology: { Type: Unknown, Servers: [{ Addr: 127.0.0.1:1, Type: Unknown, Last error: dial tcp 127.0.0.1:1: connect: connection refused }, ] }",
			"MongoDB cannot be reached: 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused",
		},
		{
			"two servers, one of which has said nothing", "server selection error: timeout, current topology: { Type: ReplicaSetNoPrimary, Servers: [{ Addr: a:27017, Type: RSSecondary }, { Addr: b:27017, Type: Unknown, Last error: dial tcp: lookup b: no such host }, ] }",
			"MongoDB cannot be reached: b:27017: dial tcp: lookup b: no such host",
		},
		{
			"no server has an error", "server selection error: timeout, current topology: { Type: ReplicaSetNoPrimary, Servers: [{ Addr: a:27017, Type: RSSecondary }, ] }",
			"MongoDB cannot be reached: server selection error: timeout, current topology: { Type: ReplicaSetNoPrimary, Servers: [{ Addr: a:27017, Type: RSSecondary }, ] }",
		},
	} {
		client, err := New("mongodb://h", "gudang")
		if err != nil {
			t.Fatal(err)
		}
		if got := client.Explain(errors.New(c.text)); got.Error() != c.want || !errors.Is(got, ErrAway) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
