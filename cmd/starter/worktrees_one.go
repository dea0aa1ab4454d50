package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/worktree"
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
	force bool
}

func (a *app) treeDisposeCommand() *cobra.Command {
	var f disposeFlags
	cmd := &cobra.Command{
		Use:   "dispose ID",
		Short: "Remove a worktree",
		Long: `Remove a worktree. Work that was not collected, or that changed since it was, is refused without --force. With it
the patch is first written beside the worktrees, below saved/. A worktree that a process is at is never removed. An agent whose
worktree is removed while it works starts again in a new one.`,
		Example: "  starter worktrees dispose fix-1\n  starter worktrees dispose fix-1 --force",
		Args:    oneArg(theTree),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.disposeTree(cmd.Context(), args[0], f)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.force, "force", false, "remove it although its work was not collected")
	a.outputFlag(cmd)
	return cmd
}

// disposed is what `worktrees dispose -o json` prints of a tree.
type disposed struct {
	ID string `json:"id"`
	// Disposed is false for one that was kept; Why says why.
	Disposed bool   `json:"disposed"`
	Why      string `json:"why,omitempty"`
	// Saved is the file with the work that nobody had collected.
	Saved string `json:"saved,omitempty"`
	// Unread is why that work could not be saved.
	Unread string `json:"unread,omitempty"`
}

func (a *app) disposeTree(ctx context.Context, word string, f disposeFlags) error {
	d, err := f.open()
	if err != nil {
		return err
	}
	h, err := pick(ctx, d, word)
	if err != nil {
		return err
	}
	done := disposed{ID: h.ID, Disposed: true}
	var lose git.Lose
	if f.force {
		lose = func(p worktree.Patch, err error) error {
			if err != nil {
				done.Unread = err.Error()
				return nil
			}
			done.Saved, err = saveWork(d.Root(), h.ID, p)
			return err
		}
	}
	if err := d.Remove(ctx, h.ID, lose); err != nil {
		return disposeHint(h, err)
	}
	if err := d.Close(); err != nil {
		return err
	}
	return a.sayDisposed(done)
}

func (a *app) sayDisposed(done disposed) error {
	if a.json() {
		return a.printJSON(done)
	}
	a.printf("disposed %s\n", done.ID)
	if done.Saved != "" {
		a.note("its work was saved to %s", done.Saved)
	}
	if done.Unread != "" {
		a.note("warning: its work could not be read and is lost: %s", oneLine(done.Unread, 400))
	}
	return nil
}

// disposeHint says what can be done about a tree that was not removed.
func disposeHint(h git.Held, err error) error {
	var kept *worktree.NotCollectedError
	var busy *worktree.BusyError
	switch {
	case errors.As(err, &kept):
		return exit.WithHint(err, "see it with: cd "+shellQuote(h.Path)+"; --force removes it and saves its patch")
	case errors.As(err, &busy):
		return exit.WithHint(err, "try again when that has ended")
	case h.State == git.Collected || h.State == git.Retained:
		return exit.WithHint(err, "--force removes it all the same")
	}
	return err
}

// saveWork writes the patch of a tree below saved/ of the root and returns the file; nothing for a tree without changes.
func saveWork(root, id string, p worktree.Patch) (string, error) {
	if len(p.Bytes) == 0 {
		return "", nil
	}
	dir := filepath.Join(root, "saved")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("save the work of %q: %w", id, err)
	}
	for n := 1; ; n++ {
		path := filepath.Join(dir, id+".patch")
		if n > 1 {
			path = filepath.Join(dir, fmt.Sprintf("%s.%d.patch", id, n))
		}
		err := writeWhole(path, p.Bytes, false)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("save the work of %q: %w", id, err)
		}
	}
}
