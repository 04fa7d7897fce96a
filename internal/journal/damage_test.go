package journal

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"gudang/internal/reading"
)

// filled is a directory with a journal of n messages, of which nothing is
// committed, as a kill leaves it.
func filled(t *testing.T, n int) *memDir {
	t.Helper()
	dir := newMemDir()
	w := newWorld(t, dir).open().run()
	for i := range n {
		w.feed.put(i)
		if i%3 == 2 {
			synctest.Wait()
		}
	}
	synctest.Wait()
	w.crash()
	return dir.afterKill()
}

// segmentsOf are the names of the segments in dir, in order.
func segmentsOf(dir *memDir) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(dir.files)) {
		if _, ok := parseName(name); ok {
			names = append(names, name)
		}
	}
	return names
}

// groupsOf are the offsets of the groups of a segment, and their numbers.
func groupsOf(t *testing.T, f *memFile) (offsets []int64, heads []header) {
	t.Helper()
	j := &Journal{}
	s := &segment{file: f, size: int64(len(f.data))}
	off := int64(0)
	j.scan(s, func(h header, body []byte) {
		offsets, heads = append(offsets, off), append(heads, h)
		off += headerSize + int64(len(body))
	})
	return offsets, heads
}

// after is what a journal on dir replays, and the world it did it in. It must
// also go on: what comes then is stored, too.
func after(t *testing.T, dir *memDir) ([]int, *world) {
	t.Helper()
	w := newWorld(t, dir).open().run()
	replayed, _ := w.drain()
	w.feed.put(9_999)
	more, _ := w.drain()
	if !slices.Equal(more, []int{9_999}) {
		t.Fatalf("what came after the replay was handed on as %v", more)
	}
	w.crash()
	if again := newWorld(t, dir.afterKill()).open(); again.j.handed != again.j.appended {
		t.Fatalf("%d messages are replayed again", again.j.appended-again.j.handed)
	}
	return replayed, w
}

// One flipped bit, anywhere, costs at most the group that it is in, and that
// is in the log. Nothing is made up, nothing is refused.
func TestAnyFlippedBitCostsOneGroup(t *testing.T) {
	const n = 24
	synctest.Test(t, func(t *testing.T) {
		whole := filled(t, n)
		names := segmentsOf(whole)
		if len(names) < 2 {
			t.Fatalf("segments %v: the test needs two", names)
		}
		for _, name := range append(names, checkpointName) {
			f := whole.files[name]
			for bit := range 8 * len(f.data) {
				dir := whole.afterKill()
				dir.files[name].data[bit/8] ^= 1 << (bit % 8)
				what := fmt.Sprintf("%s: bit %d of byte %d", name, bit%8, bit/8)
				got, w := after(t, dir)
				lost := lostOf(t, what, got, upTo(n))
				wantLost := 0
				if name != checkpointName {
					offsets, heads := groupsOf(t, f)
					i, _ := slices.BinarySearch(offsets, int64(bit/8)+1)
					wantLost = int(heads[i-1].count)
				}
				if len(lost) != wantLost {
					t.Fatalf("%s: lost %v, want %d messages\n%s", what, lost, wantLost, w.log)
				}
				if said := strings.Contains(w.log.String(), "level=ERROR") || strings.Contains(w.log.String(), "level=WARN"); !said {
					t.Fatalf("%s: it is not in the log", what)
				}
			}
		}
	})
}

// lostOf are the messages of want that are not in got, which may have no other.
func lostOf(t *testing.T, what string, got, want []int) (lost []int) {
	t.Helper()
	for _, n := range want {
		if len(got) > 0 && got[0] == n {
			got = got[1:]
		} else {
			lost = append(lost, n)
		}
	}
	if len(got) > 0 {
		t.Fatalf("%s: %v came and should not, or not there", what, got)
	}
	return lost
}

func TestAnyCutOfTheEndLosesOnlyWhatIsCutOff(t *testing.T) {
	const n = 24
	synctest.Test(t, func(t *testing.T) {
		whole := filled(t, n)
		names := segmentsOf(whole)
		for i, name := range names {
			f := whole.files[name]
			offsets, heads := groupsOf(t, f)
			for size := range len(f.data) {
				dir := whole.afterKill()
				cut := dir.files[name]
				cut.data = cut.data[:size]
				got, w := after(t, dir)
				lost := lostOf(t, fmt.Sprintf("%s cut to %d", name, size), got, upTo(n))
				want := 0
				for k, h := range heads {
					if int64(size) < offsets[k]+headerSize+int64(h.length) {
						want += int(h.count)
					}
				}
				if len(lost) != want {
					t.Fatalf("%s cut to %d: lost %v, want %d messages", name, size, lost, want)
				}
				// At the very end it was a write that nobody was told of, as
				// far as can be known; elsewhere it is damage.
				if damaged := w.damaged() > 0; damaged != (i < len(names)-1) {
					t.Fatalf("%s cut to %d: damaged %v\n%s", name, size, damaged, w.log)
				}
			}
		}
	})
}

func TestWhatIsWrongWithTheFilesIsReportedAndTheRestUsed(t *testing.T) {
	const n = 60
	last := func(names []string) string { return names[len(names)-1] }
	for _, c := range []struct {
		name  string
		harm  func(dir *memDir, names []string)
		lost  bool   // messages
		kept  bool   // a file for inspection
		count int    // gudang_journal_damaged_total
		log   string // has this
	}{
		{
			"nothing is wrong", func(*memDir, []string) {}, false, false, 0, "not stored before the last stop",
		},
		{
			"a segment in the middle is missing", func(d *memDir, names []string) { delete(d.files, names[1]) },
			true, false, 1, "journal has lost messages",
		},
		{
			"the first segment is missing", func(d *memDir, names []string) { delete(d.files, names[0]) },
			true, false, 1, "journal has lost messages",
		},
		{
			"a segment in the middle is empty", func(d *memDir, names []string) { d.files[names[1]].data = nil },
			true, false, 1, "journal has lost messages",
		},
		{
			"the last segment is empty", func(d *memDir, names []string) { d.files[last(names)].data = nil },
			true, false, 0, "not stored before the last stop",
		},
		{
			"zeros follow the last group", func(d *memDir, names []string) {
				f := d.files[last(names)]
				f.data = append(f.data, make([]byte, 5000)...)
			}, false, false, 0, "bytes=5000",
		},
		{
			"garbage follows the last group", func(d *memDir, names []string) {
				f := d.files[last(names)]
				f.data = append(f.data, strings.Repeat(magic+"garbage", 300)...)
			}, false, false, 0, "unfinished write",
		},
		{
			"a segment is of another program", func(d *memDir, names []string) {
				d.files[names[1]].data = []byte(strings.Repeat("hello ", 50_000))
			}, true, true, 2, "journal is damaged",
		},
		{
			"the last segment is of another program", func(d *memDir, names []string) {
				d.files[segmentName(1<<40)] = &memFile{dir: d, data: []byte("hello")}
			}, false, true, 1, "is not the journal's",
		},
		{
			"the last segment is of a later version", func(d *memDir, names []string) {
				d.files[segmentName(1<<40)] = &memFile{dir: d, data: []byte("\xffGJ\x02 and what follows")}
			}, false, true, 1, "later version",
		},
		{
			"a file has another name", func(d *memDir, names []string) { d.files["README"] = &memFile{dir: d} },
			false, false, 0, "leaving it alone",
		},
		{
			"a segment can't be opened", func(d *memDir, names []string) {
				d.fail = func(op, name string) error {
					if op == "open" && name == names[1] {
						return syscall.EACCES
					}
					return nil
				}
			}, true, true, 2, "cannot open a file",
		},
		{
			"a segment can't be read", func(d *memDir, names []string) {
				d.fail = func(op, name string) error {
					if op == "read" && name == names[1] {
						return syscall.EIO
					}
					return nil
				}
			}, true, true, 2, syscall.EIO.Error(),
		},
		{
			"the checkpoint is torn", func(d *memDir, names []string) {
				f := d.files[checkpointName]
				f.data = f.data[:5]
			}, false, false, 0, "checkpoint is damaged",
		},
		{
			"the checkpoint is gone", func(d *memDir, names []string) { delete(d.files, checkpointName) },
			false, false, 0, "not stored before the last stop",
		},
		{
			"the checkpoint is of another journal", func(d *memDir, names []string) {
				j := &Journal{dir: d}
				delete(d.files, checkpointName)
				j.checkpoint(nil, 1<<50)
			}, false, false, 1, "ends before its checkpoint",
		},
		{
			"one segment ends and the next begins with damage", func(d *memDir, names []string) {
				f, g := d.files[names[0]], d.files[names[1]]
				f.data[len(f.data)-1] ^= 1
				g.data[0] ^= 1
			}, true, true, 3, "journal is damaged",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := filled(t, n)
				names := segmentsOf(dir)
				c.harm(dir, names)
				got, w := after(t, dir)
				if lost := lostOf(t, c.name, got, upTo(n)); (len(lost) > 0) != c.lost || len(lost) > n/2 {
					t.Errorf("lost %v", lost)
				}
				if count := int(w.damaged()); count != c.count {
					t.Errorf("counted %d, want %d\n%s", count, c.count, w.log)
				}
				if !strings.Contains(w.log.String(), c.log) {
					t.Errorf("the log does not say %q:\n%s", c.log, w.log)
				}
				kept := slices.ContainsFunc(slices.Collect(maps.Keys(dir.files)), func(name string) bool { return strings.HasPrefix(name, keptPrefix) })
				if kept != c.kept {
					t.Errorf("a file is kept: %v, want %v (%v)", kept, c.kept, slices.Sorted(maps.Keys(dir.files)))
				}
			})
		})
	}
}

func TestAnUnfinishedWriteIsCutOffOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 10)
		names := segmentsOf(dir)
		f := dir.files[names[len(names)-1]]
		size := len(f.data)
		f.data = append(f.data, f.data[:headerSize+5]...)
		for i, want := range []bool{true, false} {
			w := newWorld(t, dir).open()
			if said := strings.Contains(w.log.String(), "unfinished write"); said != want {
				t.Errorf("start %d: said %v, want %v", i, said, want)
			}
			if len(f.durable) != size && i > 0 {
				t.Errorf("start %d: %d bytes are durable, want %d", i, len(f.durable), size)
			}
		}
	})
}

func TestAKeptFileThatIsPutBackIsReplayed(t *testing.T) {
	const n = 60
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, n)
		name := segmentsOf(dir)[1]
		dir.fail = func(op, file string) error {
			if op == "open" && file == name {
				return syscall.EACCES
			}
			return nil
		}
		first, _ := after(t, dir)
		dir = dir.afterKill()
		dir.files[name] = dir.files[keptName(name)]
		delete(dir.files, checkpointName)
		second, _ := after(t, dir)
		for _, n := range upTo(n) {
			if !slices.Contains(first, n) && !slices.Contains(second, n) {
				t.Errorf("message %d did not come", n)
			}
		}
	})
}

func TestDamagedFilesDoNotFillTheDisk(t *testing.T) {
	dir := newMemDir()
	w := newWorld(t, dir).open()
	for i := range 2 * maxKept {
		name := segmentName(uint64(i))
		dir.files[name] = &memFile{dir: dir}
		w.j.setAside(name)
	}
	if len(dir.files) != maxKept+1 { // and the checkpoint
		t.Errorf("%d files are kept, want %d", len(dir.files)-1, maxKept)
	}
}

func TestADirectoryThatCanNotBeListedIsAnError(t *testing.T) {
	_, err := open(Config{}, small, noList{newMemDir()}, nil, prometheus.NewRegistry())
	if !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v", err)
	}
}

type noList struct{ *memDir }

func (noList) List() ([]entry, error) { return nil, syscall.EIO }

// someBodies are bodies of groups as they are written.
func someBodies() (bodies [][]byte, counts []uint32) {
	e := newEncoder()
	for _, n := range []int{1, 2, 20, 300} {
		e.buf = e.buf[:0]
		e.begin(1)
		for i := range n {
			d := reading.Delivery{ID: uint16(i), Hash: uint64(i % 2), Stamp: int64(i) - 5}
			rs := readingsOf(i)
			if i%10 == 9 {
				rs = append(rs, reading.Reading{Series: reading.Series{Sensor: strings.Repeat("é", i), Metric: ""}, Time: math.MinInt64, Value: math.NaN()})
			}
			e.add(&d, rs)
		}
		e.finish()
		bodies, counts = append(bodies, slices.Clone(e.buf[headerSize:])), append(counts, e.count)
	}
	return bodies, counts
}

// Whatever a body is, it is refused, or it is the same messages when they are
// written again.
func FuzzDecode(f *testing.F) {
	bodies, counts := someBodies()
	for i := range bodies {
		f.Add(bodies[i], counts[i])
	}
	f.Fuzz(func(t *testing.T, body []byte, count uint32) {
		var d decoder
		var b, again reading.Batch
		var stamps, stampsAgain []Stamp
		if err := d.decode(body, count, 0, &b, func(s Stamp) { stamps = append(stamps, s) }); err != nil {
			if len(b.Deliveries)+len(b.Readings) > 0 {
				t.Fatal("a body that was refused left something")
			}
			return
		}
		if len(b.Deliveries) != int(count) {
			t.Fatalf("%d messages, want %d", len(b.Deliveries), count)
		}
		e := newEncoder()
		e.begin(1)
		next := 0
		for i := range b.Deliveries {
			n := b.Deliveries[i].Readings
			e.add(&b.Deliveries[i], b.Readings[next:next+n])
			next += n
		}
		e.finish()
		if err := d.decode(e.buf[headerSize:], count, 0, &again, func(s Stamp) { stampsAgain = append(stampsAgain, s) }); err != nil {
			t.Fatal(err)
		}
		same := func(a, b reading.Reading) bool {
			return a.Series == b.Series && a.Time == b.Time && math.Float64bits(a.Value) == math.Float64bits(b.Value)
		}
		if !slices.EqualFunc(b.Readings, again.Readings, same) || !slices.Equal(b.Deliveries, again.Deliveries) || len(stampsAgain) > 0 {
			t.Fatal("written again it is not the same")
		}
	})
}

// Whatever a segment is, the journal opens, ends its replay and goes on.
func FuzzSegment(f *testing.F) {
	e := newEncoder()
	e.begin(1)
	e.add(&reading.Delivery{Hash: 3}, readingsOf(1))
	e.finish()
	e.begin(2)
	e.add(&reading.Delivery{}, readingsOf(2))
	e.finish()
	f.Add(e.buf, false)
	f.Add(append(slices.Clone(e.buf), e.buf...), true)
	f.Add([]byte(magic+magic+magic), false)
	f.Fuzz(func(t *testing.T, content []byte, middle bool) {
		dir := newMemDir()
		dir.files[segmentName(1)] = &memFile{dir: dir, name: segmentName(1), data: content}
		if middle {
			dir.files[segmentName(3)] = &memFile{dir: dir, name: segmentName(3), data: slices.Clone(e.buf)}
		}
		w := newWorld(t, dir).open()
		var b reading.Batch
		for range len(content) + 3 {
			w.j.Take(&b)
			w.j.Done(len(b.Deliveries))
		}
		if w.j.handed != w.j.appended {
			t.Fatalf("%d messages are left", w.j.appended-w.j.handed)
		}
	})
}
