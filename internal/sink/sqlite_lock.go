package sink

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// dirLock keeps a second writer out of the directory. The kernel holds it, so
// a process that is killed leaves none behind. SQLite's own locks would not
// do: they end with each transaction, and two services would take turns.
type dirLock struct{ file *os.File }

const lockName = "gudang.lock"

func lockDir(dir string) (*dirLock, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		holder := "another process"
		if text, readErr := os.ReadFile(path); readErr == nil && len(text) > 0 {
			holder = "process " + strings.TrimSpace(string(text))
		}
		return nil, fmt.Errorf("%s is writing there (%w): give each service a directory of its own", holder, joinClose(err, f))
	}
	// The number is for people: nothing depends on it.
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, joinClose(err, f)
	}
	return &dirLock{f}, nil
}

// release ends the lock. The file stays: were it removed, two processes could
// hold locks on two files of that name. Closing the file would not do: a child
// that is being started has a copy of it for a moment, and with it the lock.
func (l *dirLock) release() error { return errors.Join(unlockFile(l.file), l.file.Close()) }

func joinClose(err error, f *os.File) error {
	if closeErr := f.Close(); closeErr != nil {
		return fmt.Errorf("%w, and %w", err, closeErr)
	}
	return err
}
