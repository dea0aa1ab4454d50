package git

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestByGitNoFilterFindsAProgramInTheTree has allowed filters that name a file of the tree, or have an interpreter look for one,
// as `python -m` does where it was started.
func TestByGitNoFilterFindsAProgramInTheTree(t *testing.T) {
	for _, command := range []string{"./filter", "tools/filter %f", "sh filter", "/bin/sh ./filter", "PATH=.:$PATH; filter", ". ./filter; x"} {
		for _, part := range []string{"clean", "process"} {
			t.Run(command+" "+part, func(t *testing.T) {
				t.Parallel()
				host := repo(t)
				put(t, host, ".gitattributes", "*.x filter=own\n")
				commitNeeds(t, host, "needs")
				git(t, host, "config", "filter.own."+part, command)
				d := driver(t, host, withGit(t, "own"))
				l := acquire(t, d, who, "")
				ran := filepath.Join(t.TempDir(), "ran")
				for _, name := range []string{"filter", "tools/filter"} {
					put(t, l.Dir, name, "#!/bin/sh\necho >'"+ran+"'\ncat\n")
					require.NoError(t, os.Chmod(filepath.Join(l.Dir, name), 0o777))
				}
				put(t, l.Dir, "a.x", "x\n")
				put(t, l.Dir, "sub/b.x", "x\n")
				p, err := d.Collect(ctx, l)
				require.NoFileExists(t, ran)
				if part == "process" {
					return // one that does not answer may fail git, or not, as it likes
				}
				require.NoError(t, err)
				require.Equal(t, "a a.x\na filter\na sub/b.x\na tools/filter\n", status(p))
				require.Equal(t, p.Tree, byHand(t, host, p))
			})
		}
	}
}
