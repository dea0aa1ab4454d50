package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	uiversion "github.com/temporalio/ui-server/v2/server/version"
	"go.temporal.io/server/common/headers"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program. It returns the exit code.
func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	// Before anything else, so that a signal that arrives while the server starts ends it as cleanly as a later one.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)

	o, err := parseFlags(args)
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "error: %v\nhint: see: devserver --help\n", err)
		return 2
	case o.help:
		fmt.Fprint(stdout, usage())
		return 0
	case o.version:
		fmt.Fprintf(stdout, "assent devserver (Server %s, UI %s)\n", headers.ServerVersion, uiversion.UIVersion)
		return 0
	}
	if err := start(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "error: %v\n", err)
		if f := (*failure)(nil); errors.As(err, &f) && f.hint != "" {
			fmt.Fprintf(stderr, "hint: %s\n", f.hint)
		}
		return 1
	}
	return 0
}

// start loads the configuration, runs the server and returns when ctx has ended or the server has failed.
func start(ctx context.Context, o options, stdout, stderr io.Writer) error {
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find temporal-dev.yaml: %w", err)
	}
	file, err := findConfig(os.Getenv(configVariable), dir)
	if err != nil {
		return err
	}
	p, err := loadPlan(file, o)
	if err != nil {
		return err
	}
	held, err := p.takePorts()
	if err != nil {
		return err
	}
	defer held.release()
	if err := p.prepareStorage(); err != nil {
		return err
	}
	return serve(ctx, p, held, stdout, stderr)
}

// failure is an error for people: what went wrong, and what to type next.
type failure struct {
	msg   string
	hint  string
	cause error
}

func (f *failure) Error() string {
	if f.cause == nil {
		return f.msg
	}
	return f.msg + ": " + f.cause.Error()
}

func (f *failure) Unwrap() error { return f.cause }
