package git

import (
	"bytes"
	"context"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/worktree"
)

// applied applies a patch to a clean checkout of base and returns the tree id, by the index and by the files.
func applied(t testing.TB, host string, p worktree.Patch) (byIndex, byFiles string) {
	t.Helper()
	for i, out := range []*string{&byIndex, &byFiles} {
		dir := filepath.Join(t.TempDir(), "clean")
		git(t, host, "worktree", "add", "-q", "--detach", dir, p.Base)
		if len(p.Bytes) > 0 {
			args := []string{"apply", "--whitespace=nowarn"}
			if i == 0 {
				args = append(args, "--index")
			}
			_, err := tryGit(dir, p.Bytes, args...)
			require.NoError(t, err, "%s", p.Bytes)
		}
		if i == 1 {
			git(t, dir, "add", "-A", "-f", "--sparse")
		}
		*out = git(t, dir, "write-tree")
		git(t, host, "worktree", "remove", "--force", dir)
	}
	return byIndex, byFiles
}

func collect(t testing.TB, d *Driver, l worktree.Lease) worktree.Patch {
	t.Helper()
	p, err := d.Collect(context.Background(), l)
	require.NoError(t, err)
	return p
}

// status returns the manifest as lines.
func status(p worktree.Patch) string {
	var b strings.Builder
	for _, f := range p.Files {
		b.WriteString(f.Status[:1] + " " + f.Path)
		if f.From != "" {
			b.WriteString(" < " + f.From)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// mess is something that an agent does to a tree.
type mess struct {
	name string
	// host prepares the repository; do makes the mess; after puts right what would keep the referee from working.
	host, do, after func(t *testing.T, dir string)
	// status is the manifest as lines, if it is compared.
	status string
	// warns is the number of warnings; says are texts that must be in the warnings or in the list of ignored paths.
	warns int
	says  []string
	// changes are the keys of all host changes that must be reported, if they are compared.
	changes []string
	// unlike says why what git would add from the disk is not compared with the result, if it is not.
	unlike string
}

func allMesses() []mess {
	return slices.Concat(contentMesses, diskMesses, gitMesses)
}

// TestCollectedPatchGivesTheRecordedTree holds every mess to three things: git applies the patch to a clean checkout
// of the base and gets the recorded tree, what git would add from the disk is that tree but for what the manifest
// names, and a second collect says the same.
func TestCollectedPatchGivesTheRecordedTree(t *testing.T) {
	t.Logf("%s, %d messes", git(t, t.TempDir(), "version"), len(allMesses()))
	for _, m := range allMesses() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			m.judge(t, func(host string) *Driver { return driver(t, host) })
		})
	}
}

// judge makes the mess in a tree of the driver and has git judge what is collected.
func (m mess) judge(t *testing.T, with func(host string) *Driver) {
	host := repo(t)
	if m.host != nil {
		m.host(t, host)
	}
	d := with(host)
	l := acquire(t, d, who, "")
	m.do(t, l.Dir)
	p := collect(t, d, l)
	again := collect(t, d, l)
	if m.after != nil {
		m.after(t, host)
	}
	referee(t, host, l, p, m.unlike == "")
	assert.Len(t, p.Warnings, m.warns, "%q", p.Warnings)
	for _, text := range m.says {
		assert.Contains(t, strings.Join(slices.Concat(p.Warnings, p.Ignored), "\n"), text)
	}
	if m.status != "" {
		assert.Equal(t, m.status, status(p))
	}
	if m.changes != nil {
		assert.Equal(t, m.changes, keys(p.HostChanges))
	}
	assert.True(t, bytes.Equal(p.Bytes, again.Bytes))
	assert.Equal(t, p.Files, again.Files)
	require.NoError(t, d.Dispose(ctx, l, false))
}

// keys returns the keys of host changes without those of the agent's own objects.
func keys(changes []worktree.HostChange) []string {
	out := []string{}
	for _, c := range changes {
		out = append(out, c.Key)
	}
	return out
}

// referee has the real git judge a patch. disk is whether what lies on disk can be compared too.
func referee(t testing.TB, host string, l worktree.Lease, p worktree.Patch, disk bool) {
	t.Helper()
	if len(p.Large) > 0 {
		require.Equal(t, p.Tree, byHand(t, host, p))
		return
	}
	byIndex, byFiles := applied(t, host, p)
	require.Equal(t, p.Tree, byIndex, "%.4000s", p.Bytes)
	if !disk {
		return
	}
	require.Equal(t, p.Tree, byFiles, "%.4000s", p.Bytes)
	env := []string{"GIT_DIR=" + git(t, host, "rev-parse", "--absolute-git-dir"), "GIT_WORK_TREE=" + l.Dir,
		"GIT_INDEX_FILE=" + filepath.Join(t.TempDir(), "index")}
	_, err := gitWith(l.Dir, env, nil, "read-tree", p.Base)
	require.NoError(t, err)
	// Names that git refuses make it fail after it has added the rest.
	_, _ = gitWith(l.Dir, env, nil, "-c", "advice.addEmbeddedRepo=false", "-c", "core.safecrlf=false", "add", "-A", "-f", "--ignore-errors", ".")
	tree, err := gitWith(l.Dir, env, nil, "write-tree")
	require.NoError(t, err)
	differs, err := gitWith(l.Dir, env, nil, "diff-tree", "-r", "-z", "--name-only", p.Tree, strings.TrimSpace(tree))
	require.NoError(t, err)
	for path := range strings.SplitSeq(strings.TrimRight(differs, "\x00"), "\x00") {
		assert.True(t, path == "" || named(p, path), "%q on disk is not what the patch has, and the manifest does not say so: %q", path, p.Warnings)
	}
}

// named reports whether the manifest names a path, or a folder that it lies in, as something that the patch lacks.
func named(p worktree.Patch, file string) bool {
	for at := file; at != "."; at = path.Dir(at) {
		if slices.Contains(p.Ignored, at) || slices.Contains(p.Ignored, at+"/") {
			return true
		}
		for _, w := range p.Warnings {
			if strings.HasPrefix(w, strconv.Quote(at)+" ") {
				return true
			}
		}
	}
	return false
}
