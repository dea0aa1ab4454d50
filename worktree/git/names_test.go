package git

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNamesThatGitRefusesAreNamed has files and links that git leaves out without a word, or that make it refuse the whole patch.
func TestNamesThatGitRefusesAreNamed(t *testing.T) {
	bothWays(t, func(t *testing.T, host string, d *Driver) {
		l := acquire(t, d, who, "")
		put(t, l.Dir, ".git\xff", "x\n")
		put(t, l.Dir, "sub/.g\u200cit\ufffe/x", "x\n")
		links := []string{".gitmodules\xff", "a/.GitModules/deep/y", ".gitmodules:x/y", "gitmod~1:x/y", `gitmod~2:x\y`}
		fine := []string{"gitmod~1/y", ".gitmodules /y", ".gitmodule\u017f"}
		for _, name := range append(links, fine...) {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(l.Dir, name)), 0o777))
			require.NoError(t, os.Symlink("x", filepath.Join(l.Dir, name)))
		}
		put(t, l.Dir, "a/.GitModules/file", "x\n")
		p := collect(t, d, l)
		require.Equal(t, "a .gitmodules /y\na .gitmodule\u017f\na a/.GitModules/file\na gitmod~1/y\n", status(p))
		for _, name := range append(links, ".git\xff", "sub/.g\u200cit\ufffe") {
			require.Contains(t, p.Warnings, fmt.Sprintf("%q is a name that git refuses: it is not in the patch", name))
		}
		require.Equal(t, p.Tree, byHand(t, host, p))
	}, func(*testing.T, string) {})
}
