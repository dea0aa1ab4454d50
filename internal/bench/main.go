// Command bench measures the gate and the engine against a bare SDK loop that does the same activities on the same
// server in the same run. It prints JSON lines: absolutes for orientation, ratios for judging.
//
//	go run ./internal/bench gate
//	go run ./internal/bench engine
//	go run ./internal/bench worktree
//
// The last one measures the worktree driver against the git program.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

const usage = `usage: go run ./internal/bench gate
       go run ./internal/bench engine [-print] [-only NAME]
       go run ./internal/bench worktree [-print] [-host PATH] [-n ROUNDS]
`

// mostTime bounds a whole run: on a machine that is too busy to measure anything it ends all the same.
const mostTime = 20 * time.Minute

// mostEnding is how long a process that is told to end may take.
const mostEnding = 30 * time.Second

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithTimeout(ctx, mostTime)
	defer cancel()
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage) }
	show := flags.Bool("print", false, "exit 0 although a ratio misses its target")
	only := flags.String("only", "", "measure one thing")
	host := flags.String("host", "", "measure worktrees of this repository")
	rounds := flags.Int("n", 7, "how often worktrees are measured")
	if len(args) > 0 && (args[0] == driverCommand || args[0] == partCommand) {
		var err error
		if args[0] == partCommand {
			err = servePart(ctx, args[1:], stdout, stderr)
		} else {
			err = serveTrees(ctx, args[1:], stdin, stdout)
		}
		if err != nil {
			fmt.Fprintln(stderr, "error:", err)
			return 1
		}
		return 0
	}
	if len(args) == 0 || flags.Parse(args[1:]) != nil || flags.NArg() > 0 {
		flags.Usage()
		return 2
	}
	var err error
	switch args[0] {
	case "gate":
		err = gate(ctx, stdout, stderr)
	case "engine":
		err = engine(ctx, *only, stdout, stderr)
	case "worktree":
		err = worktrees(ctx, treeOptions{host: *host, rounds: *rounds}, stdout, stderr)
	default:
		flags.Usage()
		return 2
	}
	if missed := new(missedError); errors.As(err, &missed) && *show {
		fmt.Fprintln(stderr, err)
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	return 0
}
