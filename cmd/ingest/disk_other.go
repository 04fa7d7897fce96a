//go:build !linux && !darwin && !freebsd && !windows

package main

import "errors"

// freeIn is how many bytes are free on the disk that dir is on: there is no one
// way to ask that everywhere.
func freeIn(string) (int64, error) { return 0, errors.ErrUnsupported }
