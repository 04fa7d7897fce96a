// Package mongodb is what the sink and the query side share of MongoDB: how to
// connect, how to say what is wrong, and the shape of the sensors' documents.
// It imports nothing of ours but the domain.
package mongodb

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// The collections.
const (
	Buckets  = "buckets"
	Sensors  = "sensors"
	Rejected = "rejected"
	Overflow = "overflow" // readings of outlier buckets
	Outliers = "outliers" // outlier buckets whose counters are not settled yet
	Raw      = "raw"
	Rollups  = "rollups"
	Stale    = "stale" // roll-ups that late readings have outdated
	Meta     = "meta"  // how far the roll-ups are
)

// TTLIndex is the name of each index by which the server deletes what is old.
const TTLIndex = "gudang-retention"

const (
	// selectionTimeout is how long an operation waits for a server that is
	// away. The driver's 30 s would hold a flush, and a shutdown, as long.
	selectionTimeout = 5 * time.Second
	// heartbeat is how often the driver looks after a server that nobody
	// asks for.
	heartbeat = 10 * time.Second
	// poolSize bounds the connections of one Client. Flushes are few and
	// large: more connections only add contention at the server.
	poolSize = 16
)

// Client is a connection to one database. It is made by the first call of
// Database, so that a service can start before its database.
type Client struct {
	uri      string
	database string
	majority bool
	concern  bson.Raw               // of writes
	options  *options.ClientOptions // nil: to be made of the URI, which needs DNS

	mu     sync.Mutex
	client *mongo.Client // nil: not connected yet
	closed bool
}

// New checks the URI and the name. It does not look for the server.
func New(uri, database string) (*Client, error) {
	if err := CheckDatabase(database); err != nil {
		return nil, err
	}
	c := &Client{uri: uri, database: database}
	check := uri
	if isSRV(uri) {
		// The driver would ask the DNS for the hosts, which may be away too.
		check = withoutSRV(uri)
	}
	opts, err := clientOptions(check)
	if err != nil {
		return nil, fmt.Errorf("cannot use the MongoDB URI: %w", c.redact(err))
	}
	c.majority = opts.WriteConcern.W == "majority"
	if c.concern, err = concernDocument(opts.WriteConcern); err != nil {
		return nil, fmt.Errorf("cannot use the write concern of the MongoDB URI: %w", err)
	}
	if !isSRV(uri) {
		c.options = opts
	}
	return c, nil
}

// CheckDatabase refuses a name that MongoDB would refuse at each operation.
func CheckDatabase(name string) error {
	if name == "" || len(name) > 63 || strings.ContainsAny(name, "/\\. \"$*<>:|?\x00") {
		return fmt.Errorf("cannot use %q as the name of a database: it must have 1 to 63 bytes and none of /\\. \"$*<>:|?", name)
	}
	return nil
}

// clientOptions is the URI with our defaults for what it leaves open.
func clientOptions(uri string) (*options.ClientOptions, error) {
	opts := options.Client().ApplyURI(uri)
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if opts.ServerSelectionTimeout == nil {
		opts.SetServerSelectionTimeout(selectionTimeout)
	}
	if opts.ConnectTimeout == nil {
		opts.SetConnectTimeout(selectionTimeout)
	}
	if opts.HeartbeatInterval == nil {
		opts.SetHeartbeatInterval(heartbeat)
	}
	if opts.MaxPoolSize == nil {
		opts.SetMaxPoolSize(poolSize)
	}
	if opts.AppName == nil {
		opts.SetAppName("gudang")
	}
	wc, err := writeConcern(opts.WriteConcern)
	if err != nil {
		return nil, err
	}
	return opts.SetWriteConcern(wc), nil
}

// writeConcern is majority and journaled where the URI does not say otherwise:
// a message is acknowledged for good once its readings are written, so what is
// written must survive the loss of the primary.
func writeConcern(said *writeconcern.WriteConcern) (*writeconcern.WriteConcern, error) {
	journal := true
	wc := writeconcern.WriteConcern{W: "majority", Journal: &journal}
	if said != nil && said.W != nil {
		wc.W = said.W
	}
	if said != nil && said.Journal != nil {
		wc.Journal = said.Journal
	}
	if !wc.Acknowledged() || wc.W == 0 {
		return nil, errors.New("w=0 would lose readings without a word: leave it out")
	}
	return &wc, nil
}

func isSRV(uri string) bool { return strings.HasPrefix(uri, "mongodb+srv://") }

// withoutSRV is the URI in the form that needs no DNS, good for checking.
func withoutSRV(uri string) string {
	rest := strings.TrimPrefix(uri, "mongodb+srv://")
	base, query, _ := strings.Cut(rest, "?")
	var kept []string
	for _, pair := range strings.Split(query, "&") {
		if !strings.HasPrefix(strings.ToLower(pair), "srv") {
			kept = append(kept, pair)
		}
	}
	if query = strings.Join(kept, "&"); query != "" {
		if !strings.Contains(base, "/") {
			base += "/"
		}
		base += "?" + query
	}
	return "mongodb://" + base
}

// Majority says whether a write waits for a majority of the servers.
func (c *Client) Majority() bool { return c.majority }

// Truth are the options of a collection as whoever decides by what is there
// reads it: at the primary, and with a majority to write to, what it has.
func (c *Client) Truth() *options.CollectionOptionsBuilder {
	opts := options.Collection().SetReadPreference(readpref.Primary())
	if c.majority {
		opts.SetReadConcern(readconcern.Majority())
	}
	return opts
}

// Database is the database, connected to in the background: it answers at
// once, and an operation on it waits for the server.
func (c *Client) Database() (*mongo.Database, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, mongo.ErrClientDisconnected
	}
	if c.client == nil {
		opts := c.options
		if opts == nil {
			var err error
			if opts, err = clientOptions(c.uri); err != nil {
				return nil, c.redact(err)
			}
		}
		client, err := mongo.Connect(opts)
		if err != nil {
			return nil, c.redact(err)
		}
		c.client = client
	}
	return c.client.Database(c.database), nil
}

// Close lets go of the connections. An operation under way ends first, or
// fails when the time for closing is over.
func (c *Client) Close() error {
	c.mu.Lock()
	client := c.client
	c.client, c.closed = nil, true
	c.mu.Unlock()
	if client == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), selectionTimeout)
	defer cancel()
	return c.Explain(client.Disconnect(ctx))
}

// secrets are the parts of the URI that nobody may read, in each form in
// which an error could quote them.
func (c *Client) secrets() []string {
	var out []string
	add := func(s string) {
		if s == "" {
			return
		}
		out = append(out, s)
		if plain, err := url.PathUnescape(s); err == nil && plain != s {
			out = append(out, plain)
		}
	}
	_, rest, _ := strings.Cut(c.uri, "://")
	// A password that holds an unescaped / or @ is a usual mistake, so all
	// up to the last @ counts.
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		_, password, _ := strings.Cut(rest[:at], ":")
		add(password)
	}
	_, query, _ := strings.Cut(rest, "?")
	for _, pair := range strings.Split(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		switch strings.ToLower(key) {
		case "tlscertificatekeyfilepassword", "sslclientcertificatekeypassword", "authmechanismproperties", "proxypassword":
			add(value)
		}
	}
	return out
}
