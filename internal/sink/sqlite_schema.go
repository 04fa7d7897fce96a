package sink

import (
	"fmt"

	"gudang/internal/reading"
)

// migrations bring the file from the version that is their index to the next.
// The file's version is its user_version; what is in this list is never
// changed again, as it has been run on files that exist.
//
// The tables are those of MongoDB's collections, see SCHEMA.md. Buckets lie in
// the file in the order in which they were created, so that all that is being
// written lies together at its end: ordered by series instead, each reading
// dirties a page of its own (9 times the bytes to the disk with 2,000 series).
// The arrays stand last in the row, so that a summary is read without them.
var migrations = []string{`
CREATE TABLE buckets (
	sensorId  TEXT    NOT NULL,
	metric    TEXT    NOT NULL,
	start     INTEGER NOT NULL,
	count     INTEGER NOT NULL,
	sum       REAL    NOT NULL,
	min       REAL    NOT NULL,
	max       REAL    NOT NULL,
	isOutlier INTEGER,
	offsets   TEXT,
	"values"  TEXT
);
CREATE UNIQUE INDEX buckets_series ON buckets (sensorId, metric, start);
CREATE TABLE sensors (
	_id       TEXT    NOT NULL PRIMARY KEY,
	firstSeen INTEGER NOT NULL,
	lastSeen  INTEGER NOT NULL,
	metrics   TEXT    NOT NULL
);
CREATE TABLE rejected (
	_id      INTEGER PRIMARY KEY,
	sensorId TEXT    NOT NULL,
	metric   TEXT    NOT NULL,
	time     INTEGER NOT NULL,
	value    REAL,
	reason   TEXT    NOT NULL,
	detail   TEXT    NOT NULL,
	at       INTEGER NOT NULL,
	UNIQUE (sensorId, metric, time, reason)
);
CREATE TABLE meta (
	_id   TEXT NOT NULL PRIMARY KEY,
	value INTEGER NOT NULL
);
`, `
CREATE TABLE overflow (
	sensorId TEXT    NOT NULL,
	metric   TEXT    NOT NULL,
	time     INTEGER NOT NULL,
	value    REAL    NOT NULL,
	PRIMARY KEY (sensorId, metric, time)
) WITHOUT ROWID;
CREATE TABLE raw (
	sensorId TEXT    NOT NULL,
	metric   TEXT    NOT NULL,
	time     INTEGER NOT NULL,
	value    REAL    NOT NULL,
	PRIMARY KEY (sensorId, metric, time)
) WITHOUT ROWID;
CREATE TABLE rollups (
	sensorId TEXT    NOT NULL,
	metric   TEXT    NOT NULL,
	span     INTEGER NOT NULL,
	start    INTEGER NOT NULL,
	count    INTEGER NOT NULL,
	sum      REAL    NOT NULL,
	min      REAL    NOT NULL,
	max      REAL    NOT NULL,
	PRIMARY KEY (sensorId, metric, span, start)
) WITHOUT ROWID;
CREATE TABLE stale (
	sensorId TEXT    NOT NULL,
	metric   TEXT    NOT NULL,
	span     INTEGER NOT NULL,
	start    INTEGER NOT NULL,
	writes   INTEGER NOT NULL,
	PRIMARY KEY (sensorId, metric, span, start)
) WITHOUT ROWID;
ALTER TABLE buckets ADD COLUMN until INTEGER;
ALTER TABLE sensors ADD COLUMN outlierUntil INTEGER;
`}

// prepareFile sets the connection up, and the file if it is new or old.
func (c *sqliteConn) prepareFile(span reading.Span) error {
	if err := c.BusyTimeout(busyTimeout); err != nil {
		return err
	}
	mode, err := c.textOf("PRAGMA journal_mode = WAL")
	if err != nil {
		return err
	}
	if mode != "wal" {
		// It is how some network file systems answer. Without the log
		// readers would stop the writer and the writer the readers.
		return fmt.Errorf("this file system cannot have SQLite's write-ahead log (journal mode %q): use a local disk", mode)
	}
	// FULL: a commit is on the disk, not only in the kernel, before it returns:
	// the broker is told that readings are safe on the strength of it.
	// The log, once grown by a long read, is cut to 64 MiB at the next chance.
	if err := c.Exec(`
		PRAGMA synchronous = FULL;
		PRAGMA cache_size = -8192;
		PRAGMA journal_size_limit = 67108864;`); err != nil {
		return err
	}
	if err := c.migrate(); err != nil {
		return err
	}
	return c.exec("INSERT INTO meta VALUES ('largestSpan', ?) ON CONFLICT (_id) DO UPDATE SET value = excluded.value WHERE excluded.value > value", int64(span))
}

func (c *sqliteConn) migrate() error {
	version, err := c.intOf("PRAGMA user_version")
	if err != nil {
		return err
	}
	if version < 0 || version > len(migrations) {
		return fmt.Errorf("%s has version %d, this program knows up to %d: it was written by a newer one", sqliteName, version, len(migrations))
	}
	for ; version < len(migrations); version++ {
		text := fmt.Sprintf("BEGIN IMMEDIATE; %s; PRAGMA user_version = %d; COMMIT", migrations[version], version+1)
		if err := c.Exec(text); err != nil {
			if undo := c.rollback(); undo != nil {
				return fmt.Errorf("cannot bring %s to version %d: %w, and cannot roll back: %w", sqliteName, version+1, err, undo)
			}
			return fmt.Errorf("cannot bring %s to version %d: %w", sqliteName, version+1, err)
		}
	}
	return nil
}

func (c *sqliteConn) intOf(text string) (int, error) {
	st, found, err := c.query(text)
	if err != nil || !found {
		return 0, err
	}
	n := st.ColumnInt(0)
	return n, st.Reset()
}

func (c *sqliteConn) textOf(text string) (string, error) {
	st, found, err := c.query(text)
	if err != nil || !found {
		return "", err
	}
	answer := st.ColumnText(0)
	return answer, st.Reset()
}
