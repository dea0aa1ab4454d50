package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/worktree"
	"github.com/assent-dev/assent/worktree/git"
)

// disposed is what `worktrees dispose -o json` prints of a tree.
type disposed struct {
	ID string `json:"id"`
	// Disposed is false for one that was kept; Why says why.
	Disposed bool   `json:"disposed"`
	Why      string `json:"why,omitempty"`
	// Saved is the file with the work that nobody had collected.
	Saved string `json:"saved,omitempty"`
	// Large is the folder with the files of that work that have no room in the patch.
	Large string `json:"large,omitempty"`
	// Unread is why that work could not be saved.
	Unread string `json:"unread,omitempty"`
}

func (a *app) disposeTree(ctx context.Context, word string, f disposeFlags) error {
	d, err := f.openToRemove()
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
			if err != nil && f.unread {
				done.Unread = err.Error()
				return nil
			}
			if err != nil {
				return exit.Failf("--unread removes it all the same, and its work is lost", "the work in worktree %q cannot be read to be saved: %w", h.ID, err)
			}
			done.Saved, done.Large, err = saveWork(ctx, d.Root(), h.ID, p)
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
	if done.Large != "" {
		a.note("what had no room in a patch was saved to %s: copy it over after git apply", done.Large)
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

// disposeEnded removes the trees of agents that have ended, each for itself: what is wrong with one keeps no other.
func (a *app) disposeEnded(ctx context.Context, f disposeFlags) error {
	d, err := f.openToRemove()
	if err != nil {
		return err
	}
	all, err := d.Inventory(ctx)
	if err != nil {
		return err
	}
	fates, err := a.askFates(ctx)
	if err != nil {
		return err
	}
	defer fates.close()
	before := time.Now().Add(-f.olderThan)
	gone, kept := 0, 0
	for _, h := range all {
		if h.State != git.Ready && h.State != git.Collected {
			continue
		}
		got, err := fates.of(ctx, h)
		if err != nil {
			return exit.WithHint(err, fmt.Sprintf("%s removed until then", count(gone, "worktree")))
		}
		done := disposed{ID: h.ID}
		if done.Why = got.keeps(h, before, f.unknown); done.Why == "" && !f.dryRun {
			done = removeEnded(ctx, d, h)
		}
		if done.Why == "" {
			gone++
		} else {
			kept++
		}
		if err := a.sayEnded(done, got, f.dryRun); err != nil {
			return err
		}
	}
	if err := d.Close(); err != nil {
		return err
	}
	a.note("%s, %d kept, below %s", count(gone, "worktree"), kept, d.Root())
	if f.dryRun && gone > 0 {
		a.note("nothing was removed; --dry-run=false removes them")
	}
	return nil
}

// keeps says why a tree of this fate stays, empty if it may go. The time before is the latest at which it may have ended.
func (f fate) keeps(h git.Held, before time.Time, unknown bool) string {
	switch {
	case f.open:
		return "its agent is " + f.word
	case f.known && f.closed.After(before):
		return fmt.Sprintf("its agent is %s since %s only", f.word, span(time.Since(f.closed)))
	case !f.known && !unknown:
		return "the server does not know its agent; --unknown takes it for ended"
	case !f.known && h.Since.After(before):
		return fmt.Sprintf("the server does not know its agent, and something was done about it %s ago", span(time.Since(h.Since)))
	}
	return ""
}

// removeEnded removes one, after its work was saved.
func removeEnded(ctx context.Context, d *git.Driver, h git.Held) disposed {
	done := disposed{ID: h.ID}
	err := d.Remove(ctx, h.ID, func(p worktree.Patch, err error) error {
		if err == nil {
			done.Saved, done.Large, err = saveWork(ctx, d.Root(), h.ID, p)
		}
		return err
	})
	if err != nil {
		done.Why = err.Error()
		return done
	}
	done.Disposed = true
	return done
}

func (a *app) sayEnded(done disposed, got fate, dryRun bool) error {
	if a.json() {
		return a.printJSON(done)
	}
	switch {
	case done.Why != "":
		a.printf("kept   %s   %s\n", done.ID, oneLine(done.Why, 400))
	case dryRun:
		a.printf("would dispose   %s   its agent is %s\n", done.ID, got.word)
	default:
		a.printf("disposed   %s   its agent is %s\n", done.ID, got.word)
	}
	if done.Saved != "" {
		a.note("its work was saved to %s", done.Saved)
	}
	if done.Large != "" {
		a.note("what had no room in a patch was saved to %s: copy it over after git apply", done.Large)
	}
	return nil
}
