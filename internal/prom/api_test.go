package prom_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"gudang/internal/prom"
	"gudang/internal/query"
	"gudang/internal/reading"
)

// small has one sensor with a minute of readings, and one with a hostile name.
func small() world {
	w := make(world)
	w.every("S-01", "temperature", 0, 60_000, 10_000, wave(21, 0, 1))
	w.every("S-01", "humidity", 0, 60_000, 10_000, wave(40, 0, 1))
	w.add(hostile, "temperature", 90_500, 1e-7)
	return w
}

// do answers a request, whose target begins behind /api/v1.
func do(a *prom.API, method, target, body string) (*httptest.ResponseRecorder, error) {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	err := a.Serve(w, r)
	return w, err
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	a := api(small().sqlite(t))
	at := "time=" + seconds(60_000)
	q := url.QueryEscape
	hostileJSON := `ra\"ck\\3/é {x=\"y\"}`
	for name, tt := range map[string]struct {
		target string
		status int
		want   string
	}{
		"an instant":            {"/query?query=temperature&" + at, 200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"temperature","sensor":"S-01"},"value":[1768003260,"21"]}]}}`},
		"a number":              {"/query?query=1%2F3&" + at, 200, `{"status":"success","data":{"resultType":"scalar","result":[1768003260,"0.3333333333333333"]}}`},
		"no number":             {"/query?query=0%2F0&" + at, 200, `{"status":"success","data":{"resultType":"scalar","result":[1768003260,"NaN"]}}`},
		"infinity":              {"/query?query=-1%2F0&time=1.5", 200, `{"status":"success","data":{"resultType":"scalar","result":[1.500,"-Inf"]}}`},
		"before 1970":           {"/query?query=1e-7&time=-1.005", 200, `{"status":"success","data":{"resultType":"scalar","result":[-1.005,"1e-07"]}}`},
		"a text":                {"/query?query=" + q(`"<é>"`) + "&time=0", 200, `{"status":"success","data":{"resultType":"string","result":[0,"\u003cé\u003e"]}}`},
		"a hostile name":        {"/query?query=" + q(`temperature`) + "&time=" + seconds(90_500), 200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"temperature","sensor":"S-01"},"value":[1768003290.500,"21"]},{"metric":{"__name__":"temperature","sensor":"` + hostileJSON + `"},"value":[1768003290.500,"1e-07"]}]}}`},
		"a range":               {"/query_range?query=temperature&start=" + seconds(50_000) + "&end=2026-01-10T00:06:00Z&step=155", 200, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"temperature","sensor":"S-01"},"values":[[1768003250,"21"],[1768003405,"21"]]},{"metric":{"__name__":"temperature","sensor":"` + hostileJSON + `"},"values":[[1768003405,"1e-07"],[1768003560,"1e-07"]]}]}}`},
		"a window":              {"/query?query=" + q(`humidity[25s]`) + "&" + at, 200, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"humidity","sensor":"S-01"},"values":[[1768003240,"40"],[1768003250,"40"]]}]}}`},
		"a longer look back":    {"/query?query=temperature%7Bsensor%3D%22S-01%22%7D&lookback_delta=1h&time=" + seconds(3_600_000), 200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"temperature","sensor":"S-01"},"value":[1768006800,"21"]}]}}`},
		"a limit":               {"/query?limit=1&query=temperature&time=" + seconds(90_500), 200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"temperature","sensor":"S-01"},"value":[1768003290.500,"21"]}]},"warnings":["results truncated due to limit"]}`},
		"an info":               {"/query?query=" + q(`rate(temperature{sensor="S-01"}[1m])`) + "&" + at, 200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"sensor":"S-01"},"value":[1768003260,"0"]}]},"infos":["PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: \"temperature\" (1:6)"]}`},
		"labels":                {"/labels", 200, `{"status":"success","data":["__name__","sensor","span"]}`},
		"labels of readings":    {"/labels?match%5B%5D=temperature", 200, `{"status":"success","data":["__name__","sensor"]}`},
		"sensors":               {"/label/sensor/values", 200, `{"status":"success","data":["S-01","` + hostileJSON + `"]}`},
		"sensors of a metric":   {"/label/sensor/values?match%5B%5D=humidity", 200, `{"status":"success","data":["S-01"]}`},
		"sensors of that time":  {"/label/sensor/values?start=" + seconds(70_000), 200, `{"status":"success","data":["` + hostileJSON + `"]}`},
		"names":                 {"/label/__name__/values?match%5B%5D=%7Bsensor%3D%22S-01%22%2Cspan%3D%22%22%7D", 200, `{"status":"success","data":["humidity","temperature"]}`},
		"spans":                 {"/label/span/values", 200, `{"status":"success","data":["1m"]}`},
		"an escaped label":      {"/label/U__sensor/values?limit=1", 200, `{"status":"success","data":["S-01"],"warnings":["results truncated due to limit"]}`},
		"an unknown label":      {"/label/job/values", 200, `{"status":"success","data":[]}`},
		"series":                {"/series?match%5B%5D=humidity&match%5B%5D=%7B__name__%3D~%22humidity%3Am.*%22%7D&match%5B%5D=humidity", 200, `{"status":"success","data":[{"__name__":"humidity","sensor":"S-01"},{"__name__":"humidity:max","sensor":"S-01","span":"1m"},{"__name__":"humidity:min","sensor":"S-01","span":"1m"}]}`},
		"series of no sensor":   {"/series?match%5B%5D=humidity%7Bsensor%3D%22nobody%22%7D", 200, `{"status":"success","data":[]}`},
		"no series of a time":   {"/series?match%5B%5D=humidity&end=0", 200, `{"status":"success","data":[]}`},
		"metadata":              {"/metadata?metric=temperature:count", 200, `{"status":"success","data":{"temperature:count":[{"type":"gauge","help":"Number of the readings of temperature in each span.","unit":""}]}}`},
		"metadata of two":       {"/metadata?limit=0", 200, `{"status":"success","data":{}}`},
		"not a query":           {"/query?query=foo(", 400, `{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\": 1:5: parse error: unclosed left parenthesis"}`},
		"no query":              {"/query", 400, `{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\": unknown position: parse error: no expression found in input"}`},
		"not a time":            {"/query?query=1&time=now", 400, `{"status":"error","errorType":"bad_data","error":"invalid parameter \"time\": cannot parse \"now\" to a valid timestamp"}`},
		"no start":              {"/query_range?query=1&end=1&step=1", 400, `{"status":"error","errorType":"bad_data","error":"invalid parameter \"start\": cannot parse \"\" to a valid timestamp"}`},
		"no step":               {"/query_range?query=1&start=0&end=1", 400, `{"status":"error","errorType":"bad_data","error":"invalid parameter \"step\": cannot parse \"\" to a valid duration"}`},
		"a step of nothing":     {"/query_range?query=1&start=0&end=1&step=0", 400, `{"status":"error","errorType":"bad_data","error":"invalid parameter \"step\": zero or negative query resolution step widths are not accepted. Try a positive integer"}`},
		"the end first":         {"/query_range?query=1&start=1&end=0&step=1", 400, `{"status":"error","errorType":"bad_data","error":"invalid parameter \"end\": end timestamp must not be before start time"}`},
		"too many points":       {"/query_range?query=1&start=0&end=11001&step=1", 400, `{"status":"error","errorType":"bad_data","error":"exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)"}`},
		"not a limit":           {"/labels?limit=-1", 400, `{"status":"error","errorType":"bad_data","error":"invalid parameter \"limit\": limit must be non-negative"}`},
		"no match":              {"/series", 400, `{"status":"error","errorType":"bad_data","error":"no match[] parameter provided"}`},
		"a match of everything": {"/series?match%5B%5D=%7Bsensor%3D~%22.*%22%7D", 400, `{"status":"error","errorType":"bad_data","error":"invalid parameter \"match[]\": match[] must contain at least one non-empty matcher"}`},
		"not a label":           {"/label/%FF/values", 400, `{"status":"error","errorType":"bad_data","error":"invalid label name: \"\\xff\""}`},
		"nested":                {"/query?query=" + strings.Repeat("(", 1400) + "1" + strings.Repeat(")", 1400) + "&time=1", 200, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`},
		"nested too deep":       {"/query?query=" + strings.Repeat("(", 30_000) + "1" + strings.Repeat(")", 30_000), 400, `{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\": the expression has more than 3000 words and signs"}`},
		"a long chain":          {"/query?query=" + strings.Repeat("1-", 30_000) + "1", 400, `{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\": the expression has more than 3000 words and signs"}`},
		"a long text":           {"/query?query=" + q("absent(temperature{sensor=~\""+strings.Repeat("S-0123|", 5000)+"\"})*0") + "&time=1", 200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"0"]}]}}`},
		"two of one":            {"/query?query=" + q(`temperature + on() humidity`) + "&" + at, 200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1768003260,"61"]}]}}`},
		"not one to one":        {"/query?query=" + q(`temperature + on() humidity`) + "&time=" + seconds(90_500), 422, `{"status":"error","errorType":"execution","error":"multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"}`},
		"samples beyond memory": {"/query?query=" + q(`vector(1)[58d:1s]`) + "&time=1e9", 422, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}`},
		"out of time":           {"/query?timeout=1ms&query=" + q(`count_over_time(vector(1)[40d:1s])`) + "&time=1e9", 503, `{"status":"error","errorType":"timeout","error":"query timed out in …`},
		"something else":        {"/rules", 404, `{"status":"error","errorType":"not_found","error":"there is nothing here: docs/promql.md says what there is"}`},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := do(a, http.MethodGet, tt.target, "")
			want, open := strings.CutSuffix(tt.want, "…")
			same := w.Body.String() == want || open && strings.HasPrefix(w.Body.String(), want)
			if err != nil || w.Code != tt.status || !same {
				t.Errorf("GET %s: %d %v\n%s\nwant %d\n%s", tt.target, w.Code, err, w.Body, tt.status, tt.want)
			}
			if !json.Valid(w.Body.Bytes()) {
				t.Error("the answer is no JSON")
			}
			path, form, _ := strings.Cut(tt.target, "?")
			if p, err := do(a, http.MethodPost, path, form); err != nil || p.Code != w.Code || p.Body.String() != w.Body.String() && !open {
				t.Errorf("POST answers %d %v: %s", p.Code, err, p.Body)
			}
		})
	}
}

func TestWithoutATimeItIsNow(t *testing.T) {
	t.Parallel()
	a := api(small().sqlite(t))
	w, err := do(a, http.MethodGet, "/query?query=time()-"+fmt.Sprint(base/1000), "")
	if err != nil || !strings.Contains(w.Body.String(), `"scalar"`) || strings.Contains(w.Body.String(), `"-`) {
		t.Errorf("%v: %s", err, w.Body)
	}
}

// broken is a store that fails or waits.
type broken struct {
	query.Store
	before func(ctx context.Context) error
}

func (b *broken) NewestAt(ctx context.Context, s reading.Series, from, at int64) (reading.Stretch, error) {
	if err := b.before(ctx); err != nil {
		return reading.Stretch{}, err
	}
	return b.Store.NewestAt(ctx, s, from, at)
}

func (b *broken) Sensors(ctx context.Context, after string, limit int) ([]reading.Sensor, error) {
	if err := b.before(ctx); err != nil {
		return nil, err
	}
	return b.Store.Sensors(ctx, after, limit)
}

func TestWhatAStoreSaysIsNotForTheClient(t *testing.T) {
	t.Parallel()
	secret := errors.New("cannot reach mongodb://root:secret@db")
	a := api(&broken{small().sqlite(t), func(context.Context) error { return secret }})
	for _, target := range []string{
		"/query?query=temperature", "/query?query=temperature%7Bsensor%3D%22S-01%22%7D&time=" + seconds(60_000), "/labels", "/series?match%5B%5D=temperature", "/label/sensor/values", "/metadata",
	} {
		if w, err := do(a, http.MethodGet, target, ""); !errors.Is(err, secret) || w.Body.Len() > 0 {
			t.Errorf("%s: error %v, body %q", target, err, w.Body)
		}
	}
}

// crowd lists more sensors than there are.
type crowd struct {
	query.Store
	sensors int
}

func (c *crowd) Sensors(_ context.Context, after string, limit int) (page []reading.Sensor, _ error) {
	next := 0
	fmt.Sscanf(after, "S-%d", &next)
	for i := next + 1; i <= c.sensors && len(page) < limit; i++ {
		page = append(page, reading.Sensor{ID: fmt.Sprintf("S-%07d", i), FirstSeen: base, LastSeen: base, Metrics: map[string][]reading.Point{"temperature": nil, "x": nil}})
	}
	return page, nil
}

func TestTheSeriesOfAQueryAreBounded(t *testing.T) {
	t.Parallel()
	a := api(&crowd{small().sqlite(t), 9000})
	for _, tt := range []struct {
		target string
		status int
		want   string
	}{
		{"/series?limit=2&match%5B%5D=x", 200, `"sensor":"S-0000002"}],"warnings":["results truncated due to limit"]}`},
		{"/label/sensor/values", 200, `"S-0009000"]}`},
		{"/series?" + strings.Repeat("match%5B%5D=x&", 12), 422, "more than 100000 series"},
		{"/query?query=count(%7B__name__%3D~%22.%2B%22%7D)", 422, "more than 100000 series"},
	} {
		if w, err := do(a, http.MethodGet, tt.target, ""); err != nil || w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%.60s: %d %v %.300s", tt.target, w.Code, err, w.Body)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	if err := a.Serve(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/label/sensor/values", nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("a list that is given up: error %v, body %.60s", err, w.Body)
	}
}

func TestAQueryThatIsGivenUpStopsReading(t *testing.T) {
	t.Parallel()
	w := make(world)
	w.every("S-01", "temperature", 0, 3_600_000, 10_000, wave(21, 4, 40))
	ctx, cancel := context.WithCancel(t.Context())
	reads := 0
	a := api(&broken{w.sqlite(t), func(ctx context.Context) error {
		if reads++; reads == 3 {
			cancel()
		}
		return ctx.Err()
	}})
	form := url.Values{"query": {`temperature{sensor="S-01"}`}, "start": {seconds(0)}, "end": {seconds(3_600_000)}, "step": {"360"}}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/query_range?"+form.Encode(), nil)
	rec := httptest.NewRecorder()
	if err := a.Serve(rec, r); !errors.Is(err, context.Canceled) || rec.Body.Len() > 0 {
		t.Errorf("error %v, body %q", err, rec.Body)
	}
	if reads != 3 {
		t.Errorf("the store is read %d times, want 3", reads)
	}
}

func TestQueriesAtOnceDoNotMix(t *testing.T) {
	t.Parallel()
	w := make(world)
	for i := range 8 {
		w.every(fmt.Sprintf("S-%d", i), "temperature", 0, 600_000, 10_000, wave(float64(i), 0, 1))
	}
	a := api(w.sqlite(t))
	var group sync.WaitGroup
	for i := range 24 {
		group.Go(func() {
			want := fmt.Sprintf(`"%d"],`, i%8)
			form := url.Values{"query": {fmt.Sprintf(`max by (sensor) (max_over_time(temperature{sensor=~"S-%d|x"}[3m]))`, i%8)}, "start": {seconds(60_000)}, "end": {seconds(600_000)}, "step": {"10"}}
			rec, err := do(a, http.MethodPost, "/query_range", form.Encode())
			if got := strings.Count(rec.Body.String(), want); err != nil || got != 54 {
				t.Errorf("%d points of %s, error %v: %.200s", got, want, err, rec.Body)
			}
		})
	}
	group.Wait()
}

// TestTheVersionIsTheEngines reads it where it is decided.
func TestTheVersionIsTheEngines(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(string(mod), "github.com/prometheus/prometheus v0.3")
	version, _, _ = strings.Cut(version, "\n")
	w, err := do(api(small().sqlite(t)), http.MethodGet, "/status/buildinfo", "")
	if err != nil || !strings.Contains(w.Body.String(), `"version":"3.`+version+`"`) {
		t.Errorf("%v: %s, but the engine's version is 3.%s", err, w.Body, version)
	}
}

func FuzzParameters(f *testing.F) {
	a := api(small().sqlite(f))
	for _, seed := range []string{
		"query=temperature&start=0&end=1&step=1", "query=temperature[5m]&time=1e18&limit=1", "time=-1e300&query=1", "lookback_delta=1e9&timeout=NaN", "match[]={a=~\"(\"}&limit=99999999999",
		"start=9223372036854775807&end=-9223372036854775808&step=0x1p-2", "query=%ff%00&time=2026-01-10T00:00:00Z", "query=temperature @ 1e300 offset 100000000d", "query=max_over_time(temperature[1d:1h] @ end())&time=Inf",
		"start=-292273086-05-16T16:47:06Z&end=%2b292277025-08-18T07:12:54.999999999Z", "query={sensor=\"\\xff\"}",
	} {
		for _, path := range []string{"/query", "/query_range", "/series", "/labels", "/label/sensor/values", "/metadata"} {
			f.Add(path, seed)
		}
	}
	f.Fuzz(func(t *testing.T, path, form string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
		r.URL.Path, r.URL.RawQuery = path, form+"&timeout=500ms"
		w := httptest.NewRecorder()
		if err := a.Serve(w, r); err != nil {
			t.Fatalf("the store is said to fail: %v", err)
		}
		if w.Code == http.StatusInternalServerError || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%d: %q", w.Code, w.Body)
		}
	})
}
