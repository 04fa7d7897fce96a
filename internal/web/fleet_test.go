package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gudang/internal/reading"
)

// warehouse is a Reader of sensors only, in order of id.
type warehouse struct {
	memory
	sensors []reading.Sensor
	asked   int
}

func (w *warehouse) Sensors(ctx context.Context, after string, limit int) ([]reading.Sensor, error) {
	w.asked++
	if err := w.ask(ctx); err != nil {
		return nil, err
	}
	i, found := slices.BinarySearchFunc(w.sensors, after, func(s reading.Sensor, id string) int { return strings.Compare(s.ID, id) })
	if found {
		i++
	}
	return w.sensors[i:min(len(w.sensors), i+limit)], nil
}

// newWarehouse has n sensors that have sent at one time or another before now.
func newWarehouse(n int, now time.Time) *warehouse {
	w := &warehouse{}
	for i := range n {
		last := now.Add(-time.Duration(i*37%n) * time.Second).UnixMilli()
		s := reading.Sensor{ID: fmt.Sprintf("S-%05d", i), FirstSeen: 1, LastSeen: last, Metrics: map[string][]reading.Point{}}
		for j, metric := range []string{"temperature", "humidity"} {
			for k := range int64(10) {
				s.Metrics[metric] = append(s.Metrics[metric], reading.Point{Time: last - k*10000, Value: float64((i*(j+7)+int(k))%1000) / 10})
			}
		}
		if i%100 == 7 {
			s.OutlierUntil = last + 1
		}
		w.sensors = append(w.sensors, s)
	}
	return w
}

func TestOrderableNumbersCompareAsTheirValues(t *testing.T) {
	values := []float64{math.Inf(-1), -1e290, -2, -1e-9, 0, 1e-300, 1, 1.5, 1e290, math.Inf(1)}
	for i, v := range values[1:] {
		if orderable(values[i]) >= orderable(v) {
			t.Errorf("%v is not before %v", values[i], v)
		}
	}
	if orderable(math.Copysign(0, -1)) != orderable(0) {
		t.Error("-0 is not 0")
	}
	if orderableInt(math.MinInt64) >= orderableInt(-1) || orderableInt(-1) >= orderableInt(0) {
		t.Error("times before 1970 are not before those after")
	}
}

// In every order, forwards and back again, each sensor is on one page.
func TestPagesOfTheFleetHaveEverySensorOnce(t *testing.T) {
	now := time.Now()
	w := newWarehouse(123, now)
	for i := range w.sensors { // some without a value, many with the same
		w.sensors[i].Metrics["level"] = []reading.Point{{Time: 1, Value: float64(i % 4)}}
		if i%5 == 0 {
			delete(w.sensors[i].Metrics, "level")
		}
	}
	snap, err := (&fleet{reader: w, most: maxFleet}).get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"id", "-id", "seen", "-seen", "metric.level", "-metric.level", "metric.nothing"} {
		t.Run(text, func(t *testing.T) {
			o, err := parseOrder(text)
			if err != nil || o.String() != text {
				t.Fatalf("parsed as %q, %v", o, err)
			}
			q := fleetQuery{order: o, limit: 10}
			var forwards []string
			for {
				p := snap.page(q)
				for _, r := range p.rows {
					forwards = append(forwards, r.id)
				}
				if p.next == nil {
					break
				}
				m, err := parseMark(p.next.token())
				if err != nil || m != *p.next {
					t.Fatalf("mark %v reads as %v, %v", p.next, m, err)
				}
				q.after = &m
			}
			if seen := slices.Compact(slices.Sorted(slices.Values(forwards))); len(seen) != 123 || len(forwards) != 123 {
				t.Fatalf("%d rows of %d sensors, want 123", len(forwards), len(seen))
			}
			if !slices.IsSortedFunc(forwards, func(a, b string) int {
				ra, rb := snap.row(a), snap.row(b)
				byName := strings.Compare(a, b)
				if o == (order{down: true}) {
					byName = -byName
				}
				return cmp.Or(cmp.Compare(o.key(ra), o.key(rb)), byName)
			}) {
				t.Error("not in order")
			}
			var back []string
			last := forwards[len(forwards)-1]
			q.before, q.after = &mark{o.key(snap.row(last)), last}, nil
			for q.before != nil {
				p := snap.page(q)
				for _, r := range slices.Backward(p.rows) {
					back = append(back, r.id)
				}
				q.before = p.prev
			}
			slices.Reverse(back)
			if !slices.Equal(back, forwards[:122]) {
				t.Errorf("backwards there are %d rows: %v", len(back), back)
			}
		})
	}
}

func TestTheFleetIsNarrowed(t *testing.T) {
	now := time.Now()
	c := config(newWarehouse(500, now))
	c.Page.StaleAfter = time.Minute + 500*time.Millisecond
	s := New(c)
	for target, want := range map[string]string{
		"/?q=s-0012":                         "S-00120 S-00121 S-00122 S-00123 S-00124 S-00125 S-00126 S-00127 S-00128 S-00129",
		"/?q=0499":                           "S-00499",
		"/?q=nothing":                        "",
		"/?state=outlier":                    "S-00007 S-00107 S-00207 S-00307 S-00407",
		"/?state=outlier&sort=-id":           "S-00407 S-00307 S-00207 S-00107 S-00007",
		"/?q=00&state=outlier&sort=id":       "S-00007 S-00107 S-00207 S-00307 S-00407",
		"/?q=2&state=outlier":                "S-00207",
		"/?state=silent&q=S-0000&sort=-seen": "S-00002 S-00003 S-00004 S-00005 S-00006 S-00007 S-00008 S-00009",
	} {
		body := page(t, s, target, http.StatusOK)
		var ids []string
		for _, m := range regexp.MustCompile(`<bdi>([^<]*)</bdi>`).FindAllStringSubmatch(body, -1) {
			ids = append(ids, m[1])
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
		if want == "" {
			has(t, body, "No sensor is like that.")
		}
	}
	has(t, page(t, s, "/", http.StatusOK), `>439 silent</a>`, `>5 outliers</a>`, `rel="next"`)
}

func TestTheFleetIsReadOnceForAllWhoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWarehouse(10, time.Now())
		release := make(chan struct{})
		w.before = func(context.Context) error { <-release; return nil }
		f := &fleet{reader: w, most: maxFleet}
		got := make(chan *snapshot, 20)
		for range cap(got) {
			go func() {
				snap, err := f.get(t.Context())
				if err != nil {
					t.Error(err)
				}
				got <- snap
			}()
		}
		synctest.Wait()
		if w.asked != 1 || len(got) != 0 {
			t.Fatalf("asked %d times, %d answers before the store's", w.asked, len(got))
		}
		close(release)
		first := <-got
		for range cap(got) - 1 {
			if snap := <-got; snap != first {
				t.Error("another snapshot")
			}
		}
		time.Sleep(fleetPeriod - time.Millisecond) // of the bubble
		if snap, _ := f.get(t.Context()); snap != first {
			t.Error("it is read again before its time")
		}
		time.Sleep(time.Millisecond)
		if snap, _ := f.get(t.Context()); snap != first {
			t.Error("a snapshot of two seconds is made to wait for")
		}
		synctest.Wait()
		if snap, _ := f.get(t.Context()); snap == first {
			t.Error("it is not read again")
		}
		time.Sleep(time.Hour)
		if snap, _ := f.get(t.Context()); time.Since(snap.at) > time.Second {
			t.Error("an old snapshot is shown without need")
		}
	})
}

func TestTheStopEndsAReadingUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWarehouse(10, time.Now())
		w.before = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		f := &fleet{reader: w, most: maxFleet}
		asked := make(chan error)
		go func() {
			_, err := f.get(t.Context())
			asked <- err
		}()
		synctest.Wait()
		begun := time.Now()
		f.close(stopTimeout)
		if took := time.Since(begun); took != 0 {
			t.Errorf("it took %v", took)
		}
		if err := <-asked; !errors.Is(err, context.Canceled) {
			t.Errorf("who waits is told %v", err)
		}
		if _, err := f.get(t.Context()); !errors.Is(err, errStopping) || w.asked != 1 {
			t.Errorf("after the stop: %v, asked %d times", err, w.asked)
		}
	})
}

func TestAFleetThatTakesLongIsReadSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWarehouse(10, time.Now())
		w.before = func(context.Context) error { time.Sleep(3 * time.Second); return nil }
		f := &fleet{reader: w, most: maxFleet}
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if _, err := f.get(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if w.asked > 10*60/30+1 || w.asked < 10 {
			t.Errorf("read %d times in ten minutes at three seconds each: that is too much of the store's time, or none", w.asked)
		}
	})
}

func TestTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWarehouse(3, time.Now())
		s := New(config(w, Check{"store", func(context.Context) error {
			if w.before != nil {
				return errors.New("store does not take <writes>")
			}
			return nil
		}}))
		has(t, page(t, s, "/", http.StatusOK), "S-00001", "All is well", "Takes writes")
		w.before = func(context.Context) error { return errors.New("secret") }
		time.Sleep(time.Minute)
		body := page(t, s, "/", http.StatusOK)
		has(t, body, "can&#39;t be read right now", "as it was 60 s ago", "S-00001", "1 problem", "Does not take &lt;writes&gt;")
		lacks(t, body, "secret", "All is well")
		fresh := New(config(w))
		body = page(t, fresh, "/", http.StatusOK)
		has(t, body, "can&#39;t be read right now", "The list will be here")
		lacks(t, body, "No sensor has sent anything yet")
	})
}

func TestAFreshInstallSaysWhatToDo(t *testing.T) {
	c := config(&memory{})
	c.Page.Hints = []Hint{{"A reading by hand", `mosquitto_pub -t x -m '{"temperature": 26.4}'`}}
	body := page(t, New(c), "/", http.StatusOK)
	has(t, body, "No sensor has sent anything yet", "A reading by hand", "mosquitto_pub -t x -m &#39;{&#34;temperature&#34;: 26.4}&#39;")
	lacks(t, body, "<form", "<table")
}

func TestAFleetBeyondTheBoundIsListedFromTheStore(t *testing.T) {
	now := time.Now()
	s := New(config(newWarehouse(300, now)))
	s.site.fleet.most = 120
	seen := map[string]bool{}
	target := "/"
	for n := 0; target != "" && n < 10; n++ {
		body := page(t, s, target, http.StatusOK)
		has(t, body, "over 120", "There are more than 120 sensors")
		for _, m := range regexp.MustCompile(`<bdi>([^<]*)</bdi>`).FindAllStringSubmatch(body, -1) {
			seen[m[1]] = true
		}
		target = ""
		if m := regexp.MustCompile(`href="([^"]*)#list" rel="next"`).FindStringSubmatch(body); m != nil {
			target = m[1]
		}
	}
	if len(seen) != 300 {
		t.Errorf("%d sensors on the pages, want 300", len(seen))
	}
	lacks(t, page(t, s, "/?q=S-002", http.StatusOK), "<bdi>")
}

func TestARowIsBounded(t *testing.T) {
	sensor := reading.Sensor{ID: "S", LastSeen: 1000, Metrics: map[string][]reading.Point{"silent": nil}}
	for i := range int64(reading.MaxMetrics) {
		points := make([]reading.Point, 1000)
		for j := range points {
			points[j] = reading.Point{Time: i*10 - int64(j), Value: 1}
		}
		sensor.Metrics[fmt.Sprintf("m%03d", i)] = points
	}
	r := newRow(&sensor, map[string]string{})
	if len(r.metrics) != maxRowMetrics || r.metrics[maxRowMetrics-1].name != "m255" || cap(r.metrics[0].points) > 2*maxRowPoints {
		t.Errorf("%d metrics, the last %s, of %d points", len(r.metrics), r.metrics[len(r.metrics)-1].name, cap(r.metrics[0].points))
	}
	again := newRow(&sensor, map[string]string{})
	if again.print != r.print {
		t.Error("the same sensor has two prints")
	}
	sensor.LastSeen++
	if newRow(&sensor, map[string]string{}).print == r.print {
		t.Error("news does not change the print")
	}
}

// A page costs what is on it, whatever the size of the fleet: the snapshot is
// made beside it.
func BenchmarkFleetPage(b *testing.B) {
	for _, n := range []int{100, 10000} {
		s := New(config(newWarehouse(n, time.Now())))
		for name, target := range map[string]string{
			"byID": "/", "byValue": "/?sort=-metric.temperature", "lastPage": "/?before=" + mark{0, "T"}.token(), "rareSearch": "/?q=00099", "noMatch": "/?q=xyz", "silent": "/?state=silent",
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				do(s, http.MethodGet, target)
				b.ReportAllocs()
				for b.Loop() {
					s.site.fleet.last.at = time.Now() // it is always fresh
					if w := do(s, http.MethodGet, target); w.Code != http.StatusOK {
						b.Fatal(w.Code)
					}
				}
			})
		}
	}
}

func BenchmarkFleetSnapshot(b *testing.B) {
	f := &fleet{reader: newWarehouse(10000, time.Now()), most: maxFleet}
	b.ReportAllocs()
	for b.Loop() {
		snap, err := f.read(b.Context())
		if err != nil || len(snap.rows) != 10000 {
			b.Fatal(err)
		}
		snap.order(order{by: byValue, metric: "temperature"})
	}
}
