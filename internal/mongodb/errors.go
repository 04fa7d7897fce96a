package mongodb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Kinds of trouble that an operator mends in different places. Explain wraps
// them; everything else is passed on as it is.
var (
	ErrAway        = errors.New("MongoDB cannot be reached")
	ErrCredentials = errors.New("MongoDB does not accept the credentials: check the user, the password and authSource in MONGODB_URI")
	ErrDenied      = errors.New("MongoDB does not let this user do it: it needs the role readWrite on the database")
)

// Codes of the server (mongo/base/error_codes.yml).
const (
	codeUnauthorized = 13
	codeAuthFailed   = 18

	codeCommandNotFound     = 59
	codeCommandNotSupported = 115
	codeNotImplemented      = 238
	codeUnknownStage        = 40324
	codeUnknownAccumulator  = 15952
	codeUnknownOperator     = 15999
	codeUnknownExpression   = 168 // InvalidPipelineOperator: $dateTrunc before MongoDB 5.0
)

var lacking = []int{
	codeCommandNotFound, codeCommandNotSupported, codeNotImplemented, codeUnknownStage, codeUnknownAccumulator, codeUnknownOperator, codeUnknownExpression,
}

// Lacks says whether a server answered that it does not know what was asked of
// it: another database that speaks MongoDB's language, or an old one.
func Lacks(err error) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && slices.ContainsFunc(lacking, server.HasErrorCode)
}

// Explain says what kind of trouble the driver's error is, without secrets.
func (c *Client) Explain(err error) error {
	if err == nil {
		return nil
	}
	kind := kindOf(err)
	err = brief(c.redact(err))
	if kind == nil || errors.Is(err, kind) {
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// inTopology finds the servers in a description of the driver, and what was
// wrong with each.
var inTopology = regexp.MustCompile(`Addr: ([^,]+), Type: [^,}]+(?:, [^{}]*?)?Last error: (.*?) }(?:,|\s|$)`)

// brief says of each server what is wrong with it, in place of the driver's
// description of the whole topology, which nobody can read.
func brief(err error) error {
	text := err.Error()
	if !strings.Contains(text, "current topology:") {
		return err
	}
	var servers []string
	for _, m := range inTopology.FindAllStringSubmatch(text, -1) {
		servers = append(servers, m[1]+": "+m[2])
	}
	if len(servers) == 0 {
		return err
	}
	return errors.New(strings.Join(servers, "; "))
}

func kindOf(err error) error {
	var server mongo.ServerError
	hasServer := errors.As(err, &server)
	var dns *net.DNSError
	var timeout net.Error
	switch {
	// The driver reports a failed handshake as an error of the connection,
	// in which the server's answer cannot be reached by type.
	case hasServer && server.HasErrorCode(codeAuthFailed), strings.Contains(err.Error(), "auth error"):
		return ErrCredentials
	case hasServer && server.HasErrorCode(codeUnauthorized):
		return ErrDenied
	case mongo.IsNetworkError(err), errors.As(err, &dns), strings.Contains(err.Error(), "server selection error"):
		return ErrAway
	case errors.As(err, &timeout) && !errors.Is(err, context.Canceled) && !hasServer:
		return ErrAway
	}
	return nil
}

// redact takes the secrets out of the error's text. An error that quotes none
// stays what it was, so that it can still be told by type.
func (c *Client) redact(err error) error {
	text := err.Error()
	clean := text
	for _, secret := range c.secrets() {
		clean = strings.ReplaceAll(clean, secret, "xxxxx")
	}
	if clean == text {
		return err
	}
	return errors.New(clean)
}
