// Ferretdb is a server for tests: FerretDB 1.24, which speaks MongoDB's
// protocol and keeps its data in SQLite, so that a machine without MongoDB can
// run them. It has a module of its own to keep its dependencies out of the
// product's. It prints its URI once it listens, and ends on SIGTERM, or when
// its standard input is closed, so that it cannot outlive the test.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "where to listen")
	dir := flag.String("dir", ".", "the folder of its data")
	flag.Parse()
	if err := run(*addr, *dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(addr, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("cannot find the folder %q: %w", dir, err)
	}
	db, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{TCP: addr},
		Logger:    slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Handler:   "sqlite",
		SQLiteURL: (&url.URL{Scheme: "file", Opaque: filepath.ToSlash(dir) + "/"}).String(),
	})
	if err != nil {
		return fmt.Errorf("cannot start FerretDB at %q: %w", addr, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	fmt.Println(db.MongoDBURI())
	return db.Run(ctx)
}
