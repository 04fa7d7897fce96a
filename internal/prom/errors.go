package prom

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/prometheus/prometheus/promql"
)

// errorType is a type of error and its status, as Prometheus has them.
type errorType struct {
	name   string
	status int
}

var (
	badDataType = errorType{"bad_data", http.StatusBadRequest}
	tooLarge    = errorType{"bad_data", http.StatusRequestEntityTooLarge}
	execution   = errorType{"execution", http.StatusUnprocessableEntity}
	timedOut    = errorType{"timeout", http.StatusServiceUnavailable}
	notFound    = errorType{"not_found", http.StatusNotFound}
)

// apiError is an error that is the client's to know.
type apiError struct {
	kind errorType
	error
}

func (e *apiError) Unwrap() error { return e.error }

func badData(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	kind := badDataType
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		kind = tooLarge
	}
	return &apiError{kind, err}
}

// classify makes an answer of an error, if it is one that the client may see.
func classify(r *http.Request, err error) (*apiError, error) {
	if known, ok := errors.AsType[*apiError](err); ok {
		return known, nil
	}
	if cause := r.Context().Err(); errors.Is(cause, context.Canceled) {
		return nil, cause
	}
	if late, ok := errors.AsType[promql.ErrQueryTimeout](err); ok {
		return &apiError{timedOut, late}, nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &apiError{timedOut, promql.ErrQueryTimeout("reading the store")}, nil
	}
	if store, ok := errors.AsType[storeError](err); ok {
		return nil, store.error
	}
	return &apiError{execution, err}, nil
}

// fail answers with the error, or returns what is not the client's to know.
func fail(w http.ResponseWriter, r *http.Request, err error) error {
	answer, err := classify(r, err)
	if err != nil {
		return err
	}
	b := appendString([]byte(`{"status":"error","errorType":`), answer.kind.name)
	b = append(appendString(append(b, `,"error":`...), answer.Error()), '}')
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(answer.kind.status)
	w.Write(b) // an error means that the client is gone
	return nil
}
