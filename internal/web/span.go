package web

import (
	"slices"
	"strings"

	"gudang/internal/reading"
)

// parseBuckets reads what is asked of one sensor's buckets, and of which span.
func (s *Server) parseBuckets(raw string) (q reading.Query, span reading.Span, none bool, err error) {
	p, err := parseParams(raw, append([]string{"span"}, queryParams...)...)
	if err != nil {
		return q, 0, false, err
	}
	span = s.spans[0]
	if text := p["span"]; text != "" {
		if span, err = reading.ParseSpan(text); err != nil || !slices.Contains(s.spans, span) {
			return q, 0, false, badRequest("span %q: there are %s", clip(text), spanNames(s.spans))
		}
	}
	q, none, err = p.query(bucketsToken)
	return q, span, none, err
}

func spanNames(spans []reading.Span) string {
	names := make([]string, len(spans))
	for i, span := range spans {
		names[i] = span.String()
	}
	return strings.Join(names, ", ")
}
