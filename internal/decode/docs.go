package decode

import (
	"slices"
	"strings"

	"gudang/internal/reading"
)

// Reference is all that decoding knows, as data, so that the documentation can
// be made from it and can't be wrong.
type Reference struct {
	Decoders    []DecoderInfo
	Metrics     []Metric
	Units       []Unit
	SensorKeys  []string // best first; case and punctuation don't matter
	TimeKeys    []string // likewise
	ValueKeys   []string
	UnitKeys    []string
	MetricKeys  []string
	HolderKeys  []string
	OtherKeys   []string
	StatusWords []string
}

// DecoderInfo describes a decoder that a topic can name.
type DecoderInfo struct {
	Name string
	Doc  string
}

// NewReference is a copy of the tables.
func NewReference() Reference {
	ref := Reference{
		Metrics: slices.Clone(known), Units: slices.Clone(units), SensorKeys: slices.Clone(sensorKeys), TimeKeys: slices.Clone(timeKeys),
		ValueKeys: slices.Clone(valueKeys), UnitKeys: slices.Clone(unitKeys), MetricKeys: slices.Clone(metricKeys),
		HolderKeys: slices.Clone(holderKeys), OtherKeys: slices.Clone(otherKeys), StatusWords: slices.Clone(statusWords),
	}
	for _, f := range formats() {
		ref.Decoders = append(ref.Decoders, DecoderInfo{f.name, f.doc})
	}
	return ref
}

// ReasonText is a reason in words.
func ReasonText(r reading.Reason) string { return reasonTexts[r] }

// unit adds aliases of that unit.
func (a aliases) unit(unit, words string) aliases {
	for _, w := range strings.Fields(words) {
		a = append(a, Alias{w, unit})
	}
	return a
}
