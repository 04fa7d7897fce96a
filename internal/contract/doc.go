// Package contract holds the tests that every store must pass: what is written
// through a sink.Store is what a query.Store answers. It has no code of its own.
package contract
