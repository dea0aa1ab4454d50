// Command worker is the stock worker: it serves the profiles of one configuration file until it is told to stop.
//
//	worker --config assent.yaml
//
// It prints one line when it takes tasks. Ctrl-C or SIGTERM ends it in an orderly way; agents wait for the next one.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/workerproc"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the usual meaning is back, so that a second one ends what hangs.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the command; it is testable in process.
func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	cmd := workerproc.Command("worker")
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.CompletionOptions.HiddenDefaultCmd = true
	return exit.Report(stderr, cmd.ExecuteContext(ctx))
}
