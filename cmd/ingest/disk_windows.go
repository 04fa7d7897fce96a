package main

import "golang.org/x/sys/windows"

// freeIn is how many bytes are free for us on the disk that dir is on.
func freeIn(dir string) (int64, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
	return int64(free), err
}
