package bucketer

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"gudang/internal/reading"
)

// TestFillAgreesWithAModel has readings come in any order, some of them very
// late, and compares with what a map of everything would say. Each bucket gets a
// number of readings that no other has, so that an observation tells whose it is.
func TestFillAgreesWithAModel(t *testing.T) {
	const span, spans, names = 60_000, 90, 7
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		observed := map[int]int{}
		f := newFill(span, time.Minute, func(v float64) { observed[int(v)]++ })
		now := time.UnixMilli(1_780_000_000_000)
		numbers, want := map[reading.Key]int{}, map[int]int{}
		newest := map[reading.Series]int64{}
		start := now.UnixMilli() - now.UnixMilli()%span
		for range 3000 {
			s := reading.Series{Sensor: fmt.Sprint("s", rnd.IntN(names)), Metric: "t"}
			if rnd.IntN(3) == 0 {
				start += span * rnd.Int64N(3)
				now = time.UnixMilli(max(now.UnixMilli(), start+rnd.Int64N(span)))
			}
			key := reading.Key{Series: s, Start: start - span*rnd.Int64N(1+rnd.Int64N(spans))}
			place := f.touch(key, now)
			if _, known := numbers[key]; !known {
				numbers[key] = len(numbers) + 1
			}
			watched := want[numbers[key]] == 0 && observed[numbers[key]] == 0
			if remembered := newest[s]-key.Start <= memory*span; place == none && (watched || !remembered) {
				t.Fatalf("seed %d: bucket %d is not watched", seed, numbers[key])
			} else if place != none && !watched && remembered && f.buckets.at(place).pending == 1 && f.buckets.at(place).count == 0 {
				t.Fatalf("seed %d: bucket %d is watched again", seed, numbers[key])
			}
			newest[s] = max(newest[s], key.Start)
			stored := 0
			if watched {
				stored = numbers[key]
				want[numbers[key]] = 1
			}
			f.add(place, stored, now)
			if rnd.IntN(4) == 0 {
				now = now.Add(time.Duration(rnd.IntN(5000)) * time.Millisecond)
				f.sweep(now)
			}
		}
		for range 3 * memory {
			now = now.Add(time.Minute)
			f.sweep(now)
		}
		for n := range want {
			if observed[n] != 1 {
				t.Errorf("seed %d: bucket %d was observed %d times", seed, n, observed[n])
			}
		}
		if f.open() != 0 || f.series.len() != 0 || len(f.places) != 0 || len(f.due) != 0 {
			t.Errorf("seed %d: %d buckets, %d series and %d appointments are left", seed, f.open(), f.series.len(), len(f.due))
		}
	}
}

func BenchmarkFill(b *testing.B) {
	for _, series := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprintf("series=%d", series), func(b *testing.B) {
			names := make([]reading.Series, series)
			for i := range names {
				names[i] = reading.Series{Sensor: fmt.Sprintf("warehouse-1-sensor-%07d", i), Metric: "temperature"}
			}
			f := newFill(60_000, 10*time.Second, func(float64) {})
			now := time.UnixMilli(1_780_000_020_000)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%series == 0 {
					now = now.Add(time.Minute)
					f.sweep(now)
				}
				f.add(f.touch(reading.Key{Series: names[i%series], Start: now.UnixMilli()}, now), 1, now)
			}
		})
	}
}
