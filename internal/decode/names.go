package decode

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gudang/internal/reading"
)

// MaxMetric is the longest metric name in bytes.
const MaxMetric = 128

// field is what a key of a payload, or a level of a topic, means.
type field struct {
	role     role
	rank     uint8 // among keys of the same meaning, the lowest counts
	known    bool  // a metric of the table, or one of its kind such as soil_temperature
	timeLike bool  // "t": a time where that makes more sense than a temperature
	invalid  bool  // no metric name can be made of it
	name     string
	kind     string // of a known metric: that of the table whose kind it is
	key      string // as it was sent
	unit     string // canonical
	declared *Unit  // what the key itself says of the unit
	lo, hi   float64
}

type role uint8

const (
	roleNone   role = iota // of no meaning here
	roleMetric             // its number is a reading
	roleValue              // likewise, of a metric that is named elsewhere
	roleSensor
	roleTime
	roleUnit     // the unit of what stands beside it
	roleUnitOf   // the unit of one kind of metric, such as Tasmota's TempUnit
	roleMetricID // names the metric of the value beside it
	roleHolder
)

// Ranks of the keys of a metric, when one object has several: its own name
// comes before an alias, and that before a key of a unit to be converted.
const (
	rankName = iota
	rankAlias
	rankConverted
)

// names knows what keys mean. It remembers the answers, bounded, since a fleet
// uses the same few for ever.
type names struct {
	table  map[string]field // by squashed key; shared by clones, never written
	ranges map[string][2]float64
	cache  map[string]*field
}

const cachedNames = 4096

func newNames(ranges map[string][2]float64) (*names, error) {
	n := &names{table: make(map[string]field), ranges: make(map[string][2]float64), cache: make(map[string]*field)}
	n.addRole(roleNone, otherKeys)
	n.addRole(roleHolder, holderKeys)
	n.addRole(roleMetricID, metricKeys)
	n.addRole(roleUnit, unitKeys)
	n.addRole(roleValue, valueKeys)
	n.addRole(roleTime, timeKeys)
	n.addRole(roleSensor, sensorKeys)
	for _, m := range known {
		for _, a := range m.Aliases {
			f := field{role: roleMetric, rank: rankAlias, known: true, name: m.Name, kind: m.Name, unit: m.Unit, lo: m.Min, hi: m.Max, timeLike: a.Key == "t"}
			if a.Key == m.Name {
				f.rank = rankName
			}
			if f.declare(a.Unit); a.Unit != "" && f.declared == nil {
				return nil, fmt.Errorf("BUG: alias %q has unknown unit %q", a.Key, a.Unit)
			}
			n.table[squash(a.Key)] = f
		}
	}
	for key, r := range ranges {
		f := n.classify(key)
		if f.role != roleMetric && f.role != roleValue || f.invalid || f.rank == rankConverted {
			return nil, fmt.Errorf("cannot set the range of metric %q: not the name of a metric", key)
		}
		if !(r[0] < r[1] && math.Abs(r[0]) <= reading.MaxValue && math.Abs(r[1]) <= reading.MaxValue) {
			return nil, fmt.Errorf("cannot set the range of metric %q: %v to %v is no range", key, r[0], r[1])
		}
		n.ranges[f.name] = r
	}
	return n, nil
}

func (n *names) clone() *names {
	return &names{table: n.table, ranges: n.ranges, cache: make(map[string]*field)}
}

func (n *names) addRole(r role, keys []string) {
	for i, k := range keys {
		n.table[squash(k)] = field{role: r, rank: uint8(i), name: valueMetric}
	}
}

// valueMetric is the metric of a number that nothing names.
const valueMetric = "value"

// get says what a key means. For a key that it has met it allocates nothing.
func (n *names) get(key []byte) *field {
	if f, ok := n.cache[string(key)]; ok {
		return f
	}
	return n.learn(string(key))
}

// getString is get for a part of a larger string, which it does not keep.
func (n *names) getString(key string) *field {
	if f, ok := n.cache[key]; ok {
		return f
	}
	return n.learn(strings.Clone(key))
}

func (n *names) learn(key string) *field {
	f := n.classify(key)
	f.key = key
	if f.role == roleMetric || f.role == roleValue {
		if f.role == roleValue || !f.known {
			f.lo, f.hi = -reading.MaxValue, reading.MaxValue
		}
		if r, ok := n.ranges[f.name]; ok {
			f.lo, f.hi = r[0], r[1]
		}
	}
	if len(n.cache) >= cachedNames {
		clear(n.cache)
	}
	if len(key) <= 2*MaxMetric {
		n.cache[key] = &f
	}
	return &f
}

func (n *names) classify(key string) field {
	// $ begins the operators of MongoDB and the metadata of some senders.
	if key == "" || key[0] == '$' {
		return field{}
	}
	if key == "V" { // "v" is a value
		key = "voltage"
	}
	if len(key) > 2*MaxMetric {
		return field{role: roleMetric, invalid: true, name: key[:utf8Cut(key, MaxMetric)]}
	}
	squashed := squash(key)
	if f, ok := n.table[squashed]; ok {
		return f
	}
	name := snake(key)
	if f, ok := n.unitOf(name); ok {
		return f
	}
	if f, ok := n.suffixed(name); ok {
		return f
	}
	if f, ok := n.kindOf(name); ok {
		return f
	}
	if f, ok := n.ofChip(name); ok {
		return f
	}
	if name == "" || len(name) > MaxMetric {
		return field{role: roleMetric, invalid: true, name: key[:utf8Cut(key, MaxMetric)]}
	}
	return field{role: roleMetric, name: name}
}

// unitOf finds keys that declare the unit of one kind of metric: temp_unit.
func (n *names) unitOf(name string) (field, bool) {
	for _, end := range []string{"_units", "_unit", "units", "unit"} {
		if base, ok := strings.CutSuffix(name, end); ok {
			f, ok := n.table[squash(base)]
			if ok && f.role == roleMetric && f.unit != "" {
				return field{role: roleUnitOf, unit: f.unit}, true
			}
		}
	}
	return field{}, false
}

// suffixed finds keys that end in their unit: temp_f, pressure_kpa. A unit of
// two words is one with a capital in it: pressure_hPa is pressure_h_pa.
func (n *names) suffixed(name string) (field, bool) {
	last := strings.LastIndexByte(name, '_')
	if last < 0 {
		return field{}, false
	}
	if i := strings.LastIndexByte(name[:last], '_'); i >= 0 {
		if f, ok := n.ofUnit(name[:i], name[i+1:last]+name[last+1:]); ok {
			return f, true
		}
	}
	return n.ofUnit(name[:last], name[last+1:])
}

// ofUnit is the field of that name whose values come in that unit.
func (n *names) ofUnit(base, unit string) (field, bool) {
	f, ok := n.table[squash(base)]
	if !ok {
		f, ok = n.kindOf(base)
	}
	if !ok || f.role != roleMetric || f.unit == "" || f.declared != nil {
		return field{}, false
	}
	if f.declare(unit); f.declared == nil {
		return field{}, false
	}
	f.timeLike = false
	return f, true
}

// kindOf finds metrics of a known kind: soil_temperature, temp_2, temp2. They
// are metrics of their own, of that kind's unit and range.
func (n *names) kindOf(name string) (field, bool) {
	words := strings.Split(name, "_")
	last := len(words) - 1
	if base := strings.TrimRight(words[last], "0123456789"); base == "" && last > 0 {
		last--
	} else if _, ok := n.table[words[last]]; !ok && base != words[last] {
		words = append(words[:last], base, words[last][len(base):])
	}
	f, ok := n.table[words[last]]
	if !ok || f.role != roleMetric || f.unit == "" || len(words[last]) < 3 || f.declared != nil {
		return field{}, false
	}
	if f.name == "humidity" && last > 0 && slices.Contains(notRelative, words[last-1]) {
		return field{}, false
	}
	words[last] = f.name
	f.name = strings.Join(words, "_")
	if len(f.name) > MaxMetric {
		return field{}, false
	}
	return f, true
}

// rename gives a known field another name, and the range that is configured for
// that.
func (n *names) rename(f *field, name string) {
	f.name = name
	if r, ok := n.ranges[name]; ok {
		f.lo, f.hi = r[0], r[1]
	}
}

// notRelative are the humidities that are no percentages, but grams.
var notRelative = []string{"absolute", "abs", "a", "specific"}

// declare notes that values of the field come in that unit.
func (f *field) declare(unit string) {
	f.declared = findUnit(f.unit, unit)
	if f.declared != nil && (f.declared.Add != 0 || f.declared.Mul != f.declared.Div) {
		f.rank = rankConverted
	} else if f.declared != nil {
		f.rank = max(f.rank, rankAlias)
	}
}

// findUnit is the unit of that spelling which can be converted to the
// canonical one, nil if there is none.
func findUnit(canonical, spelling string) *Unit {
	if spelling == "" || len(spelling) > 32 {
		return nil
	}
	for i := range units {
		if units[i].Canonical == canonical && (spelling == canonical || slices.ContainsFunc(units[i].Spellings, func(s string) bool { return sameUnit(spelling, s) })) {
			return &units[i]
		}
	}
	return nil
}

// sameUnit compares a unit as it was sent with one of the table. What names a
// degree is left out: "° F", "deg F" and "Degrees Fahrenheit" are "f".
func sameUnit(sent, spelling string) bool {
	sent = strings.TrimSpace(sent)
	for _, degree := range []string{"°", "º", "degrees", "degree", "deg"} {
		if len(sent) > len(degree) && strings.EqualFold(sent[:len(degree)], degree) {
			sent = strings.TrimLeft(sent[len(degree):], " _")
			break
		}
	}
	return strings.EqualFold(sent, spelling)
}

// canonical converts a value. What comes of a conversion is rounded to six
// decimals: 68.9 °F is 20.5 °C, not 20.500000000000004.
func (u *Unit) canonical(v float64) float64 {
	if u == nil || u.Add == 0 && u.Mul == u.Div {
		return v
	}
	v = (v + u.Add) * u.Mul / u.Div
	if math.Abs(v) < 1e9 {
		v = math.Round(v*1e6) / 1e6
	}
	return v
}

// squash leaves only the letters and digits of a key, in lower case. Between
// digits it leaves a "_" for what was there: PM1.0 is not PM10.
func squash(key string) string {
	out := make([]rune, 0, len(key))
	gap := false
	for _, r := range key {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r):
			if gap && len(out) > 0 && unicode.IsDigit(r) && unicode.IsDigit(out[len(out)-1]) {
				out = append(out, '_')
			}
			out, gap = append(out, unicode.ToLower(r)), false
		default:
			gap = true
		}
	}
	return string(out)
}

// snake makes a metric name of a key: dewPoint is dew_point, and whatever is no
// ASCII letter or digit separates words. It is empty if nothing is left.
func snake(key string) string {
	out := make([]byte, 0, len(key)+4)
	for i := 0; i < len(key); i++ {
		c := key[i]
		switch {
		case isUpper(c):
			next := i+1 < len(key) && isLower(key[i+1])
			if i > 0 && (isLower(key[i-1]) || next && (isUpper(key[i-1]) || isDigit(key[i-1]))) {
				out = append(out, '_')
			}
			out = append(out, c+'a'-'A')
		case isLower(c), isDigit(c):
			out = append(out, c)
		case len(out) > 0 && out[len(out)-1] != '_':
			out = append(out, '_')
		}
	}
	name := strings.TrimRight(string(out), "_")
	if name != "" && isDigit(name[0]) {
		return "_" + name
	}
	return name
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// utf8Cut is the length of the longest beginning of s of at most n bytes that
// cuts no character.
func utf8Cut(s string, n int) int {
	if len(s) <= n {
		return len(s)
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}
