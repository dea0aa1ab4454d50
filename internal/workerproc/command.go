package workerproc

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/exit"
)

// DefaultConfig is the configuration file of a worker that is told nothing else.
const DefaultConfig = "assent.yaml"

// Command is the worker as a command, for cmd/worker and for the hidden `starter worker`.
func Command(name string) *cobra.Command {
	var o Options
	var verbose, alone bool
	cmd := &cobra.Command{
		Use:   name + " [--config FILE]",
		Short: "Serve the profiles of a configuration file until told to stop",
		Long: `Serve the profiles of a configuration file: models, tools, policy, worktrees.

It prints one line when it takes tasks. Ctrl-C or SIGTERM ends it in an orderly way; running calls get a few seconds,
and agents wait for the next worker. Flags win over TEMPORAL_* variables, which win over the file.

Exit codes: 0 stopped, 1 failed, 2 the configuration cannot be used.`,
		Example: "  " + name + " --config assent.yaml --address 127.0.0.1:7233",
		Args:    NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := os.Stat(o.Config); errors.Is(err, fs.ErrNotExist) {
				return exit.Usagef("name another one with --config FILE", "no configuration file at %s", o.Config)
			}
			level := slog.LevelWarn
			if verbose {
				level = slog.LevelInfo
			}
			o.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
			o.Connect.Alone = alone
			return Run(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Config, "config", DefaultConfig, "configuration file")
	flags.BoolVarP(&verbose, "verbose", "v", false, "log what the worker does, not only what goes wrong")
	flags.StringVar(&o.Connect.Address, "address", "", "Temporal server (host:port; TEMPORAL_ADDRESS; default "+connect.DefaultAddress+")")
	flags.StringVar(&o.Connect.Namespace, "namespace", "", "Temporal namespace (TEMPORAL_NAMESPACE; default "+connect.DefaultNamespace+")")
	flags.StringVar(&o.Queue, "queue", "", "task queue (the file's worker.taskQueue; default assent)")
	flags.BoolVar(&alone, "alone", false, "ignore TEMPORAL_* variables and temporal.toml")
	// For programs that run a server of their own.
	_ = flags.MarkHidden("alone")
	cmd.SetFlagErrorFunc(FlagError)
	return cmd
}

// NoArgs refuses arguments, in words.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Usagef("see: "+cmd.CommandPath()+" --help", "unexpected argument %q", args[0])
	}
	return nil
}

// FlagError makes a usage error of what is wrong with the flags.
func FlagError(cmd *cobra.Command, err error) error {
	if what, _, ok := strings.Cut(err.Error(), ": strconv."); ok {
		err = errors.New(what) // how Go parses numbers helps nobody
	}
	return &exit.Error{Code: exit.Usage, Err: err, Hint: "see: " + cmd.CommandPath() + " --help"}
}
