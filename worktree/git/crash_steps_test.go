package git

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/worktree"
)

// The steps of each operation: what is killed in the tests beside, and nothing that leaves something on disk lies between
// two of them but what bulk says.
var (
	rootSteps = words("root-made root-state root-trees root-trash host-id-aside host-id-linked")

	startSteps = words("state-made locked space-aside reserved record-making-aside record-making")
	lastSteps  = words("base.index-aside settings-aside host-aside spare-aside frozen-file clock-made frozen size-aside settled record-ready-aside record-ready")
	adminSteps = words("admin-aside admin-filled worktrees-made admin-renamed-in")
	ownSteps   = slices.Concat(startSteps, adminSteps, words("tree-made file-written files-written link-written index-written"), lastSteps)
	pinSteps   = slices.Concat(startSteps, words("pin-folder pin-aside pin-written tree-made file-written files-written private-made private-filled link-written index-written"), lastSteps)
	gitSteps   = slices.Concat(startSteps, words("git-folder git-frozen"), adminSteps, words("tree-made git-files base.gob-aside files-written link-written git-index-copied index-written"), lastSteps)

	collectSteps    = words("scanned patched large-opened collected record-ready-aside")
	gitCollectSteps = words("stage-made git-staged git-indexed large-opened collected record-ready-aside")
	disposeSteps    = words("record-disposing-aside record-disposing tree-renamed-out admin-renamed-out admin-removed thawed-file record-gone-aside record-gone")
	pinGoneSteps    = words("record-disposing-aside record-disposing tree-renamed-out pin-lock-aside pin-locked packed-aside packed-written pin-taken pin-removed admin-removed thawed-file record-gone-aside record-gone")

	// bulk are steps before which more than one thing is made or removed, in a folder that no one but the driver reads.
	bulk = words("admin-filled admin-removed pin-removed git-folder git-frozen git-files files-written private-made private-filled stage-made git-indexed git-staged thawed-file file-written pin-folder")
)

func words(s string) []string { return strings.Fields(s) }

// tracer collects the steps of a driver, and what appears and goes between two of them.
type tracer struct {
	t     *testing.T
	dirs  []string
	seen  map[string]bool
	paths map[string]bool
}

func trace(t *testing.T, d *Driver, dirs ...string) *tracer {
	tr := &tracer{t: t, dirs: dirs}
	tr.again()
	d.step = tr.step
	return tr
}

func (tr *tracer) again() { tr.seen, tr.paths = map[string]bool{}, tr.list() }

func (tr *tracer) list() map[string]bool {
	out := map[string]bool{}
	for _, dir := range tr.dirs {
		_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
			if !strings.Contains(path, "/trash/") { // the janitor is at work there
				out[path] = true
			}
			return nil
		})
	}
	return out
}

func (tr *tracer) step(name string) {
	tr.seen[name] = true
	now := tr.list()
	var changed []string
	for _, pair := range [][2]map[string]bool{{now, tr.paths}, {tr.paths, now}} {
		for path := range pair[0] {
			if !pair[1][path] && !changedToo(pair, filepath.Dir(path)) && !strings.HasSuffix(path, ".tmp") {
				changed = append(changed, path)
			}
		}
	}
	tr.paths = now
	if !slices.Contains(bulk, name) {
		require.LessOrEqual(tr.t, len(changed), 2, "before %s: %q", name, changed) // two: a rename
	}
}

// changedToo reports whether a folder came or went with what is in it.
func changedToo(pair [2]map[string]bool, dir string) bool { return pair[0][dir] && !pair[1][dir] }

// is requires the steps seen to be those of a table, and that nothing was made after the last of them.
func (tr *tracer) is(table []string) {
	tr.t.Helper()
	var seen []string
	for name := range tr.seen {
		seen = append(seen, name)
	}
	require.ElementsMatch(tr.t, table, seen)
	tr.again()
}

// TestStepsAreThoseOfTheTables lives a tree's life and requires each step to be in a table, and what is made on disk to be
// made at a step.
func TestStepsAreThoseOfTheTables(t *testing.T) {
	for _, kind := range []string{"own", "private", "git"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			host := repo(t)
			makes, reads, goes := ownSteps, collectSteps, disposeSteps
			c := Config{Root: filepath.Join(t.TempDir(), "root"), KeepOnError: true, MaxBytes: 1 << 40, Private: kind == "private"}
			switch kind {
			case "private":
				makes, goes = pinSteps, pinGoneSteps
			case "git":
				host = needy(t)
				makes, reads, c.Git = gitSteps, gitCollectSteps, gitPath(t)
			}
			c.Repos = map[string]string{"r": host}
			var first []string
			d, err := newDriver(c, func(name string) { first = append(first, name) })
			require.NoError(t, err)
			require.Equal(t, rootSteps, first)
			d.largeFile = 1000
			at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r"})
			require.NoError(t, err)
			tr := trace(t, d, d.root, host)
			l, err := d.Acquire(ctx, who, at)
			require.NoError(t, err)
			tr.is(makes)
			require.NoError(t, d.Close()) // flushed
			put(t, l.Dir, "large", strings.Repeat("x", 1001))
			d.step = func(string) {}
			tr = trace(t, d, d.root, host)
			p := collect(t, d, l)
			for _, large := range p.Large {
				require.NoError(t, large.Copy(ctx, new(strings.Builder)))
			}
			delete(tr.seen, "state-made") // of the lock, which is there
			delete(tr.seen, "locked")
			tr.is(reads)
			if kind == "private" {
				git(t, host, "pack-refs", "--all", "--no-prune")
				tr.again()
			}
			require.NoError(t, d.Dispose(ctx, l, false))
			delete(tr.seen, "state-made")
			delete(tr.seen, "locked")
			tr.is(goes)
		})
	}
}

// TestNewKilledAtAnyStep kills the first worker of a root.
func TestNewKilledAtAnyStep(t *testing.T) {
	t.Parallel()
	host := repo(t)
	for _, step := range rootSteps {
		root := filepath.Join(t.TempDir(), "root")
		crash{Op: "new", Step: step}.run(t, &Driver{root: root, repos: map[string]string{"r": host}})
		d, err := New(Config{Repos: map[string]string{"r": host}, Root: root})
		require.NoError(t, err, step)
		_, err = d.Sweep(ctx)
		require.NoError(t, err)
		requireOnlyState(t, d)
		again, err := Open(root)
		require.NoError(t, err)
		require.Equal(t, d.hostID, again.hostID)
	}
}
