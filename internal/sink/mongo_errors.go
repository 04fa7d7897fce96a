package sink

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"gudang/internal/mongodb"
)

// permanentCodes are the server's answers to a write that will never be taken:
// what is stored under its key is not what it should be, or it is too large.
// All other codes may pass: to refuse for one of them would lose readings for
// a setting that an operator is about to mend.
var permanentCodes = []int{
	2,     // BadValue: $push to what is no array
	14,    // TypeMismatch: $inc of what is no number
	28,    // PathNotViable
	66,    // ImmutableField
	121,   // DocumentValidationFailure
	10334, // BSONObjectTooLarge
	17280, // KeyTooLong
	17419, // the document would be over 16 MB
	17420, // the same, in an upsert
}

// permanentCommand says whether the server refused the whole command for a
// fault of one of its writes, and in which words.
func permanentCommand(err error) (string, bool) {
	var command mongo.CommandError
	if !errors.As(err, &command) || len(command.Labels) > 0 {
		return "", false
	}
	return command.Message, slices.Contains(permanentCodes, int(command.Code))
}

// sortAnswer gives each item its fate by the server's answer, which must
// account for each of them. The error says why some have failed.
func sortAnswer(items []*item, answer mongodb.Answer, err error) error {
	if err != nil {
		// No answer, or a refusal of the whole: anything may have been done.
		setAll(items, failed)
		return err
	}
	setAll(items, done)
	var transient error
	for _, e := range answer.Errors {
		fate, why := fateOf(e)
		if why != nil && transient == nil {
			transient = why
		}
		items[e.Index].fate, items[e.Index].detail = fate, e.Message
	}
	if answer.N+len(answer.Errors) != len(items) {
		// Some servers stop at the first error, though they were asked not to,
		// and say neither where nor what they had done.
		setAll(items, unsure)
		if transient != nil {
			setAll(items, failed)
		}
	}
	if answer.Concern != nil {
		// All of it may be undone by a change of the primary, and so may that
		// which it met. Only a refusal stays one.
		for _, it := range items {
			if it.fate != refused {
				it.fate = failed
			}
		}
		return unsafely(answer)
	}
	return transient
}

// unsafely is the error of what was done without the safety that was asked for.
func unsafely(answer mongodb.Answer) error {
	return fmt.Errorf("written, but not safely: %w", *answer.Concern)
}

func setAll(items []*item, f fate) {
	for _, it := range items {
		it.fate = f
	}
}

// fateOf is the fate of a write that ended in an error, and the error if it
// may pass.
func fateOf(e mongo.WriteError) (fate, error) {
	switch {
	case e.Code == mongodb.CodeDuplicateKey && otherIndex(e.Message):
		return refused, nil
	case e.Code == mongodb.CodeDuplicateKey:
		return exists, nil
	case slices.Contains(permanentCodes, e.Code):
		return refused, nil
	}
	return failed, e
}

// otherIndex says whether a duplicate key is not that of the _id. A unique
// index that someone has added would have the write tried for ever.
func otherIndex(message string) bool {
	_, index, found := strings.Cut(message, " index: ")
	return found && !strings.HasPrefix(index, "_id")
}
