package sink

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/reading"
)

// sqliteName is the one file of the embedded store within its directory.
const sqliteName = "gudang.db"

// SQLite is the embedded store: one file that any SQLite tool can open. One
// process at a time may write it; any number may read it meanwhile.
//
// Two drivers need no C compiler; both are SQLite 3.54.1 translated to Go and
// both released in November 2026. Measured on these very statements with 2,000
// series, go-sqlite3 0.37.0 (MIT) writes 1.3 to 1.5 times as many readings as
// modernc.org/sqlite 1.62.0 (BSD), reads a row in two thirds of the time, takes
// a quarter less memory and brings three modules along instead of seven; it
// makes the program 0.5 MB larger. Its SQLite lives in a bounded memory of its
// own, so that a fault in it cannot reach ours. Do not link both: two SQLites
// in one process do not see each other's locks on a file.
type SQLite struct {
	path    string
	span    reading.Span
	outlier int // readings above which a bucket is one
	beside  bool
	lock    *dirLock    // nil: beside a service
	file    os.FileInfo // the file as it was opened, to notice that it is gone

	// turn holds the one connection: whoever takes it has it alone. It is a
	// channel and no mutex so that waiting for it can end with a context.
	turn chan *sqliteConn
}

// sqliteConn is the writing connection, its statements, and buffers that are
// used anew for every bucket.
type sqliteConn struct {
	*sqlite3.Conn
	stmts map[string]*sqlite3.Stmt

	offsets []int32
	values  []float64
	text    [2][]byte
}

// SQLiteOption changes how a SQLite works.
type SQLiteOption func(*SQLite)

// SQLiteBeside opens the store beside a service that may be running: each of
// our transactions reads what it goes by, so that two processes may write.
// Without it a directory belongs to one service.
func SQLiteBeside() SQLiteOption { return func(s *SQLite) { s.beside = true } }

// SQLiteOutlier sets how many readings a bucket holds at most before it becomes
// an outlier.
func SQLiteOutlier(n int) SQLiteOption { return func(s *SQLite) { s.outlier = n } }

// OpenSQLite opens the embedded store in dir for writing and creates what is
// not there yet. The span is recorded, so that whoever reads knows how long a
// stored bucket may be.
func OpenSQLite(dir string, span reading.Span, opts ...SQLiteOption) (*SQLite, error) {
	s := &SQLite{span: span, outlier: DefaultOutlier}
	for _, opt := range opts {
		opt(s)
	}
	err := s.open(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the embedded store in %q: %w", dir, err)
	}
	return s, nil
}

// Locked says that opening the embedded store failed because another program
// has it locked, which will not last.
func Locked(err error) bool { return errors.Is(err, sqlite3.BUSY) }

func (s *SQLite) open(dir string) (err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	// An absolute path is never mistaken for a URI, whatever its characters.
	if s.path, err = filepath.Abs(filepath.Join(dir, sqliteName)); err != nil {
		return err
	}
	if !s.beside {
		if s.lock, err = lockDir(dir); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, s.lock.release())
			}
		}()
	}
	db, err := sqlite3.OpenFlags(s.path, sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE)
	if err != nil {
		return err
	}
	c := &sqliteConn{Conn: db, stmts: make(map[string]*sqlite3.Stmt)}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if err := c.prepareFile(s.span); err != nil {
		return err
	}
	if err := s.prepareSweep(c); err != nil {
		return err
	}
	if s.file, err = os.Stat(s.path); err != nil {
		return err
	}
	s.turn = make(chan *sqliteConn, 1)
	s.turn <- c
	return nil
}

// take waits for the connection. Until it is given back its statements end
// with ctx.
func (s *SQLite) take(ctx context.Context) (*sqliteConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case c, open := <-s.turn:
		if !open {
			return nil, errors.New("the embedded store is closed")
		}
		c.SetInterrupt(ctx)
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *SQLite) give(c *sqliteConn) {
	c.SetInterrupt(context.Background())
	s.turn <- c
}

// inTransaction calls do within a transaction and commits it: with the
// settings of prepareFile, what it wrote survives a loss of power from there
// on. If anything fails nothing of it is stored.
func (s *SQLite) inTransaction(ctx context.Context, do func(c *sqliteConn) error) error {
	c, err := s.take(ctx)
	if err != nil {
		return err
	}
	defer s.give(c)
	err = c.Exec("BEGIN IMMEDIATE")
	if err == nil {
		err = do(c)
	}
	if err == nil {
		err = c.Exec("COMMIT")
	}
	if err == nil {
		return nil
	}
	return errors.Join(interrupted(ctx, err), c.rollback())
}

// rollback ends the transaction that is open, if there is one: some failures,
// such as a full disk, have SQLite end it by itself.
func (c *sqliteConn) rollback() error {
	c.SetInterrupt(context.Background())
	if c.GetAutocommit() {
		return nil
	}
	return c.Exec("ROLLBACK")
}

// interrupted says why, where SQLite only says that it was interrupted, or
// stopped waiting for a lock.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, sqlite3.INTERRUPT) || errors.Is(err, sqlite3.BUSY)) {
		return ctx.Err()
	}
	return err
}

// stmt is the prepared statement for a text, which is kept.
func (c *sqliteConn) stmt(text string) (*sqlite3.Stmt, error) {
	if st := c.stmts[text]; st != nil {
		return st, nil
	}
	st, _, err := c.PrepareFlags(text, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, err
	}
	c.stmts[text] = st
	return st, nil
}

// exec runs a statement that answers nothing.
func (c *sqliteConn) exec(text string, args ...any) error {
	st, err := c.stmt(text)
	if err != nil {
		return err
	}
	if err := bindAll(st, args...); err != nil {
		return err
	}
	return st.Exec()
}

// query begins a statement that answers with one row or none. When it has one,
// the caller reads its columns and calls Reset.
func (c *sqliteConn) query(text string, args ...any) (st *sqlite3.Stmt, found bool, err error) {
	st, err = c.stmt(text)
	if err != nil {
		return nil, false, err
	}
	if err := bindAll(st, args...); err != nil {
		return nil, false, err
	}
	if st.Step() {
		return st, true, nil
	}
	err = st.Err()
	return nil, false, errors.Join(err, ignoreSame(st.Reset(), err))
}

// ignoreSame drops the error of a Reset that only repeats the one of its Step.
func ignoreSame(reset, step error) error {
	if step != nil {
		return nil
	}
	return reset
}

func bindAll(st *sqlite3.Stmt, args ...any) error {
	for i, arg := range args {
		var err error
		switch v := arg.(type) {
		case string:
			err = st.BindText(i+1, v)
		case []byte:
			err = st.BindRawText(i+1, v)
		case int64:
			err = st.BindInt64(i+1, v)
		case float64:
			err = st.BindFloat(i+1, v)
		default:
			panic(fmt.Sprintf("BUG: cannot bind a %T", arg))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Ping says whether the file can be written to.
func (s *SQLite) Ping(ctx context.Context) error {
	now, err := os.Stat(s.path)
	if err != nil {
		return fmt.Errorf("cannot find the embedded store: %w", err)
	}
	if !os.SameFile(now, s.file) {
		return fmt.Errorf("the embedded store %q was replaced while it was open: restart to use the new one", s.path)
	}
	err = s.inTransaction(ctx, func(*sqliteConn) error { return nil })
	if err != nil {
		return fmt.Errorf("cannot write to the embedded store %q: %w", s.path, err)
	}
	return nil
}

// Close waits for the write that is under way and closes the file. Its log is
// then folded into it: one file is left.
func (s *SQLite) Close() error {
	c, open := <-s.turn
	if !open {
		return nil
	}
	close(s.turn)
	err := c.close()
	if s.lock != nil {
		err = errors.Join(err, s.lock.release())
	}
	if err != nil {
		return fmt.Errorf("cannot close the embedded store %q: %w", s.path, err)
	}
	return nil
}

func (c *sqliteConn) close() error {
	var errs []error
	for _, st := range c.stmts {
		errs = append(errs, st.Close())
	}
	return errors.Join(append(errs, c.Conn.Close())...)
}

// busyTimeout is how long a write waits for another process, such as a tool
// that someone has open on the file, before the flush, or the start, is tried again.
const busyTimeout = 5 * time.Second
