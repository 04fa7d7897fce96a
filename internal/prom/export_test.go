package prom

import "time"

// SetNow gives the API another clock.
func SetNow(a *API, now func() time.Time) { a.now = now }
