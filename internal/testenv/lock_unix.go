//go:build unix

package testenv

import (
	"os"
	"syscall"
)

// lockFile waits until this process alone holds the lock. It is the kernel
// that holds it, so a test that is killed leaves no lock behind.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
