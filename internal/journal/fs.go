package journal

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// directory is what the journal needs of its directory. Names have no
// separators. Tests put one in its place that fails, or loses power.
type directory interface {
	List() ([]entry, error)
	Open(name string) (file, error)   // to read and write what is there
	Create(name string) (file, error) // empty, even if there was one
	Rename(from, to string) error
	Remove(name string) error
	Sync() error // makes the names durable; files do that for their contents
	Close() error
}

type entry struct {
	name string
	size int64
}

type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
}

const lockName = "lock"

// disk is a directory of the file system, locked against a second process. The
// kernel holds the lock, so a process that is killed leaves none behind.
type disk struct {
	dir  string
	lock *os.File
}

func openDisk(dir string) (*disk, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(lock); err != nil {
		return nil, errors.Join(errors.New("another process has a journal there: give each service a directory of its own"), err, lock.Close())
	}
	// Were the directory's own name lost in a power cut, all would be. Who may
	// not read the directory above it has to rely on the system's own pace.
	_ = syncDir(filepath.Dir(dir))
	return &disk{dir, lock}, nil
}

func (d *disk) List() ([]entry, error) {
	names, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, err
	}
	var list []entry
	for _, n := range names {
		if info, err := n.Info(); err == nil && info.Mode().IsRegular() {
			list = append(list, entry{n.Name(), info.Size()})
		}
	}
	return list, nil
}

func (d *disk) Open(name string) (file, error) {
	return os.OpenFile(filepath.Join(d.dir, name), os.O_RDWR, 0)
}

func (d *disk) Create(name string) (file, error) {
	return os.OpenFile(filepath.Join(d.dir, name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
}

func (d *disk) Rename(from, to string) error {
	return os.Rename(filepath.Join(d.dir, from), filepath.Join(d.dir, to))
}

func (d *disk) Remove(name string) error { return os.Remove(filepath.Join(d.dir, name)) }
func (d *disk) Sync() error              { return syncDir(d.dir) }

// Close unlocks before it closes: a child that is being started has a copy of
// the file for a moment, and with it the lock.
func (d *disk) Close() error { return errors.Join(unlockFile(d.lock), d.lock.Close()) }
