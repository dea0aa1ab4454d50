package git

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestByGitAnIgnoredSubmodule has a .gitmodules that asks git to say nothing of a submodule, or is none: what became of the submodule
// is in the patch.
func TestByGitAnIgnoredSubmodule(t *testing.T) {
	ignore := "[submodule \"m\"]\n\tpath = m\n\turl = ./m\n\tignore = all\n"
	for name, tc := range map[string]struct{ base, agent string }{
		"by the base": {ignore, ""}, "by the agent": {"", ignore}, "broken": {"", "[submodule \"m\n"},
	} {
		t.Run(name, func(t *testing.T) {
			host := repo(t)
			put(t, host, ".gitmodules", tc.base)
			put(t, host, ".gitattributes", "*.c ident\n")
			commitNeeds(t, host, "needs")
			git(t, host, "update-index", "--add", "--cacheinfo", "160000,"+git(t, host, "rev-parse", "HEAD")+",m")
			git(t, host, "commit", "-qm", "a submodule")
			d := driver(t, host, withGit(t))
			d.always = true
			l := acquire(t, d, who, "")
			if tc.agent != "" {
				put(t, l.Dir, ".gitmodules", tc.agent)
			}
			require.NoError(t, os.Remove(filepath.Join(l.Dir, "m")))
			p := collect(t, d, l)
			require.Contains(t, status(p), "d m\n")
			require.Equal(t, p.Tree, byHand(t, host, p))
		})
	}
}
