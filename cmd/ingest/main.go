// Command ingest takes sensor readings from MQTT and stores them in
// per-minute buckets, in MongoDB or in a store of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// version is set by the build.
var version = "development"

// command is one way to call the program.
type command struct {
	name, args, help string
	run              func(ctx context.Context, c *config, out io.Writer, args []string) error
}

func commands() []command {
	return []command{
		{"", "", "run the service", runService},
		{"demo", "", "run the service with a simulated fleet, nothing else needed", runDemo},
		{"parse", "TOPIC [FILE|-]", "show what a payload becomes, or why not", runParse},
		{"verify", "[-manifest FILE]", "check that buckets and raw readings agree, or that a manifest's are stored once, and nothing else", runVerify},
		{"refresh", "[SENSOR]", "make the sensors' documents again from the buckets", runRefresh},
		{"storage", "[-json]", "say what the store takes, and what other buckets would", runStorage},
		{"doctor", "[-disk SIZE]", "say what is wrong with settings, broker and store", runDoctor},
		{"rebuild", "", "build buckets from raw readings", runRebuild},
		{"import", "FILE|-", "store the readings of a CSV or JSON file", runImport},
		{"health", "[-ready]", "ask the service on this machine whether it is alive", runHealth},
		{"config", "[-json]", "print the settings in force, without secrets", runConfig},
		{"version", "[-json]", "print the version", runVersion},
	}
}

// Errors that end the program with a status of their own.
var (
	errUsage = errors.New("usage")   // 2, like a wrong setting
	errCheck = errors.New("no")      // 1, and the command has said why
	errHelp  = errors.New("explain") // 0
)

// settingError is a setting that turned out to be wrong once it was used.
type settingError struct {
	name string
	err  error
}

func (e *settingError) Error() string { return e.name + ": " + e.err.Error() }
func (e *settingError) Unwrap() error { return e.err }

func main() {
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, release) // a second signal kills
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run carries out one command and returns the exit status.
func run(ctx context.Context, args, environ []string, out, errOut io.Writer) int {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	if slices.Contains([]string{"help", "-h", "-help", "--help"}, name) {
		usage(out)
		return 0
	}
	if slices.Contains([]string{"-version", "--version"}, name) {
		name = "version"
	}
	i := slices.IndexFunc(commands(), func(c command) bool { return c.name == name })
	if i < 0 {
		fmt.Fprintf(errOut, "ingest: there is no command %q; ingest help lists them\n", name)
		return 2
	}
	if name == "config" {
		for _, unknown := range unknownSettings(environ) {
			fmt.Fprintf(errOut, "ingest: %s is no setting and does nothing\n", unknown)
		}
	}
	c, err := loadConfig(environ)
	if err != nil {
		fmt.Fprintln(errOut, "ingest:", err)
		return 2
	}
	var wrong *settingError
	switch err := commands()[i].run(ctx, c, out, args); {
	case errors.As(err, &wrong):
		fmt.Fprintln(errOut, "ingest:", err)
		return 2
	case err == nil, errors.Is(err, errHelp):
		return 0
	case errors.Is(err, errCheck):
		return 1
	case errors.Is(err, errUsage):
		return 2
	default:
		fmt.Fprintln(errOut, "ingest:", err)
		return 1
	}
}

func usage(out io.Writer) {
	fmt.Fprint(out, "ingest stores sensor readings from MQTT in per-minute buckets.\n\n")
	for _, c := range commands() {
		fmt.Fprintf(out, "  ingest %-23s %s\n", c.name+" "+c.args, c.help)
	}
	fmt.Fprint(out, "\nSettings come from the environment; README.md has the list and ingest config prints those in force.\n")
}

// parse reads a command's flags, and says what is wrong with them.
func parse(set *flag.FlagSet, args []string) error {
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return errHelp
	case err != nil:
		return errUsage // the flag set has said why
	case set.NArg() > 0:
		fmt.Fprintf(set.Output(), "%s: unexpected argument %q\n", set.Name(), set.Arg(0))
		return errUsage
	}
	return nil
}

func newFlags(name string) *flag.FlagSet {
	return flag.NewFlagSet("ingest "+name, flag.ContinueOnError)
}
