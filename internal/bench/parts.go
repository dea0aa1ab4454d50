package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// partCommand is the argument that makes this program a process of its own for one thing that is measured: what a line
// leaves behind, parked runs and garbage and a server full of them, is no part of the next one.
const partCommand = "engine-part"

// parts are what such a process measures, by name. Each has a server of its own.
var parts = map[string]func(b *bench, ctx context.Context, args []string) (any, error){
	"call":   func(b *bench, ctx context.Context, _ []string) (any, error) { return b.perCall(ctx) },
	"reads":  func(b *bench, ctx context.Context, _ []string) (any, error) { return b.tenReads(ctx) },
	"signal": func(b *bench, ctx context.Context, _ []string) (any, error) { return b.answers(ctx) },
	"rate":   func(b *bench, ctx context.Context, _ []string) (any, error) { return b.rate(ctx) },
	"park":   func(b *bench, ctx context.Context, a []string) (any, error) { return b.park(ctx, a[0], a[1]) },
	"record": func(b *bench, ctx context.Context, a []string) (any, error) { return b.record(ctx, a[0], a[1]) },
}

// replayPart is the one that needs no server.
const replayPart = "replay"

// whole is a measure that is one part.
func whole(name string) func(context.Context, io.Writer) ([]ratio, error) {
	return func(ctx context.Context, stderr io.Writer) ([]ratio, error) { return part[[]ratio](ctx, stderr, name) }
}

// part measures in a process of its own.
func part[T any](ctx context.Context, stderr io.Writer, args ...string) (found T, err error) {
	exe, err := os.Executable()
	if err != nil {
		return found, err
	}
	cmd := exec.CommandContext(ctx, exe, append([]string{partCommand}, args...)...)
	// It is asked to end, because it has a server to end.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = mostEnding
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, stderr
	if err := cmd.Run(); err != nil {
		return found, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return found, json.Unmarshal(out.Bytes(), &found)
}

// servePart is the other side of part.
func servePart(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 3 && args[0] == replayPart {
		found, err := replayedFrom(args[1], args[2])
		if err != nil {
			return err
		}
		return json.NewEncoder(stdout).Encode(found)
	}
	if len(args) == 0 || parts[args[0]] == nil || len(args) != 1 && len(args) != 3 {
		return fmt.Errorf("no part of a benchmark: %q", args)
	}
	b, err := newBench(ctx, stderr)
	if err != nil {
		return err
	}
	defer b.close()
	found, err := parts[args[0]](b, ctx, args[1:])
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(found)
}
