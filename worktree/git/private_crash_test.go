package git

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/worktree"
)

func TestPrivateAcquireKilledAtAnyStep(t *testing.T) {
	for i, steps := range append(pinSteps[:len(pinSteps):len(pinSteps)],
		"pin-written pin-locked tree-made", "private-made pin-locked pin-aside", "pin-aside pin-removed private-made", "pin-written pin-lock-aside") {
		for j, recover := range []string{"acquire", "sweep"} {
			if halved(i, j) || os.Getenv("ASSENT_LONG") != "1" && testedByOwn(steps) {
				continue
			}
			t.Run(strings.ReplaceAll(steps, " ", "+")+"/"+recover, func(t *testing.T) {
				t.Parallel()
				host := repo(t)
				before := fingerprint(t, host)
				d := driver(t, host)
				at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r", Private: true})
				require.NoError(t, err)
				for step := range strings.FieldsSeq(steps) {
					crash{Op: "acquire", Step: step, Resolved: at}.run(t, d)
				}
				ready := steps == "record-ready"
				if recover == "sweep" {
					_, err := d.Sweep(ctx)
					require.NoError(t, err)
					if !ready {
						require.NoError(t, d.Close())
						same(t, before, fingerprint(t, host))
						requireOnlyState(t, d)
					}
				}
				l, err := d.Acquire(ctx, who, at)
				require.NoError(t, err)
				require.Empty(t, git(t, l.Dir, "status", "--porcelain", "--ignored"))
				git(t, l.Dir, "fsck", "--strict", "--full")
				require.Equal(t, at.Commit, git(t, host, "rev-parse", d.pinName(l.ID)))
				require.Empty(t, collect(t, d, l).Files)
				require.NoError(t, d.Dispose(ctx, l, false))
				same(t, before, fingerprint(t, host))
				_, err = d.Sweep(ctx)
				require.NoError(t, err)
				require.NoError(t, d.Close())
				requireOnlyState(t, d)
			})
		}
	}
}

func TestPrivateDisposeKilledAtAnyStep(t *testing.T) {
	for i, steps := range append(pinGoneSteps[:len(pinGoneSteps):len(pinGoneSteps)], "tree-renamed-out packed-aside pin-locked packed-written pin-removed") {
		for j, recover := range []string{"dispose", "sweep"} {
			if halved(i, j) {
				continue
			}
			t.Run(strings.ReplaceAll(steps, " ", "+")+"/"+recover, func(t *testing.T) {
				t.Parallel()
				host := repo(t)
				git(t, host, "pack-refs", "--all", "--prune")
				before := fingerprint(t, host)
				d := driver(t, host)
				l := private(t, d, who, "")
				put(t, l.Dir, "work.txt", "w\n")
				// Packed and loose at once, as after a `pack-refs` that did not prune.
				git(t, host, "pack-refs", "--all", "--no-prune")
				for step := range strings.FieldsSeq(steps) {
					crash{Op: "dispose", Step: step, Lease: l}.run(t, d)
				}
				if steps == "record-disposing-aside" { // nothing was done yet
					require.NoError(t, d.Check(ctx, l))
					require.NoError(t, d.Dispose(ctx, l, true))
				}
				if recover == "dispose" {
					require.NoError(t, d.Dispose(ctx, l, false))
				}
				_, err := d.Sweep(ctx)
				require.NoError(t, err)
				same(t, before, fingerprint(t, host))
				git(t, host, "pack-refs", "--all") // no lock is left
				require.NoError(t, d.Close())
				requireOnlyState(t, d)
				requireGone(t, d.Check(ctx, l), "disposed")
			})
		}
	}
}
