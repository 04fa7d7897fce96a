package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
)

// memDir is a directory in memory that knows what a power cut would leave of
// it, and fails on demand.
type memDir struct {
	mu      sync.Mutex
	files   map[string]*memFile
	durable map[string]*memFile         // names as of the last sync
	pending []func(map[string]*memFile) // changes of names since
	fail    func(op, name string) error // nil: nothing fails
	left    int                         // operations until it dies; negative: it does not
	dead    bool
	syncs   int
}

// memFile is a file: what is read, and what would be there after a power cut.
type memFile struct {
	dir     *memDir
	name    string
	data    []byte
	durable []byte
	pending []change
}

// change is a write, or a truncation if b is nil.
type change struct {
	off int64
	b   []byte
}

var errDead = errors.New("no power")

func newMemDir() *memDir {
	return &memDir{files: map[string]*memFile{}, durable: map[string]*memFile{}, left: -1}
}

// step is called with mu held before each operation that changes something.
func (d *memDir) step(op, name string) error {
	if d.left >= 0 {
		if d.left--; d.left < 0 {
			d.dead = true
		}
	}
	if d.dead {
		return errDead
	}
	if d.fail != nil {
		return d.fail(op, name)
	}
	return nil
}

func (d *memDir) rename(change func(map[string]*memFile)) {
	change(d.files)
	d.pending = append(d.pending, change)
}

func (d *memDir) List() ([]entry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []entry
	for name, f := range d.files {
		list = append(list, entry{name, int64(len(f.data))})
	}
	slices.SortFunc(list, func(a, b entry) int { return compareStrings(a.name, b.name) })
	return list, nil
}

func compareStrings(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (d *memDir) Open(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		if err := d.fail("open", name); err != nil {
			return nil, err
		}
	}
	if f := d.files[name]; f != nil {
		return f, nil
	}
	return nil, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
}

func (d *memDir) Create(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step("create", name); err != nil {
		return nil, err
	}
	if f := d.files[name]; f != nil {
		f.apply(change{0, nil})
		return f, nil
	}
	f := &memFile{dir: d, name: name}
	d.rename(func(m map[string]*memFile) { m[name] = f })
	return f, nil
}

func (d *memDir) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step("rename", from); err != nil {
		return err
	}
	d.rename(func(m map[string]*memFile) {
		if m[from] != nil {
			m[to] = m[from]
			delete(m, from)
		}
	})
	return nil
}

func (d *memDir) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step("remove", name); err != nil {
		return err
	}
	d.rename(func(m map[string]*memFile) { delete(m, name) })
	return nil
}

func (d *memDir) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step("syncdir", ""); err != nil {
		return err
	}
	for _, c := range d.pending {
		c(d.durable)
	}
	d.pending = nil
	return nil
}

func (d *memDir) Close() error { return nil }

func (f *memFile) apply(c change) {
	f.data = c.on(f.data)
	f.pending = append(f.pending, c)
}

func (c change) on(data []byte) []byte {
	end := int(c.off) + len(c.b)
	if c.b == nil && end < len(data) {
		return data[:end:end]
	}
	if end > len(data) {
		data = append(data, make([]byte, end-len(data))...)
	}
	data = slices.Clone(data)
	copy(data[c.off:], c.b)
	return data
}

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	f.dir.mu.Lock()
	defer f.dir.mu.Unlock()
	if f.dir.fail != nil {
		if err := f.dir.fail("read", f.name); err != nil {
			return 0, err
		}
	}
	if off >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// errShort makes a write end in the middle.
var errShort = errors.New("short write")

func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	f.dir.mu.Lock()
	defer f.dir.mu.Unlock()
	if f.dir.dead {
		return 0, errDead
	}
	err := f.dir.step("write", f.name)
	if errors.Is(err, errShort) {
		b = b[:len(b)/2]
	}
	if err == nil || errors.Is(err, errDead) || errors.Is(err, errShort) {
		f.apply(change{off, slices.Clone(b)})
	}
	return len(b), err
}

func (f *memFile) Truncate(size int64) error {
	f.dir.mu.Lock()
	defer f.dir.mu.Unlock()
	if err := f.dir.step("truncate", f.name); err != nil {
		return err
	}
	f.apply(change{size, nil})
	return nil
}

// Sync makes the file durable. When it fails it does what kernels do: what was
// to be written is forgotten, can still be read, and no later sync writes it.
func (f *memFile) Sync() error {
	f.dir.mu.Lock()
	defer f.dir.mu.Unlock()
	f.dir.syncs++
	if err := f.dir.step("sync", f.name); err != nil {
		if !errors.Is(err, errDead) {
			f.pending = nil
		}
		return err
	}
	for _, c := range f.pending {
		f.durable = c.on(f.durable)
	}
	f.pending = nil
	return nil
}

func (f *memFile) Close() error { return nil }

// afterKill is the directory as the next process finds it when this one was
// killed and the machine goes on: all that was written is there.
func (d *memDir) afterKill() *memDir {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := newMemDir()
	for name, f := range d.files {
		copied := &memFile{dir: next, name: name, data: slices.Clone(f.data), durable: slices.Clone(f.data)}
		next.files[name], next.durable[name] = copied, copied
	}
	return next
}

// afterPowerCut is the directory as it may be found when power failed: what
// was synced, and of what was not, the changes of each file up to some byte.
func (d *memDir) afterPowerCut(rng *rand.Rand) *memDir {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := map[string]*memFile{}
	for name, f := range d.durable {
		names[name] = f
	}
	for _, c := range d.pending[:rng.IntN(len(d.pending)+1)] {
		c(names)
	}
	next := newMemDir()
	for name, f := range names {
		data := slices.Clone(f.durable)
		n := rng.IntN(len(f.pending) + 1)
		for _, c := range f.pending[:n] {
			data = c.on(data)
		}
		if n < len(f.pending) && len(f.pending[n].b) > 0 {
			c := f.pending[n]
			part := c.b[:rng.IntN(len(c.b))]
			switch rng.IntN(3) {
			case 0: // the size was written, the content was not
				c.b = append(slices.Clone(part), make([]byte, len(c.b)-len(part))...)
			case 1: // or was something else
				c.b = slices.Clone(c.b)
				for i := max(len(part), min(len(c.b), len(magic))); i < len(c.b); i++ {
					c.b[i] = byte(rng.Uint32())
				}
			default:
				c.b = part
			}
			data = c.on(data)
		}
		copied := &memFile{dir: next, name: name, data: data, durable: slices.Clone(data)}
		next.files[name], next.durable[name] = copied, copied
	}
	return next
}
