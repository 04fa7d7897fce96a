package mongodb

import (
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/reading"
)

const progressPrefix = "rollups:"

// ProgressID is the _id of the document of meta that says how far the roll-ups
// of a span are.
func ProgressID(span reading.Span) string {
	return progressPrefix + strconv.FormatInt(int64(span), 10)
}

// DecodeProgress reads such a document. Others are not ok.
func DecodeProgress(doc bson.Raw) (span reading.Span, p reading.Progress, ok bool) {
	id, _ := doc.Lookup("_id").StringValueOK()
	number, ok := strings.CutPrefix(id, progressPrefix)
	n, err := strconv.ParseInt(number, 10, 64)
	return reading.Span(n), reading.Progress{From: Time(doc.Lookup("from")), Until: Time(doc.Lookup("until"))}, ok && err == nil && n > 0
}
