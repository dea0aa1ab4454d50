package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/worktree/git"
)

const theTree = "the ID of a worktree or of its agent"

func (a *app) treePathCommand() *cobra.Command {
	var f treeFlags
	cmd := &cobra.Command{
		Use:     "path ID",
		Short:   "Print the path of a worktree, and nothing else",
		Long:    "Print the path of a worktree, and nothing else. ID is its own, how that begins, or the agent's if it has one worktree here.",
		Example: "  cd \"$(starter worktrees path fix-1)\" && git status",
		Args:    oneArg(theTree),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := f.open()
			if err != nil {
				return err
			}
			h, err := pick(cmd.Context(), d, args[0])
			if err != nil {
				return err
			}
			if _, err := os.Lstat(h.Path); err != nil {
				return exit.Failf("see: starter worktrees why "+h.ID, "worktree %q is not there any more", h.ID)
			}
			if a.json() {
				return a.printJSON(struct {
					Path string `json:"path"`
				}{h.Path})
			}
			a.printf("%s\n", h.Path)
			return nil
		},
	}
	f.add(cmd)
	a.outputFlag(cmd)
	return cmd
}

func (a *app) treeWhyCommand() *cobra.Command {
	var f treeFlags
	cmd := &cobra.Command{
		Use:     "why ID",
		Short:   "Say why a worktree is still there, or why it is gone",
		Long:    "Say why a worktree is still there, or why it is gone, and what would end that.",
		Example: "  starter worktrees why fix-1",
		Args:    oneArg(theTree),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := f.open()
			if err != nil {
				return err
			}
			h, err := pick(cmd.Context(), d, args[0])
			if err != nil {
				return err
			}
			if a.json() {
				return a.printJSON(treeRowOf(h))
			}
			id, run := workflowOf(h)
			a.printf("%s: %s\n", h.ID, reason(h))
			a.printf("  agent %s, run %s, attempt %d\n", oneLine(id, mostLine), oneLine(run, mostLine), h.Identity.Attempt)
			a.printf("  repository %s at %.12s (%s)\n", oneLine(h.Resolved.Repo, mostLine), h.Resolved.Commit, oneLine(h.Resolved.Ref, mostLine))
			a.printf("  %s\n", h.Path)
			return nil
		},
	}
	f.add(cmd)
	a.outputFlag(cmd)
	return cmd
}

// reason says in a sentence why a tree is in its state.
func reason(h git.Held) string {
	ago := sinceText(h.Since)
	why := oneLine(h.Why, mostLine)
	abandoned := "no process is at it: the sweep of a worker on this root finishes it, at its start and hourly"
	if h.Busy {
		abandoned = "a process is at it"
	}
	switch h.State {
	case git.Making:
		return fmt.Sprintf("being made for %s; %s", ago, abandoned)
	case git.Disposing:
		return fmt.Sprintf("being removed for %s, because %s; %s", ago, why, abandoned)
	case git.Ready:
		return fmt.Sprintf("ready for %s; its work was not collected: the agent works or waits, or it ended without a collect", ago)
	case git.Collected:
		return fmt.Sprintf("collected %s ago; the agent has not given it back, or was ended before it could", ago)
	case git.Retained:
		return fmt.Sprintf("retained for %s (%s); it goes when newer ones exceed the pin cap, when room is needed, or when you dispose of it", ago, why)
	case git.Gone:
		return fmt.Sprintf("gone for %s: %s", ago, why)
	}
	return fmt.Sprintf("%s: %s", h.State, why)
}

// disposeFlags are the flags of worktrees dispose.
type disposeFlags struct {
	treeFlags
	force, unread bool
	// The rest is for --ended.
	ended, unknown, dryRun bool
	olderThan              time.Duration
}

func (a *app) treeDisposeCommand() *cobra.Command {
	var f disposeFlags
	cmd := &cobra.Command{
		Use:   "dispose ID",
		Short: "Remove a worktree, or those of agents that have ended",
		Long: `Remove a worktree. Work that was not collected, or that changed since it was, is refused without --force. With it
the patch is first written beside the worktrees, below saved/; if that cannot be done it is refused without --unread. A worktree that a process is at is never removed. An agent whose
worktree is removed while it works starts again in a new one.

With --ended it removes those whose agents have ended without giving them back, for example because they were terminated. The
server is asked: no run of the agent may be open, and the last must have closed longer ago than --older-than. Work that was not
collected is written to saved/ first, and what cannot be read is kept. Retained ones are kept. Agents that the server does not
know may belong to another server; they count as ended with --unknown only. Without --dry-run=false it only shows what would go.`,
		Example: "  starter worktrees dispose fix-1\n  starter worktrees dispose fix-1 --force\n  starter worktrees dispose --ended --older-than 7d --dry-run=false",
		Args:    func(cmd *cobra.Command, args []string) error { return f.check(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.ended {
				return a.disposeEnded(cmd.Context(), f)
			}
			return a.disposeTree(cmd.Context(), args[0], f)
		},
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.force, "force", false, "remove it although its work was not collected")
	flags.BoolVar(&f.unread, "unread", false, "with --force: even if its work cannot be read and is lost")
	flags.BoolVar(&f.ended, "ended", false, "those whose agents have ended, in place of ID")
	f.olderThan = day
	flags.Var((*age)(&f.olderThan), "older-than", "with --ended: how long ago the agent must have ended")
	flags.BoolVar(&f.unknown, "unknown", false, "with --ended: also those that were made so long ago and whose agents the server does not know")
	flags.BoolVar(&f.dryRun, "dry-run", true, "with --ended: only show what would be removed")
	a.serverFlags(cmd)
	return cmd
}

// check wants an ID, or --ended and what belongs to it.
func (f *disposeFlags) check(cmd *cobra.Command, args []string) error {
	hint := "see: " + cmd.CommandPath() + " --help"
	changed := func(name string) bool { return cmd.Flags().Changed(name) }
	switch {
	case !f.ended && (f.unknown || changed("older-than") || changed("dry-run")):
		return exit.Usagef(hint, "--older-than, --unknown and --dry-run need --ended")
	case f.unread && !f.force:
		return exit.Usagef(hint, "--unread needs --force")
	case !f.ended:
		return oneArg(theTree)(cmd, args)
	case len(args) > 0:
		return exit.Usagef(hint, "--ended and the ID %q exclude each other", args[0])
	case f.force:
		return exit.Usagef(hint, "--ended and --force exclude each other")
	case f.olderThan < leastAge:
		return exit.Usagef("", "--older-than is %s; at least %s", f.olderThan, leastAge)
	}
	return nil
}
