package query

import "context"

// Measurer says what the store takes.
type Measurer interface {
	// Storage measures everything that is stored. It reads every bucket, at
	// the server where that can do it.
	Storage(ctx context.Context) (Storage, error)
}

// Storage is what the store takes. Sizes are those of BSON, whatever the store:
// so the two can be compared.
type Storage struct {
	Raw      Part `json:"raw"`
	Buckets  Part `json:"buckets"`
	Outliers Part `json:"outliers"` // the outlier buckets, and their readings in overflow
	// Apart is what the readings of buckets and outliers would take as raw
	// documents, one each.
	Apart Measure `json:"apart"`
	// By says who added up: the server, or this program.
	By string `json:"by"`

	Disk        *Disk        `json:"disk,omitempty"` // the embedded store's file
	Collections []Collection `json:"collections"`
}

// Part is one kind of documents and how many readings it has.
type Part struct {
	Measure
	Readings int64 `json:"readings"`
}

// Each is how many bytes a reading takes, 0 if there is none.
func (p Part) Each() float64 {
	if p.Readings == 0 {
		return 0
	}
	return float64(p.Bytes) / float64(p.Readings)
}

func (p Part) plus(o Part) Part {
	p.Documents += o.Documents
	p.Bytes += o.Bytes
	p.Readings += o.Readings
	return p
}

// Bucketed is what the readings take as they are kept: in buckets and outliers.
func (s *Storage) Bucketed() Part { return s.Buckets.plus(s.Outliers) }

// RawEach is what a reading takes as a raw document: as measured where there
// are any, as computed for the stored readings otherwise. Measured says which.
func (s *Storage) RawEach() (each float64, measured bool) {
	if s.Raw.Documents > 0 {
		return s.Raw.Each(), true
	}
	return Part{s.Apart, s.Apart.Documents}.Each(), false
}

// Saved is which part of the bytes of raw documents the buckets save.
func (s *Storage) Saved() float64 {
	each, _ := s.RawEach()
	return saved(s.Bucketed().Each(), each)
}

func saved(have, raw float64) float64 {
	if raw == 0 || have == 0 {
		return 0
	}
	return 1 - have/raw
}

// Disk is what the embedded store's file takes, and how much of that is free
// for what comes next.
type Disk struct {
	Bytes int64 `json:"bytes"`
	Free  int64 `json:"free"`
}

// Collection is one collection or table on the disk. Sizes are nil where they
// are not known.
type Collection struct {
	Name      string  `json:"name"`
	Documents int64   `json:"documents"`
	Disk      *int64  `json:"disk"`
	Indexes   []Index `json:"indexes"`
}

// Index is an index, and which of its fields in which order.
type Index struct {
	Name   string   `json:"name"`
	Fields []string `json:"fields"`
	Bytes  *int64   `json:"bytes"`
	// ExpireAfter is, in seconds, when MongoDB deletes by it; nil: it does not.
	ExpireAfter *int64 `json:"expireAfter,omitempty"`
}

// apart adds to the storage what so many readings would take on their own.
func (s *Storage) apart(readings, bytes int64) {
	s.Apart.Documents += readings
	s.Apart.Bytes += bytes
}

// bucket counts a stored bucket of the given size in.
func (s *Storage) bucket(b *Stored, size int64) {
	part := &s.Buckets
	if b.Outlier {
		part = &s.Outliers
	}
	part.Documents++
	part.Bytes += size
	part.Readings += b.Count
	s.apart(b.Count, b.Count*RawSize(b.Series))
}
