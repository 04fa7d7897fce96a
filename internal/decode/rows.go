package decode

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gudang/internal/reading"
)

// Rows reads readings that do not come as messages: the rows of a table, or
// the objects of a JSON text. Each of them has a time of its own, which is
// believed however old it is, and is checked as a message is for all else. It
// is a tool for one goroutine.
type Rows struct {
	d      *Decoder
	sensor []byte // of rows that name none
	metric *field // of a value that nothing names
	cells  []cell
}

// RowsConfig is what reading rows depends on.
type RowsConfig struct {
	Zone   *time.Location        // of times without one; nil: UTC
	Ranges map[string][2]float64 // adds to and overrides the built-in table
	Sensor string                // of rows that name none; empty: such rows are refused
	Metric string                // of a value that nothing names; empty: "value"
}

// NewRows checks cfg and makes a reader of rows for it.
func NewRows(cfg RowsConfig) (*Rows, error) {
	names, err := newNames(cfg.Ranges)
	if err != nil {
		return nil, err
	}
	clock, err := newClock(cfg.Zone, 0, 0)
	if err != nil {
		return nil, err
	}
	r := &Rows{d: &Decoder{names: names, clock: clock}, sensor: []byte(cfg.Sensor)}
	if cfg.Metric == "" {
		cfg.Metric = valueMetric
	}
	if r.metric = names.getString(cfg.Metric); !r.metric.namesMetric() {
		return nil, rowError("metric", cfg.Metric, reading.InvalidMetric)
	}
	if cfg.Sensor != "" {
		if _, why := r.d.sensorID(r.sensor); why != "" {
			return nil, rowError("sensor", cfg.Sensor, why)
		}
	}
	return r, nil
}

// RowsResult is what rows became: readings, and what is wrong with the others.
type RowsResult struct {
	Readings []reading.Reading
	Faults   []Fault
	Empty    int // values that are not there, or a word such as "unavailable"
	Text     int // texts under names of no known metric, which may be anything
}

// Fault is why something in a row is no reading.
type Fault struct {
	Reason reading.Reason
	Detail string
}

// Column is what a column of a table is for.
type Column struct{ field *field }

// Use is what the column is for, in a word; "ignored": nothing.
func (c Column) Use() string {
	switch f := c.field; f.role {
	case roleSensor:
		return "sensor"
	case roleTime:
		return "time"
	case roleMetricID:
		return "metric"
	case roleUnit:
		return "unit"
	case roleValue:
		return "value"
	case roleMetric:
		if !f.invalid {
			return "readings of " + f.name
		}
	}
	return "ignored"
}

// Columns says what columns of these names are for. A table either has a value
// in each row, with a column that names the metric, or a column for each
// metric.
func (r *Rows) Columns(header []string) ([]Column, error) {
	columns := make([]Column, len(header))
	has := map[role]bool{}
	for i, name := range header {
		columns[i].field = r.d.names.getString(strings.TrimSpace(name))
		has[columns[i].field.role] = true
	}
	if !has[roleTime] {
		i := slices.IndexFunc(columns, func(c Column) bool { return c.field.timeLike })
		if i < 0 {
			return nil, headerError("no column of times among", header)
		}
		columns[i].field = r.d.names.getString(timeKeys[0])
	}
	metrics := slices.ContainsFunc(columns, func(c Column) bool { return c.field.role == roleMetric && !c.field.invalid })
	switch {
	case !has[roleSensor] && len(r.sensor) == 0:
		return nil, headerError("no column of sensors, and no -sensor for all, among", header)
	case !has[roleValue] && !metrics:
		return nil, headerError("no column of values among", header)
	}
	for i := range columns {
		// With a value in each row, what else is a number says something of it.
		if has[roleValue] && columns[i].field.role == roleMetric {
			columns[i].field = &field{}
		}
	}
	return columns, nil
}

// cell is a part of a row.
type cell struct {
	field *field
	kind  kind
	text  []byte
}

// Row reads a row of a table. It keeps nothing of the texts. A row may lack
// cells at its end.
func (r *Rows) Row(columns []Column, texts [][]byte, out *RowsResult) {
	if len(texts) > len(columns) {
		out.fault(reading.InvalidValue, "the row has more cells than the header")
		return
	}
	r.cells = r.cells[:0]
	for i, text := range texts {
		if !utf8.Valid(text) {
			out.fault(reading.InvalidUTF8, ReasonText(reading.InvalidUTF8))
			return
		}
		r.cells = append(r.cells, cell{columns[i].field, aString, trim(text)})
	}
	r.row(out)
}

// JSON reads a JSON text: an object that is a row, a list of these, or an
// object that holds such a list, as the API answers.
func (r *Rows) JSON(text []byte, out *RowsResult) {
	doc := &r.d.doc
	switch {
	case !utf8.Valid(text):
		out.fault(reading.InvalidUTF8, ReasonText(reading.InvalidUTF8))
	case !doc.parse(trim(text)):
		out.fault(doc.why, doc.detail)
	default:
		r.value(0, out)
	}
	doc.buf = nil
}

// value reads an object, or the objects of a list. Its recursion is bounded by
// MaxDepth.
func (r *Rows) value(at int32, out *RowsResult) {
	nodes := r.d.doc.nodes
	switch nodes[at].kind {
	case anArray:
		for i := at + 1; i < nodes[at].next; i = nodes[i].next {
			r.value(i, out)
		}
	case anObject:
		for i := at + 1; i < nodes[at].next; i = nodes[i].next {
			if f := r.d.names.get(r.d.doc.key(&nodes[i])); f.role == roleHolder && nodes[i].kind == anArray {
				r.value(i, out)
				return
			}
		}
		r.object(at, out)
	default:
		out.fault(reading.NoReading, "neither an object nor a list of objects")
	}
}

func (r *Rows) object(at int32, out *RowsResult) {
	nodes, doc := r.d.doc.nodes, &r.d.doc
	r.cells = r.cells[:0]
	long := false
	for i := at + 1; i < nodes[at].next; i = nodes[i].next {
		n := &nodes[i]
		f := r.d.names.get(doc.key(n))
		long = long || f.role == roleValue
		r.cells = append(r.cells, cell{f, n.kind, trim(doc.val(n))})
	}
	if long {
		r.cells = slices.DeleteFunc(r.cells, func(c cell) bool { return c.field.role == roleMetric })
	}
	r.row(out)
}

// row makes readings of the cells.
func (r *Rows) row(out *RowsResult) {
	sensor, why := r.d.sensorID(r.text(roleSensor, r.sensor))
	if why != "" {
		out.fault(why, ReasonText(why))
		return
	}
	when, wrong := r.time(r.text(roleTime, nil))
	if wrong != "" {
		out.fault(reading.InvalidValue, wrong)
		return
	}
	named := r.metric
	if name := r.text(roleMetricID, nil); len(name) > 0 {
		named = r.d.names.get(name)
	}
	unit := r.text(roleUnit, nil)
	values := 0
	for _, c := range r.cells {
		f := c.field
		switch {
		case f.role == roleValue:
			f = named
		case f.role != roleMetric || f.invalid:
			continue
		}
		values++
		if !f.namesMetric() {
			out.fault(reading.InvalidMetric, ReasonText(reading.InvalidMetric))
			continue
		}
		r.number(c, f, unit, reading.Reading{Series: reading.Series{Sensor: sensor, Metric: f.name}, Time: when}, out)
	}
	if values == 0 {
		out.fault(reading.NoReading, ReasonText(reading.NoReading))
	}
}

// namesMetric says whether readings can be stored under the field's name.
func (f *field) namesMetric() bool {
	return (f.role == roleMetric || f.role == roleValue) && !f.invalid
}

// text is what the best cell of that role says.
func (r *Rows) text(what role, otherwise []byte) []byte {
	best := -1
	for i, c := range r.cells {
		if c.field.role == what && (c.kind == aString || c.kind == aNumber) && len(c.text) > 0 && (best < 0 || c.field.rank < r.cells[best].field.rank) {
			best = i
		}
	}
	if best < 0 {
		return otherwise
	}
	return r.cells[best].text
}

// Times of a history lie in these years; others are slips.
var (
	firstTime = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	lastTime  = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
)

// time reads a time, or says what is wrong with it. Of a local time in the
// hour that comes twice the first is meant.
func (r *Rows) time(text []byte) (ms int64, wrong string) {
	if len(text) == 0 {
		return 0, "it has no time"
	}
	ms, ok := r.d.clock.parse(text, 0)
	switch {
	case !ok:
		return 0, "its time cannot be read"
	case ms < firstTime || ms >= lastTime:
		return 0, "its time is not of the years 1990 to 2099"
	}
	return ms, ""
}

// number adds the reading of a cell, or why it is none.
func (r *Rows) number(c cell, f *field, unit []byte, at reading.Reading, out *RowsResult) {
	v, why := 0.0, reading.Reason("")
	if c.field.role != roleValue && findUnit(f.unit, string(unit)) == nil {
		unit = nil // of something else in the row
	}
	switch c.kind {
	case aNull:
		out.Empty++
		return
	case aNumber, aString:
		if len(c.text) == 0 || c.kind == aString && isStatus(c.text) {
			out.Empty++
			return
		}
		if v, unit, why = measured(c.text, f, unit); why == reading.InvalidValue && !f.known && c.field.role == roleMetric {
			out.Text++
			return
		}
	case aNotFinite:
		why = reading.NotFinite
	default:
		why = reading.InvalidValue
	}
	if why == "" {
		v, _, why = r.d.canonical(f, unit, v)
	}
	if why != "" {
		out.fault(why, f.name+": "+ReasonText(why))
		return
	}
	at.Value = v
	out.Readings = append(out.Readings, at)
}

func (out *RowsResult) fault(why reading.Reason, detail string) {
	out.Faults = append(out.Faults, Fault{why, detail})
}

func rowError(what, name string, why reading.Reason) error {
	return fmt.Errorf("cannot use %q as the %s of a table: %s", name, what, ReasonText(why))
}

func headerError(what string, header []string) error {
	return fmt.Errorf("cannot read the table: there is %s %q", what, header)
}
