package git

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPrivateTreesOfRepositoriesThatGitServes has the configured git make the files of a private tree.
func TestPrivateTreesOfRepositoriesThatGitServes(t *testing.T) {
	for name, change := range map[string]func(t *testing.T) string{
		"sha256": func(t *testing.T) string {
			host := filepath.Join(t.TempDir(), "host")
			git(t, filepath.Dir(host), "init", "-q", "-b", "main", "--object-format=sha256", host)
			return host
		},
		"a filter that does not run": func(t *testing.T) string {
			host := repo(t)
			git(t, host, "config", "filter.canary.clean", "touch "+filepath.Join(t.TempDir(), "ran")+"; cat")
			put(t, host, ".gitattributes", "*.bin filter=canary\n")
			return host
		},
	} {
		t.Run(name, func(t *testing.T) {
			host := change(t)
			put(t, host, "file.txt", "one\n")
			git(t, host, "add", "-A")
			git(t, host, "commit", "-qm", "more")
			before := fingerprint(t, host)
			d := driver(t, host, withGit(t))
			l := private(t, d, who, "")
			require.NotEmpty(t, mustLoad(t, d, l.ID).Git, "the built-in reader refuses it")
			require.Empty(t, git(t, l.Dir, "status", "--porcelain"))
			git(t, l.Dir, "fsck", "--strict", "--full")
			git(t, l.Dir, "tag", "v9")
			git(t, l.Dir, "config", "core.hooksPath", "/evil")
			put(t, l.Dir, "file.txt", "two\n")
			git(t, l.Dir, "commit", "-qam", "work")
			git(t, l.Dir, "gc", "-q", "--prune=now")
			git(t, host, "pack-refs", "--all", "--no-prune")
			require.NoError(t, os.Remove(filepath.Join(host, ".git", filepath.FromSlash(d.pinName(l.ID)))))
			p := collect(t, d, l)
			require.Equal(t, "m file.txt\n", status(p))
			require.Empty(t, p.HostChanges)

			// The pin is packed and the record is lost.
			require.NoError(t, os.RemoveAll(d.stateDir(l.ID)))
			done, err := d.Sweep(ctx)
			require.NoError(t, err)
			require.Equal(t, []string{l.ID}, done)
			require.NotContains(t, git(t, host, "for-each-ref"), "assent")
			require.NoError(t, os.Remove(filepath.Join(host, ".git", packedRefs)))
			same(t, before, fingerprint(t, host))
		})
	}
}
