// Package doctor judges what was found of the settings, the brokers and the
// store: what is wrong, how bad that is, and what to do. It looks at nothing
// itself.
package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Level is how bad a finding is.
type Level int

// The levels, the worst first.
const (
	Serious Level = iota // readings are lost or soon will be, or every query suffers
	Warning              // to be mended in good time
	Note                 // to be known
)

// String is the level in a word.
func (l Level) String() string { return [...]string{"serious", "warning", "note"}[l] }

// MarshalText implements encoding.TextMarshaler.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Finding is something that is not as it should be.
type Finding struct {
	Level    Level  `json:"level"`
	Check    string `json:"check"`
	What     string `json:"what"`
	Evidence string `json:"evidence"`
	Do       string `json:"do"`
}

// Fact is something that was looked at and is as it is.
type Fact struct {
	Check string `json:"check"`
	Text  string `json:"text"`
}

// Report is what the doctor says.
type Report struct {
	Facts    []Fact    `json:"facts"`
	Findings []Finding `json:"findings"` // the worst first
	Sampled  []string  `json:"sampled"`  // what was not looked at as a whole
}

// OK says that nothing is serious.
func (r *Report) OK() bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Level == Serious })
}

func (r *Report) find(level Level, check, what, evidence, do string) {
	r.Findings = append(r.Findings, Finding{level, check, what, evidence, do})
}

func (r *Report) fact(check, format string, args ...any) {
	r.Facts = append(r.Facts, Fact{check, fmt.Sprintf(format, args...)})
}

// Judge goes through everything.
func Judge(in Input) Report {
	r := Report{Facts: []Fact{}, Findings: []Finding{}, Sampled: append([]string{}, in.Store.Sampled...)}
	r.settings(in.Settings)
	r.brokers(in)
	r.room(in)
	switch {
	case in.StoreErr != nil:
		r.find(Serious, "store", "the store cannot be looked at", in.StoreErr.Error(), "mend MONGODB_URI or DATA_DIR, or what is said of the server")
	case in.Store.Server.Name == "":
		r.fact("store", "nothing was stored yet")
	default:
		r.store(in)
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(a.Level, b.Level) })
	return r
}

// store goes through what is stored.
func (r *Report) store(in Input) {
	r.server(in)
	r.retention(in)
	r.plans(in.Store)
	r.documents(in)
	if r.span(in) {
		r.growth(in)
		r.pace(in)
	}
	r.sensors(in)
}

// ago is a length of time as people say it.
func ago(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int64(d.Hours()/24+0.5))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", int64(d.Hours()+0.5))
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d minutes", int64(d.Minutes()+0.5))
	default:
		return fmt.Sprintf("%d seconds", int64(d.Seconds()))
	}
}

// at is a time as it is told everywhere.
func at(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05Z") }

// some names the first few of the names, and how many there are beside.
func some(names []string) string {
	const few = 5
	text := ""
	for i, name := range names[:min(few, len(names))] {
		if i > 0 {
			text += ", "
		}
		text += name
	}
	if len(names) > few {
		text += fmt.Sprintf(" and %d more", len(names)-few)
	}
	return text
}

// many is a number with its noun.
func many(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
