package git

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestByGitWhatAPartialCloneLacksIsWrittenOver has an agent write where the sparse checkout of a partial clone has left out files that
// were never fetched.
func TestByGitWhatAPartialCloneLacksIsWrittenOver(t *testing.T) {
	src := repo(t)
	put(t, src, "out/a", "a\n")
	put(t, src, "out/kept", "kept\n")
	put(t, src, "other/b/c", "c\n")
	commitNeeds(t, src, "more")
	git(t, src, "config", "uploadpack.allowFilter", "true")
	host := filepath.Join(t.TempDir(), "host")
	git(t, filepath.Dir(src), "clone", "-q", "--filter=blob:none", "--sparse", "file://"+src, host)
	d := driver(t, host, withGit(t))
	l := acquire(t, d, who, "")
	put(t, l.Dir, "out/a", "mine\n")
	put(t, l.Dir, "src/main.go", "mine too\n")
	require.NoError(t, os.Chmod(filepath.Join(l.Dir, "src/main.go"), 0o755))
	put(t, l.Dir, "other", "a file now\n")
	put(t, l.Dir, "README.md", "as ever\n")
	p := collect(t, d, l)
	require.Equal(t, "m README.md\na other\nd other/b/c\nm out/a\nm src/main.go\n", status(p))
	for _, name := range []string{"other/b/c", "out/a", "src/main.go"} {
		require.Contains(t, p.Warnings, `the repository does not have what the commit has at "`+name+`": the patch cannot be taken back there`)
	}
	require.Len(t, p.Warnings, 3)
	d.largePatch = 1
	again := collect(t, d, l)
	require.Equal(t, []string{"README.md", "other", "out/a", "src/main.go"}, paths(again.Large))
	require.Equal(t, p.Tree, byHand(t, src, again))
	// Where the contents are, it applies.
	byIndex, byFiles := applied(t, src, p)
	require.Equal(t, p.Tree, byIndex)
	require.Equal(t, p.Tree, byFiles)
}
