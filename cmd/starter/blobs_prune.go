package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/workerproc"
)

// leastAge is how old a blob must be: a run that has stored one a moment ago has not told the server of it yet.
const leastAge = time.Hour

func (a *app) pruneCommand() *cobra.Command {
	var f blobFlags
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Delete blobs that are old and that no run needs",
		Long: `Delete the blobs that were last stored longer ago than --older-than and that no run needs: none that is open, however old,
and none that closed within that time. Without --dry-run=false it only shows what would go.

The server is asked for the runs, and their histories are read. If that cannot be done entirely, nothing is deleted. A
store that several namespaces use is pruned with all of them named (--also); one that other servers use is not pruned. A
store of which no run needs anything may be such a one: then nothing is deleted without --all.`,
		Example: "  starter blobs prune --older-than 30d\n  starter blobs prune --older-than 30d --dry-run=false --also staging",
		Args:    workerproc.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.olderThan < leastAge {
				return exit.Usagef("", "--older-than is %s; at least %s", f.olderThan, leastAge)
			}
			return a.prune(cmd.Context(), f)
		},
	}
	f.add(cmd)
	f.olderThan = defaultAge
	cmd.Flags().Var((*age)(&f.olderThan), "older-than", "how long ago a blob must have been stored, and a run closed")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", true, "only show what would be deleted")
	cmd.Flags().BoolVar(&f.all, "all", false, "go on although no run needs any blob of the store, as if it were another server's")
	a.sourceFlags(cmd, &f)
	return cmd
}

func (a *app) prune(ctx context.Context, f blobFlags) error {
	store, err := f.open()
	if err != nil {
		return err
	}
	before := time.Now().Add(-f.olderThan)
	report, names, err := a.look(ctx, store, f)
	if err != nil {
		return err
	}
	var gone int
	var size int64
	unused := report.Unused(before)
	if !f.dryRun && !f.all && len(unused) > 0 && report.Needed() == 0 {
		return exit.WithHint(fmt.Errorf("no run in namespace %s needs any of the %s in store %s; it may be another server's, whose runs do",
			strings.Join(names, ", "), count(len(report.Entries), "blob"), store.ID()), "nothing was deleted; --all deletes if this is the right server")
	}
	for _, e := range unused {
		deleted := false
		if !f.dryRun {
			if deleted, err = store.Delete(ctx, e.Ref, before); err != nil {
				return err
			}
		}
		if deleted || f.dryRun {
			gone, size = gone+1, size+e.Ref.Size
		}
		if a.json() {
			if err := a.printJSON(blobRow{Ref: e.Ref, PutAt: e.Time, Deleted: &deleted}); err != nil {
				return err
			}
			continue
		}
		word := "would delete"
		switch {
		case deleted:
			word = "deleted"
		case !f.dryRun:
			word = "kept, it was stored again"
		}
		a.printf("%s   %s   %s   %s\n", word, e.Ref.SHA256, bytesText(e.Ref.Size), span(time.Since(e.Time)))
	}
	a.note("%s of %s, %s; namespace %s has %s and %s that closed in the last %s", count(gone, "blob"), count(len(report.Entries), "blob"),
		bytesText(size), strings.Join(names, ", "), count(report.Open, "open run"), count(report.Closed, "run"), span(f.olderThan))
	if f.dryRun && gone > 0 {
		a.note("nothing was deleted; --dry-run=false deletes them")
	}
	return nil
}
