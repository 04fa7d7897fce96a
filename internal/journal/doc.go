// Package journal is a write-ahead journal between the source and the
// bucketer. It makes messages durable on this machine's disk in groups,
// acknowledges them, and passes them on to be stored when it suits the store.
// So a message waits for one sync of a disk instead of for a flush, buckets
// can be written once instead of at every flush, and the store may be away for
// as long as there is disk. FORMAT.md says what is in the files.
//
// # Why it is our own
//
// What is wanted of a journal is little, but all of it: what was acknowledged
// is read back after any crash; a damaged part is noticed, costs itself and
// nothing more, and never the start; one sync for all that has gathered; the
// front goes when it is committed. Libraries were tried (a journal of twenty
// entries, cut, zeros appended, a bit flipped) and none does it:
//
//   - github.com/tidwall/wal v1.2.1 (2025, MIT, 5 modules, 1,000 lines) has no
//     checksums. A torn tail is "log corrupt" and refuses to open, 4 kB of zeros
//     behind the end are read as 4,096 empty entries, and a flipped bit is
//     not noticed.
//   - github.com/hashicorp/raft-wal v0.4.0 (2023, MPL-2.0, 17 modules with Raft
//     and BoltDB for its metadata) repairs a torn tail, but verifies nothing
//     else when it reads, and v0.4.0 can't go on after a failed write.
//   - github.com/cockroachdb/pebble/v2 v2.1.7 (2026, BSD-3, 31 modules, 150,000
//     lines, 15 MB more of program) is a database. Its log commits in groups and
//     recovers from a torn tail, but a bit flipped in the middle ended the
//     replay there without an error: ten of twenty entries were gone.
//   - go.etcd.io/bbolt v1.5.0 (2026, MIT, 2 modules) is a B+tree. It writes whole
//     pages, with two syncs a commit, to a file that never shrinks; it has no
//     checksums but for its two root pages.
//
// # Syncing
//
// A file that was extended needs its new size on disk, so fdatasync writes as
// much as fsync does; measured on ext4 they take the same time. Segments are
// not allocated ahead: writing zeros first is twice the wear for a memory card.
package journal
