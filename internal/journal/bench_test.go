package journal

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"gudang/internal/reading"
)

// fleet is a batch of n messages, one from each of 10,000 sensors in random
// order, then again.
func fleet(n int, stamped bool) *reading.Batch {
	b := &reading.Batch{}
	for i := range n {
		id := uint64(i) * 0x9e3779b97f4a7c15 >> 40 % 10_000
		d := reading.Delivery{Readings: 1, QoS: 1, ID: uint16(i)}
		r := reading.Reading{
			Series: reading.Series{Sensor: fmt.Sprintf("warehouse-%02d/S-%05d", id%20, id), Metric: "temperature"},
			Time:   1_760_000_000_000 + int64(i)/10, Value: 20 + float64(id%100)/10,
		}
		if stamped {
			d.Hash, d.Stamp = id+1, r.Time
		}
		b.Deliveries = append(b.Deliveries, d)
		b.Readings = append(b.Readings, r)
	}
	return b
}

// nowhere is a directory that keeps only sizes: what is left is our own work.
type nowhere struct{ *memDir }

func (nowhere) Create(string) (file, error) { return &hole{}, nil }
func (nowhere) Open(string) (file, error)   { return &hole{}, nil }
func (nowhere) Remove(string) error         { return nil }
func (nowhere) Sync() error                 { return nil }

type hole struct{}

func (*hole) ReadAt([]byte, int64) (int, error)      { return 0, errDead }
func (*hole) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }
func (*hole) Truncate(int64) error                   { return nil }
func (*hole) Sync() error                            { return nil }
func (*hole) Close() error                           { return nil }

// benchCommit measures one batch's way through the journal, per reading.
func benchCommit(b *testing.B, j *Journal, n int, stamped bool) {
	ctx := context.Background()
	from := fleet(n, stamped)
	var batch, out reading.Batch
	bytes, rounds := 0, 0
	b.ReportAllocs()
	for b.Loop() {
		batch.Deliveries = append(batch.Deliveries[:0], from.Deliveries...)
		batch.Readings = append(batch.Readings[:0], from.Readings...)
		if err := j.commit(ctx, &batch); err != nil {
			b.Fatal(err)
		}
		bytes += len(j.enc.buf)
		for taken := 0; taken < n; taken += len(out.Deliveries) {
			j.Take(&out)
			j.Done(len(out.Deliveries))
		}
		rounds++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rounds*n), "ns/reading")
	b.ReportMetric(float64(bytes)/float64(rounds*n), "B/reading")
}

func BenchmarkCommit(b *testing.B) {
	for _, stamped := range []bool{false, true} {
		for _, n := range []int{1, 20, 1000, 10_000} {
			b.Run(fmt.Sprintf("memory/stamped=%v/messages=%d", stamped, n), func(b *testing.B) {
				j, err := open(Config{MaxBytes: 1 << 40, Log: slog.New(slog.DiscardHandler)}, limitsFor(1<<30), nowhere{newMemDir()}, newFeed(), prometheus.NewRegistry())
				if err != nil {
					b.Fatal(err)
				}
				benchCommit(b, j, n, stamped)
			})
		}
	}
	for _, n := range []int{1, 20, 1000, 10_000} {
		b.Run(fmt.Sprintf("disk/messages=%d", n), func(b *testing.B) {
			j := openDir(b, b.TempDir(), newFeed())
			benchCommit(b, j, n, false)
			if err := j.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkReplay(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("messages=%d", n), func(b *testing.B) {
			const total = 100_000
			dir := b.TempDir()
			j := openDir(b, dir, newFeed())
			from := fleet(total, false)
			var batch reading.Batch
			for i := 0; i < total; i += n {
				j.enc.buf = j.enc.buf[:0]
				batch.Deliveries = append(batch.Deliveries[:0], from.Deliveries[i:i+n]...)
				batch.Readings = append(batch.Readings[:0], from.Readings[i:i+n]...)
				j.lim.deliveries = -1 // all of it lies on disk only
				p, _ := j.encode(part{deliveries: batch.Deliveries, readings: batch.Readings})
				if err := j.append(); err != nil {
					b.Fatal(err)
				}
				j.handOn(&p)
			}
			at, offset := j.at, j.offset
			rounds := 0
			b.ReportAllocs()
			for b.Loop() {
				j.handed, j.at, j.offset = 1, at, offset
				for j.handed < j.appended {
					j.Take(&batch)
				}
				j.runs = j.runs[:0]
				rounds++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rounds*total), "ns/reading")
			if err := j.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkRun measures messages through a running journal on disk, of which
// so many may be unacknowledged: 20 is what Mosquitto sends at a time.
func BenchmarkRun(b *testing.B) {
	for _, inFlight := range []int{1, 20, 1000, 50_000} {
		b.Run(fmt.Sprintf("unacknowledged=%d", inFlight), func(b *testing.B) {
			up, reg := newFeed(), prometheus.NewRegistry()
			j, err := Open(Config{Dir: b.TempDir(), MaxBytes: 1 << 30, Log: slog.New(slog.DiscardHandler)}, up, reg)
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			ran := make(chan error, 1)
			go func() { ran <- j.Run(ctx) }()
			from := fleet(10_000, false)
			var out reading.Batch
			sent, taken := 0, 0
			drain := func() {
				<-j.Ready()
				j.Take(&out)
				taken += len(out.Deliveries)
				j.Done(len(out.Deliveries))
			}
			b.ReportAllocs()
			for b.Loop() {
				up.mu.Lock()
				full := sent-up.room >= inFlight
				if !full {
					i := sent % 10_000
					up.batch.Deliveries = append(up.batch.Deliveries, from.Deliveries[i])
					up.batch.Readings = append(up.batch.Readings, from.Readings[i])
					wake(up.ready)
				}
				up.mu.Unlock()
				if full {
					for was := taken; taken == was; {
						drain()
					}
				} else {
					sent++
				}
			}
			for taken < sent {
				drain()
			}
			b.ReportMetric(float64(sent)/b.Elapsed().Seconds(), "messages/s")
			b.ReportMetric(float64(sent)/float64(syncs(b, reg)), "messages/sync")
			cancel()
			<-ran
			if err := j.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// syncs is how many groups were synced.
func syncs(b *testing.B, reg *prometheus.Registry) uint64 {
	b.Helper()
	all, err := reg.Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range all {
		if m.GetName() == "gudang_journal_sync_duration_seconds" {
			return m.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	return 0
}
