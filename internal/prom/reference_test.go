package prom_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gudang/internal/testenv"
)

// hostile is what a sensor may call itself.
const hostile = `ra"ck\3/é {x="y"}`

// example has what can go wrong: readings on steps and off them, gaps about as
// long as the look-back, series that start and end, an outlier, a counter.
func example() world {
	const hour = 3_600_000
	w := make(world)
	w.every("S-01", "temperature", 0, 2*hour, 10_000, wave(21, 4, 40))
	w.every("S-01", "humidity", 3, 2*hour, 30_000, wave(50, 20, 17))
	w.every(hostile, "temperature", 1234, 2*hour, 10_007, wave(-3, 8, 91))
	w.every("S-02", "temperature", hour/2, hour, 10_000, wave(30, 1, 7)) // starts and stops
	w.every("S-02", "humidity", hour/2+5000, hour, 10_000, wave(40, 1, 7))
	at := int64(20_000)
	for i, gap := range []int64{299_999, 300_000, 300_001, 10_000, 599_999, 600_001, 1, 59_999, 60_000, 240_000, 299_990, 310_000, 1200_000} {
		w.add("gaps", "temperature", at, float64(i)+0.5)
		at += gap
	}
	w.every("sparse", "temperature", 7000, 2*hour, 240_000, wave(0, 1e6, 3))
	w.every("fast", "temperature", hour+1, hour+50_000, 245, wave(10, 5, 33)) // an outlier
	w.every("fast", "temperature", hour+60_000, hour+120_000, 10_000, wave(10, 5, 33))
	for i, t := int64(0), int64(5000); t < 2*hour; i, t = i+1, t+15_000 {
		w.add("meter", "pulses_total", t, float64(i*3%500)) // resets now and then
	}
	w.every("meter", "temperature", 5000, 2*hour, 60_000, func(i int64) float64 { return float64(i) * 1e-9 })
	return w
}

// expressions are asked of both. Functions of a window that is open on the left
// are asked of a 2.x with the window a millisecond shorter: see inTwo.
var expressions = []string{
	// Selectors.
	`temperature`, `temperature{sensor="S-01"}`, `temperature{sensor=~"S-.*"}`, `temperature{sensor!="S-01"}`, `temperature{sensor!~"S-.*|gaps"}`,
	`temperature{sensor=~"S-01|S-02|nobody"}`, `temperature{sensor="nobody"}`, `{sensor="S-01"}`, `{__name__=~"temp.*",sensor="S-02"}`, `{sensor="S-02",span=""}`,
	`{__name__="humidity"}`, `temperature{span="1m"}`, `temperature{other=""}`, `temperature{other!=""}`, `{sensor="S-01",other=~".*"}`, `temperature{sensor=~".+e.+"}`,
	`temperature{sensor="ra\"ck\\3/é {x=\"y\"}"}`,
	// Summaries.
	`temperature:avg`, `temperature:max{sensor="S-01"} - temperature:min{sensor="S-01"}`, `{__name__=~"temperature:(min|max)",span="1m",sensor="fast"}`,
	`temperature:sum / temperature:count`, `sum_over_time(temperature:count[10m])`, `max_over_time(temperature:max{span="1m"}[30m])`, `{__name__=~".*:avg"}`, `temperature:avg{span="1h"}`,
	// Where in time.
	`temperature offset 5m`, `temperature offset -7m`, `temperature @ 1768006800`, `temperature @ start()`, `temperature @ end() offset 1m`,
	`max_over_time(temperature[10m] @ 1768006800)`, `temperature - temperature offset 10m`, `timestamp(temperature)`, `timestamp(temperature offset 2m)`, `time() - timestamp(temperature)`,
	// Aggregations.
	`sum(temperature)`, `avg(temperature)`, `min(temperature)`, `max by (sensor) ({__name__=~"temperature|humidity"})`, `count(temperature)`, `group by (sensor) (temperature)`,
	`stddev(temperature)`, `stdvar without (sensor) (temperature)`, `topk(2, temperature)`, `bottomk(1, temperature)`, `quantile(0.9, temperature)`, `count_values("v", round(temperature))`,
	// Windows.
	`avg_over_time(temperature[5m])`, `min_over_time(temperature[5m])`, `max_over_time(temperature[7m])`, `count_over_time(temperature[5m])`, `count_over_time(temperature[10s])`,
	`sum_over_time(temperature[1m])`, `last_over_time(temperature[20m])`, `stddev_over_time(temperature[5m])`, `stdvar_over_time(temperature[15m])`, `quantile_over_time(0.25, temperature[10m])`,
	`present_over_time(temperature[5m])`, `changes(temperature[10m])`, `resets(pulses_total[30m])`, `avg(avg_over_time(temperature[1h]))`, `max_over_time(temperature[5m] offset 3m)`,
	`absent(temperature{sensor="S-02"})`, `absent(temperature{sensor="nobody"})`, `absent_over_time(temperature{sensor="gaps"}[5m])`,
	// Subqueries.
	`max_over_time(temperature[10m:1m])`, `avg_over_time(sum(temperature)[20m:30s])`, `min_over_time((temperature > 20)[15m:])`, `max_over_time(avg_over_time(temperature[5m])[10m:2m])`,
	`avg_over_time(temperature[10m:7m] offset 1m)`, `max_over_time(max_over_time(temperature[10m:1m])[20m:5m])`, `count_over_time(temperature[30m:10m] @ 1768006800)`,
	// Operators.
	`temperature + on(sensor) humidity`, `temperature / ignoring(__name__) humidity`, `temperature > 21`, `temperature > bool 21`, `temperature and on(sensor) humidity`, `temperature unless humidity`,
	`temperature{sensor="S-01"} or temperature{sensor="S-02"} or humidity`, `temperature == temperature`, `-temperature ^ 2`, `temperature % 3`, `2 * temperature{sensor="S-01"} + 3`,
	`temperature * on(sensor) group_left humidity`, `clamp(temperature, 0, 20)`, `clamp_min(temperature, 5)`, `round(temperature, 0.5)`, `abs(temperature)`, `ceil(temperature)`, `sgn(temperature)`,
	`ln(temperature)`, `sqrt(temperature)`, `temperature / 0`, `exp(temperature{sensor="sparse"})`, `hour(temperature)`, `sort_desc(temperature)`, `label_replace(temperature, "n", "$1", "sensor", "S-(.*)")`,
	`label_join(temperature, "l", "-", "sensor", "__name__")`, `scalar(temperature{sensor="S-01"})`, `vector(1)`, `1 + 2`, `time()`, `temperature and on() hour() == 0`,
}

// extrapolated are functions that reckon with the length of the window, so that
// a shorter one gives something else. They are asked as they are, at times and
// with windows that no reading lies at the left end of: there 2.x and 3.x agree.
var extrapolated = []string{
	`rate(pulses_total[4m])`, `increase(pulses_total[6m])`, `delta(temperature{sensor="S-01"}[7m])`, `deriv(temperature{sensor="S-01"}[7m])`, `irate(pulses_total[6m])`, `idelta(pulses_total[6m])`,
	`predict_linear(temperature{sensor="S-01"}[10m], 600)`, `sum(rate(pulses_total[4m]))`, `sum(delta(temperature{sensor=~"S-0.|sparse"}[20m]))`,
}

// window is the length of a range or of a subquery.
var window = regexp.MustCompile(`\[(\d+[smh])`)

// inTwo is an expression for a Prometheus 2.x. There a window is closed on both
// sides; in 3.x, whose engine is here, it is open on the left. Times are whole
// milliseconds, so that a window that is one shorter is the same.
func inTwo(expression string) string {
	return window.ReplaceAllStringFunc(expression, func(s string) string {
		d, err := time.ParseDuration(s[1:])
		if err != nil {
			panic(err)
		}
		return fmt.Sprintf("[%dms", d.Milliseconds()-1)
	})
}

// times are a range and its steps, in ms after base. Without a step it is an
// instant.
type times struct{ start, end, step int64 }

// answer is what either says, in a form that can be compared.
type answer struct {
	status, errorType, resultType string
	series                        map[string]map[string]float64 // by labels, then time
}

// ask asks one of the two.
func ask(t testing.TB, base string, expression string, w times) answer {
	t.Helper()
	form := url.Values{"query": {expression}}
	endpoint := "/api/v1/query"
	if w.step > 0 {
		endpoint = "/api/v1/query_range"
		form.Set("start", seconds(w.start))
		form.Set("end", seconds(w.end))
		form.Set("step", fmt.Sprintf("%d.%03d", w.step/1000, w.step%1000))
	} else {
		form.Set("time", seconds(w.start))
	}
	resp, err := http.PostForm(base+endpoint, form)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var raw struct {
		Status, ErrorType string
		Data              struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&raw); err != nil {
		t.Fatalf("%s: status %d, and no JSON: %v", expression, resp.StatusCode, err)
	}
	a := answer{raw.Status, raw.ErrorType, raw.Data.ResultType, make(map[string]map[string]float64)}
	if raw.Status != "success" {
		return a
	}
	if strings.HasPrefix(string(raw.Data.Result), `[{`) {
		a.decodeSeries(t, raw.Data.Result)
	} else if string(raw.Data.Result) != "[]" {
		var sample [2]any
		if err := json.Unmarshal(raw.Data.Result, &sample); err != nil {
			t.Fatal(err)
		}
		a.add(t, "", sample)
	}
	return a
}

func (a *answer) decodeSeries(t testing.TB, raw json.RawMessage) {
	t.Helper()
	var all []struct {
		Metric map[string]string
		Value  *[2]any
		Values [][2]any
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		labels, _ := json.Marshal(one.Metric)
		if a.series[string(labels)] != nil {
			t.Errorf("the series %s comes twice", labels)
		}
		if one.Value != nil {
			one.Values = append(one.Values, *one.Value)
		}
		for _, v := range one.Values {
			a.add(t, string(labels), v)
		}
	}
}

func (a *answer) add(t testing.TB, labels string, sample [2]any) {
	t.Helper()
	v, err := strconv.ParseFloat(sample[1].(string), 64)
	if err != nil {
		t.Fatal(err)
	}
	if a.series[labels] == nil {
		a.series[labels] = make(map[string]float64)
	}
	a.series[labels][strconv.FormatFloat(sample[0].(float64), 'f', 3, 64)] = v
}

func seconds(ms int64) string { return fmt.Sprintf("%d.%03d", (base+ms)/1000, (base+ms)%1000) }

// difference says in words how two answers differ; nothing if they don't.
func (a answer) difference(b answer) string {
	if a.status != b.status || a.errorType != b.errorType || a.resultType != b.resultType {
		return fmt.Sprintf("%s %s %s, want %s %s %s", a.status, a.errorType, a.resultType, b.status, b.errorType, b.resultType)
	}
	for labels := range b.series {
		if a.series[labels] == nil {
			return "no series " + labels
		}
	}
	for labels, points := range a.series {
		want := b.series[labels]
		if want == nil {
			return "a series too many: " + labels
		}
		for at, v := range points {
			if w, ok := want[at]; !ok {
				return fmt.Sprintf("%s has a point too many at %s: %v", labels, at, v)
			} else if !near(v, w) {
				return fmt.Sprintf("%s at %s: %v, want %v", labels, at, v, w)
			}
		}
		if len(points) != len(want) {
			return fmt.Sprintf("%s has %d points, want %d", labels, len(points), len(want))
		}
	}
	return ""
}

// near compares to the last few bits, which depend on the order of adding.
func near(a, b float64) bool {
	if math.IsNaN(a) || math.IsNaN(b) || math.IsInf(a, 0) || math.IsInf(b, 0) {
		return a == b || math.IsNaN(a) && math.IsNaN(b)
	}
	return math.Abs(a-b) <= 1e-9*max(1e-3, math.Abs(a), math.Abs(b))
}

// compare asks both, and counts how many answers had points.
func compare(t *testing.T, ours, theirs string, expressions []string, translate func(string) string, ranges []times) {
	t.Helper()
	points := 0
	for _, expression := range expressions {
		found := 0
		for _, w := range ranges {
			want := ask(t, theirs, translate(expression), w)
			if d := ask(t, ours, expression, w).difference(want); d != "" {
				t.Errorf("%s over %+v: %s", expression, w, d)
			}
			for _, s := range want.series {
				found += len(s)
			}
		}
		if found == 0 && !slices.Contains(empty, expression) {
			t.Errorf("%s: no range has an answer, so nothing is compared", expression)
		}
		points += found
	}
	t.Logf("%d points of %d expressions over %d ranges are the same", points, len(expressions), len(ranges))
}

// empty are expressions that rightly have no answer.
var empty = []string{`temperature{sensor="nobody"}`, `temperature{span="1m"}`, `temperature{other!=""}`, `temperature:avg{span="1h"}`}

// lists are asked of both.
var lists = []string{
	"labels", "labels?match[]=temperature", "labels?match[]=%7Bspan=%221m%22%7D", "label/sensor/values", "label/__name__/values", "label/span/values", "label/sensor/values?match[]=humidity",
	"label/__name__/values?match[]=%7Bsensor=~%22S-.*%22%7D", "label/sensor/values?match[]=pulses_total&match[]=%7B__name__=~%22hum.*%22%7D", "series?match[]=temperature",
	"series?match[]=%7Bsensor=%22S-01%22%7D", "series?match[]=%7Bspan=~%22.%2B%22,sensor!~%22S.*%22%7D&match[]=humidity&match[]=temperature",
}

// listed is a list in order.
func listed(t *testing.T, base, list string) string {
	t.Helper()
	resp, err := http.Get(base + "/api/v1/" + list)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var raw struct{ Data []any }
	if err := json.NewDecoder(resp.Body).Decode(&raw); err != nil {
		t.Fatal(err)
	}
	var items []string
	for _, item := range raw.Data {
		text, _ := json.Marshal(item)
		items = append(items, string(text))
	}
	slices.Sort(items)
	return strings.Join(items, "\n")
}

func TestAnswersAreThoseOfPrometheus(t *testing.T) {
	t.Parallel()
	w := example()
	theirs := testenv.PrometheusHistory(t, w.openMetrics())
	ours := serve(t, api(w.sqlite(t)))
	compare(t, ours, theirs, expressions, inTwo, []times{
		{start: 3_600_000},
		{start: 1_820_003},
		{start: 7_500_000},
		{start: -60_000},
		{start: 0, end: 4_500_000, step: 60_000},              // on the edges of buckets
		{start: 13_007, end: 7_500_000, step: 427_000},        // longer than the look-back
		{start: 0, end: 7_800_000, step: 300_000},             // as long
		{start: 3_590_000, end: 3_720_000, step: 5000},        // shorter than the interval
		{start: -600_000, end: 9_000_000, step: 1_200_000},    // before and behind everything
		{start: 1_799_999, end: 3_900_000, step: 3600 * 1000}, // hardly any
	})
	for _, list := range lists {
		if have, want := listed(t, ours, list), listed(t, theirs, list); have != want || len(want) < 3 {
			t.Errorf("%s: %s, want %s", list, have, want)
		}
	}
	// About the gaps, second by second.
	compare(t, ours, theirs, []string{
		`temperature{sensor="gaps"}`, `temperature:count{sensor="gaps"}`, `count_over_time(temperature{sensor="gaps"}[5m])`, `absent(temperature{sensor="gaps"})`, `timestamp(temperature{sensor="gaps"})`,
	}, inTwo, []times{{start: 310_000, end: 1_000_000, step: 1001}, {start: 1_800_000, end: 3_000_000, step: 999}})
	identity := func(s string) string { return s }
	compare(t, ours, theirs, extrapolated, identity, []times{
		{start: 3_601_007}, {start: 1_000_111, end: 7_100_000, step: 60_000}, {start: 1_400_111, end: 7_600_000, step: 1_230_000},
	})
}

func TestAnswersOfMongoDBAreThoseOfPrometheus(t *testing.T) {
	t.Parallel()
	w := make(world)
	w.every("S-01", "temperature", 0, 900_000, 10_000, wave(21, 4, 40))
	w.every("S-02", "temperature", 1234, 400_000, 20_007, wave(-3, 8, 91))
	w.every("fast", "temperature", 300_000, 350_000, 245, wave(10, 5, 33))
	store, db := w.ferret(t)
	half := make(world)
	half.every("half", "temperature", 360_000, 420_000, 2000, wave(10, 5, 3))
	half.halfMigrated(t, db)
	for s, readings := range half {
		w[s] = readings
	}
	theirs, ours := testenv.PrometheusHistory(t, w.openMetrics()), serve(t, api(store))
	compare(t, ours, theirs, []string{
		`temperature`, `temperature{sensor=~"S.*"} offset 1m`, `max by (sensor) (temperature:max)`, `avg_over_time(temperature[3m])`, `max_over_time(temperature{sensor="fast"}[5m:1m])`, `absent(temperature{sensor="S-02"})`,
		`temperature{sensor="half"}`, `sum_over_time(temperature{sensor="half"}[1m])`,
	}, inTwo, []times{{start: 330_000}, {start: 389_999}, {start: 13_007, end: 1_300_000, step: 327_000}, {start: 330_000, end: 450_000, step: 30_000}})
}
