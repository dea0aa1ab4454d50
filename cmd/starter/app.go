package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/demo"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/storage"
)

// app is one invocation: its streams and the flags that commands share.
type app struct {
	in       io.Reader
	out, err io.Writer
	// screen is what out writes to: an editor needs the terminal itself.
	screen   io.Writer
	style    style
	errStyle style

	settings connect.Settings
	queue    string
	output   string
}

// The values of --output.
const (
	outputText = "text"
	outputJSON = "json"
)

// server adds the flags of commands that talk to a server.
func (a *app) serverFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.settings.Address, "address", "", "Temporal server (host:port; TEMPORAL_ADDRESS; default "+connect.DefaultAddress+")")
	f.StringVar(&a.settings.Namespace, "namespace", "", "Temporal namespace (TEMPORAL_NAMESPACE; default "+connect.DefaultNamespace+")")
	f.StringVar(&a.queue, "queue", protocol.DefaultTaskQueue, "task queue of the workers")
	a.outputFlag(cmd)
}

func (a *app) outputFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&a.output, "output", "o", outputText, "text, or json: one JSON object on each line")
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if a.output != outputText && a.output != outputJSON {
			return exit.Usagef("", "unknown output %q; one of %s, %s", a.output, outputText, outputJSON)
		}
		if before != nil {
			if err := before(cmd, args); err != nil {
				return err
			}
		}
		return noneEmpty(cmd)
	}
}

// narrowing are the flags whose absence means more than any value would: everything, everybody, as it is, unproved.
var narrowing = []string{"address", "namespace", "workflow", "query", "tool", "input", "input-file", "expires", "by", "sign", "name",
	"run", "runs", "grant-key", "policy", "to", "check", "id", "requested-by", "also", "blobs", "config", "model", "root", "repo", "ref", "large", "server"}

// noneEmpty refuses an empty value of such a flag: it is a variable that a script has not set. Flags that have a default
// look at theirs themselves.
func noneEmpty(cmd *cobra.Command) error {
	for _, name := range narrowing {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && empty(f.Value, f.DefValue) {
			return exit.Usagef("a variable that is not set? Leave --"+name+" out if nothing is meant", "--%s is empty", name)
		}
	}
	return nil
}

// empty reports a flag that was given nothing, or a list with nothing in it.
func empty(given fmt.Stringer, standard string) bool {
	blank := func(s string) bool { return strings.TrimSpace(s) == "" }
	if list, ok := given.(interface{ GetSlice() []string }); ok {
		return len(list.GetSlice()) == 0 || slices.ContainsFunc(list.GetSlice(), blank)
	}
	return standard == "" && blank(given.String())
}

func (a *app) json() bool { return a.output == outputJSON }

// connect opens the server that the flags and the environment mean.
func (a *app) connect(ctx context.Context) (*connect.Server, error) {
	if demo.Owns(a.settings.Address) {
		a.settings.Alone = true
	}
	s, err := connect.Dial(ctx, a.settings)
	if err != nil {
		return nil, err
	}
	// Payloads that were offloaded to the default store can be shown. Of others it is told where they are.
	if d := defaultDriver(); d != nil {
		s.Client = storage.Reading(s.Client, d)
	}
	return s, nil
}

func (a *app) printf(format string, args ...any) { fmt.Fprintf(a.out, format, args...) }

// note is for people and goes to standard error, so that standard output stays what was asked for.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.err, a.errStyle.dim(fmt.Sprintf(format, args...)))
}

// oneArg takes exactly one argument and names it if it is missing.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		hint := "see: " + cmd.CommandPath() + " --help"
		switch {
		case len(args) == 0 || args[0] == "":
			return exit.Usagef(hint, "%s is missing", what)
		case len(args) > 1:
			return exit.Usagef(hint, "unexpected argument %q", args[1])
		}
		return nil
	}
}

// again is a command line for the same server, to be pasted into a shell.
func again(s *connect.Server, parts ...string) string {
	line := self()
	for _, p := range parts {
		line += " " + shellQuote(p)
	}
	if s.Address != connect.DefaultAddress {
		line += " --address " + shellQuote(s.Address)
	}
	if s.Namespace != connect.DefaultNamespace {
		line += " --namespace " + shellQuote(s.Namespace)
	}
	return line
}

// shellQuote quotes for a POSIX shell; workflow ids are free text.
func shellQuote(s string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@=,+"
	if s != "" && strings.Trim(s, safe) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
