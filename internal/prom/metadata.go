package prom

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// engineVersion is the Prometheus whose engine this is. Clients choose by it what
// they ask for.
const engineVersion = "3.16.0"

// buildinfo answers what runs here.
func buildinfo(*http.Request) (result, error) {
	return result{encode: func(e *encoder) {
		e.raw(`{"version":"` + engineVersion + `","revision":"","branch":"","buildUser":"","buildDate":"","goVersion":`)
		e.buf = appendString(e.buf, runtime.Version())
		e.raw("}")
	}}, nil
}

// metadata answers what is known of each metric.
func (a *API) metadata(r *http.Request) (result, error) {
	limit, err := number(r, "limit")
	if err != nil {
		return result{}, err
	}
	if _, err := number(r, "limit_per_metric"); err != nil {
		return result{}, err // there is never more than one
	}
	metrics, err := a.metrics(r.Context())
	if err != nil {
		return result{}, err
	}
	var names []string
	for _, m := range metrics {
		names = append(names, m)
		if len(a.summaries) > 0 {
			for _, st := range statistics {
				names = append(names, m+":"+st.name)
			}
		}
	}
	if wanted := r.Form.Get("metric"); wanted != "" {
		names = slices.DeleteFunc(names, func(name string) bool { return name != wanted })
	}
	if limit >= 0 && len(names) > limit {
		names = names[:limit]
	}
	return result{encode: func(e *encoder) { a.encodeMetadata(e, names) }}, nil
}

// metrics are the names of the metrics that any sensor has, in order.
func (a *API) metrics(ctx context.Context) ([]string, error) {
	seen := make(map[string]bool)
	q := &querier{queryable: &queryable{api: a}}
	err := q.wholeFleet(ctx, func(s member) error {
		for _, m := range s.metrics {
			seen[m] = true
		}
		return nil
	})
	return sortedKeys(seen), err
}

func (a *API) encodeMetadata(e *encoder, names []string) {
	e.raw("{")
	for i, name := range names {
		if i > 0 {
			e.raw(",")
		}
		metric, statistic, _ := strings.Cut(name, ":")
		help, unit := "Readings of "+metric+".", a.unit(metric)
		for _, st := range statistics {
			if st.name == statistic {
				help = st.words + " of the readings of " + metric + " in each span."
			}
		}
		if statistic == "count" {
			unit = ""
		}
		e.buf = appendString(e.buf, name)
		e.raw(`:[{"type":"gauge","help":`)
		e.buf = appendString(e.buf, help)
		e.raw(`,"unit":`)
		e.buf = appendString(e.buf, unit)
		e.raw("}]")
		e.piece()
	}
	e.raw("}")
}

// number is a parameter that is an integer; -1 without it.
func number(r *http.Request, name string) (int, error) {
	text := r.Form.Get(name)
	if text == "" {
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, badData("%s must be a number", name)
	}
	return n, nil
}
