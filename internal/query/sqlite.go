package query

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/reading"
)

const (
	// sqliteName and sqliteVersion are what sink.SQLite writes.
	sqliteName    = "gudang.db"
	sqliteVersion = 2

	// sqliteConns is how many queries run at once. Each connection costs a few
	// MB of memory, and more of them than processors read no faster.
	sqliteConns = 4
	// sqliteIdle is how many copies of a statement a connection keeps: a query
	// over several metrics steps through one for each of them.
	sqliteIdle = 8

	// sqliteCache holds the pages of a day of a series, each of whose buckets
	// lies on a page of its own.
	sqliteCache = "PRAGMA cache_size = -8192"

	sqliteBusy = 5 * time.Second
)

// SQLite reads the embedded store, while it is being written or not, from the
// process that writes it or from another.
type SQLite struct {
	path string
	span reading.Span

	turns chan struct{} // one for each query that may run

	mu sync.Mutex
	// idle are the connections that no query has. The last one to come back is
	// the first to go: its pages are still in its cache, and in the processor's.
	idle []*sqliteConn
}

// sqliteConn is a connection that reads, and the statements that it keeps.
type sqliteConn struct {
	*sqlite3.Conn
	idle  map[string][]*sqlite3.Stmt
	taken []takenPoint // for its memory
}

// OpenSQLite makes a reader of the embedded store in dir. Before the service
// has written there it answers as an empty store does. The span is the one
// that is written with; what was stored with others is read as well.
func OpenSQLite(dir string, span reading.Span) (*SQLite, error) {
	// An absolute path is never mistaken for a URI, whatever its characters.
	path, err := filepath.Abs(filepath.Join(dir, sqliteName))
	if err != nil {
		return nil, fmt.Errorf("cannot read the embedded store in %q: %w", dir, err)
	}
	s := &SQLite{path: path, span: span, turns: make(chan struct{}, sqliteConns)}
	for range sqliteConns {
		s.turns <- struct{}{}
	}
	// What can be known to be wrong with the file is said at once.
	if err := s.Ping(context.Background()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// errEmpty says that there is no store yet, or none with tables in it.
var errEmpty = fmt.Errorf("nothing was written there yet: %w", fs.ErrNotExist)

func (s *SQLite) connect() (*sqliteConn, error) {
	if _, err := os.Stat(s.path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errEmpty
		}
		return nil, err
	}
	db, err := sqlite3.OpenFlags(s.path, sqlite3.OPEN_READONLY)
	if err != nil {
		return nil, err
	}
	c := &sqliteConn{Conn: db, idle: make(map[string][]*sqlite3.Stmt)}
	if err := c.check(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// check refuses a file that this program does not know how to read.
func (c *sqliteConn) check() error {
	if err := c.BusyTimeout(sqliteBusy); err != nil {
		return err
	}
	if err := c.Exec(sqliteCache); err != nil {
		return err
	}
	version := 0
	err := c.each("PRAGMA user_version", func(st *sqlite3.Stmt) error {
		version = st.ColumnInt(0)
		return nil
	})
	switch {
	case err != nil:
		return err
	case version == 0:
		return errEmpty
	case version != sqliteVersion:
		return fmt.Errorf("%s has version %d, this program reads version %d: start the service once, which brings an older file up to it", sqliteName, version, sqliteVersion)
	}
	return nil
}

// read calls do within a transaction, so that all that it sees is of one
// moment. When there is no store yet it is not called, and that is no error.
func (s *SQLite) read(ctx context.Context, do func(c *sqliteConn) error) error {
	err := s.readNow(ctx, do)
	if errors.Is(err, errEmpty) {
		return nil
	}
	return err
}

func (s *SQLite) readNow(ctx context.Context, do func(c *sqliteConn) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case _, open := <-s.turns:
		if !open {
			return errors.New("the embedded store is closed")
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.turns <- struct{}{} }()
	c, err := s.get()
	if err != nil {
		return err
	}
	defer s.put(c)
	c.SetInterrupt(ctx)
	err = c.Exec("BEGIN")
	if err == nil {
		err = do(c)
	}
	c.SetInterrupt(context.Background())
	if !c.GetAutocommit() {
		err = errors.Join(err, c.Exec("ROLLBACK"))
	}
	if ctx.Err() != nil && (errors.Is(err, sqlite3.INTERRUPT) || errors.Is(err, sqlite3.BUSY)) {
		return ctx.Err()
	}
	return err
}

// get is an idle connection, or a new one.
func (s *SQLite) get() (*sqliteConn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.idle); n > 0 {
		c := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return c, nil
	}
	return s.connect()
}

func (s *SQLite) put(c *sqliteConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, c)
}

// take is a prepared statement for a text; several may be in use at once.
// Give it back with keep.
func (c *sqliteConn) take(text string, args ...any) (*sqlite3.Stmt, error) {
	var st *sqlite3.Stmt
	if idle := c.idle[text]; len(idle) > 0 {
		st, c.idle[text] = idle[len(idle)-1], idle[:len(idle)-1]
	} else {
		var err error
		if st, _, err = c.PrepareFlags(text, sqlite3.PREPARE_PERSISTENT); err != nil {
			return nil, err
		}
	}
	for i, arg := range args {
		var err error
		switch v := arg.(type) {
		case string:
			err = st.BindText(i+1, v)
		case int64:
			err = st.BindInt64(i+1, v)
		default:
			panic(fmt.Sprintf("BUG: cannot bind a %T", arg))
		}
		if err != nil {
			return nil, errors.Join(err, st.Close())
		}
	}
	return st, nil
}

// keep ends what the statement is doing. Its error is that of the last Step,
// which whoever stepped has seen.
func (c *sqliteConn) keep(text string, st *sqlite3.Stmt) {
	if st.Reset() != nil || len(c.idle[text]) >= sqliteIdle {
		st.Close()
		return
	}
	c.idle[text] = append(c.idle[text], st)
}

// each calls yield for each row of the answer.
func (c *sqliteConn) each(text string, yield func(st *sqlite3.Stmt) error, args ...any) error {
	st, err := c.take(text, args...)
	if err != nil {
		return err
	}
	defer c.keep(text, st)
	for st.Step() {
		if err := yield(st); err != nil {
			return err
		}
	}
	return st.Err()
}

// Ping says whether there is a store that can be read.
func (s *SQLite) Ping(ctx context.Context) error {
	err := s.readNow(ctx, func(c *sqliteConn) error {
		return c.each("SELECT _id FROM sensors LIMIT 1", func(*sqlite3.Stmt) error { return nil })
	})
	if err != nil {
		return fmt.Errorf("cannot read the embedded store %q: %w", s.path, err)
	}
	return nil
}

// Close waits for the queries that are under way.
func (s *SQLite) Close() error {
	for range sqliteConns {
		if _, open := <-s.turns; !open {
			return nil
		}
	}
	close(s.turns)
	var errs []error
	for _, c := range s.idle {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}

func (c *sqliteConn) close() error {
	var errs []error
	for _, idle := range c.idle {
		for _, st := range idle {
			errs = append(errs, st.Close())
		}
	}
	return errors.Join(append(errs, c.Conn.Close())...)
}
