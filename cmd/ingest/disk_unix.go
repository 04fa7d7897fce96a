//go:build linux || darwin || freebsd

package main

import "golang.org/x/sys/unix"

// freeIn is how many bytes are free for us on the disk that dir is on.
func freeIn(dir string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil
}
