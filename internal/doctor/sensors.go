package doctor

import (
	"fmt"
	"slices"
	"time"

	"gudang/internal/query"
	"gudang/internal/reading"
)

const (
	hour = 60 * 60 * 1000 // ms
	// missed is how many of its usual intervals a sensor is away before it is
	// silent; unknownAway is for how long one whose interval is not known.
	missed      = 10
	unknownAway = day
	// aheadSlack is for the clocks of those who ask.
	aheadSlack = time.Minute

	oftener = 1.5 // this many times the expected number of readings
	enough  = 3   // buckets, to tell what a sensor usually does
)

// sensors judges which sensors are away, and whose clock is wrong.
func (r *Report) sensors(in Input) {
	const check = "sensors"
	now := in.Now.UnixMilli()
	limit := now + (in.Settings.ClockAhead + aheadSlack).Milliseconds()
	newest := in.Store.Newest(limit)
	var ahead, behind, silent []string
	for _, s := range in.Store.Sensors {
		switch lag, constant := steady(s.Lags, in.Settings.Span); {
		case s.Last > limit:
			ahead = append(ahead, fmt.Sprintf("%q by %s", s.ID, ago(s.Last-now)))
		case constant && s.Last < newest-hour:
			behind = append(behind, fmt.Sprintf("%q by %s", s.ID, ago(lag)))
		case away(s, newest):
			silent = append(silent, fmt.Sprintf("%q since %s", s.ID, at(s.Last)))
		}
	}
	if len(ahead) > 0 {
		r.find(Warning, check, many(len(ahead), "sensor runs", "sensors run")+" ahead of the clock", some(ahead)+" (their newest reading lies in the future)", "set their clocks (NTP) or their time zone, and see CLOCK_AHEAD; what they send now is filed under times that are yet to come")
	}
	if len(behind) > 0 {
		r.find(Warning, check, many(len(behind), "sensor runs", "sensors run")+" behind the clock", some(behind)+" (their buckets were made beside those of so much later)", "set their clocks (NTP), or their time zone; TIMEZONE is for times without one")
	}
	if len(silent) > 0 {
		do := "look at their power, radio and credentials"
		if !in.Store.Server.Embedded {
			do += "; or their clocks are behind, which the store cannot tell from silence"
		}
		r.find(Warning, check, many(len(silent), "sensor is", "sensors are")+" silent", some(silent)+", while others went on", do)
	}
	if newest > 0 && newest < now-hour {
		r.find(Warning, check, fmt.Sprintf("nothing has come for %s", ago(now-newest)), "the newest reading of all is of "+at(newest), "see whether the service runs and whether the sensors reach the broker")
	}
	if len(ahead)+len(behind)+len(silent) == 0 && newest > 0 {
		r.fact(check, "all that were heard go on, the newest reading is of %s", at(newest))
	}
}

// away says whether a sensor has missed so many of its readings that it is
// silent.
func away(s query.Seen, newest int64) bool {
	after := int64(unknownAway)
	if s.Every > 0 {
		after = max(missed*s.Every, hour)
	}
	return s.Last < newest-after
}

// steady says that a sensor's newest buckets were all made as much later than
// their time: its clock is behind. Of one that is silent, or whose history was
// brought in later, the lags are none or differ.
func steady(lags []int64, span reading.Span) (lag int64, constant bool) {
	const few = 2
	if len(lags) < few {
		return 0, false
	}
	least, most := slices.Min(lags), slices.Max(lags)
	slack := 2*int64(span) + 10*60*1000
	return least, least > hour+slack/2 && most-least <= slack
}

// span checks that the newest buckets are of the span in force: if not, nothing
// that is counted in buckets means anything.
func (r *Report) span(in Input) bool {
	stored := int64(0)
	starts := map[int64]bool{}
	fullest := int64(0)
	for _, b := range in.Store.Recent {
		stored = gcd(stored, b.Key.Start)
		starts[b.Key.Start] = true
		fullest = max(fullest, b.Count)
	}
	want := int64(in.Settings.Span)
	shorter := stored%want != 0
	longer := stored > want && len(starts) >= 2*enough && float64(fullest) > oftener*in.Settings.expected()
	if !shorter && !longer {
		return true
	}
	r.find(Warning, "settings", "BUCKET_SPAN is not what the newest buckets were made with",
		fmt.Sprintf("it is %v, they begin at multiples of %v", in.Settings.Span.Duration(), time.Duration(stored)*time.Millisecond), "run the doctor with the settings of the service; a database keeps the span that it was begun with")
	return false
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return max(a, -a)
}

// pace looks for sensors that send oftener than expected, again and again.
func (r *Report) pace(in Input) {
	const check = "pace"
	type tally struct{ buckets, over, readings int64 }
	want := in.Settings.expected()
	series := map[reading.Series]*tally{}
	for _, b := range in.Store.Recent {
		if b.Key.Start+int64(in.Settings.Span) > in.Now.UnixMilli() {
			continue // it may still fill
		}
		t := series[b.Key.Series]
		if t == nil {
			t = &tally{}
			series[b.Key.Series] = t
		}
		t.buckets++
		t.readings += b.Count
		if float64(b.Count) > oftener*want {
			t.over++
		}
	}
	var fast []string
	for s, t := range series {
		if fill := float64(t.readings) / float64(t.buckets) / want; t.buckets >= enough && 3*t.over >= 2*t.buckets && fill > oftener {
			fast = append(fast, fmt.Sprintf("%q %s %.1f times", s.Sensor, s.Metric, fill))
		}
	}
	if len(fast) == 0 {
		return
	}
	slices.Sort(fast)
	do := "see whether that is meant: each reading is kept"
	if 2*len(fast) > len(series) {
		do = "it is most of the fleet: set READING_INTERVAL to what it sends, or the fill ratio says nothing"
	}
	r.find(Note, check, many(len(fast), "series has", "series have")+" more readings than expected, again and again",
		fmt.Sprintf("%s what READING_INTERVAL=%v says", some(fast), in.Settings.ReadingInterval), do)
}
