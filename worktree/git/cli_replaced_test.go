package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestByGitWhatReplaceRefsShow has files whose blob or tree a replace ref shows as another, and an agent that leaves what is behind it.
func TestByGitWhatReplaceRefsShow(t *testing.T) {
	for name, c := range map[string]struct {
		do     func(dir string)
		status string
	}{
		"touched":        {func(dir string) { put(t, dir, "x", "Y shown\n"); put(t, dir, "b", "Y\x00 shown\n") }, ""},
		"what is behind": {func(dir string) { put(t, dir, "x", "X stored\n"); put(t, dir, "b", "X\x00 stored\n") }, "m b\nm x\n"},
		"new":            {func(dir string) { put(t, dir, "z", "X stored\n"); put(t, dir, "b", "Z\x00\n") }, "m b\na z\n"},
		"mode":           {func(dir string) { require.NoError(t, os.Chmod(filepath.Join(dir, "x"), 0o755)) }, "m x\n"},
		"gone":           {func(dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "x"))) }, "d x\n"},
		"large": {func(dir string) {
			put(t, dir, "x", "X stored"+strings.Repeat("!", 1000))
			put(t, dir, "b", "X stored"+strings.Repeat("!", 1000))
		}, "m b\nm x\n"},
		"folder": {func(dir string) { put(t, dir, "f/a", "behind\n") }, "m f/a\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := repo(t)
			put(t, host, "big", "X stored"+strings.Repeat("!", 1000))
			put(t, host, "x", "X stored\n")
			put(t, host, "y", "Y shown\n")
			put(t, host, "b", "X\x00 stored\n")
			put(t, host, "c", "Y\x00 shown\n")
			put(t, host, "f/a", "behind\n")
			put(t, host, "g/a", "in front\n")
			commitNeeds(t, host, "needs")
			for old, new := range map[string]string{"x": "y", "b": "c", "big": "y", "f": "g"} {
				git(t, host, "replace", git(t, host, "rev-parse", "HEAD:"+old), git(t, host, "rev-parse", "HEAD:"+new))
			}
			d := driver(t, host, withGit(t))
			d.largeFile = 500
			l := acquire(t, d, who, "")
			requireFile(t, l.Dir, "x", "Y shown\n")
			requireFile(t, l.Dir, "f/a", "in front\n")
			before := collect(t, d, l)
			require.Empty(t, before.Files)
			c.do(l.Dir)
			p := collect(t, d, l)
			require.Equal(t, name == "touched", before.Tree == p.Tree)
			require.Equal(t, c.status, status(p))
			clean := filepath.Join(t.TempDir(), "clean")
			git(t, host, "worktree", "add", "-q", "--detach", clean, p.Base)
			if len(p.Bytes) > 0 {
				var env []string
				if name == "what is behind" {
					// git apply itself takes the content of a binary file that it has by its id, and so what is shown of it.
					env = append(env, "GIT_NO_REPLACE_OBJECTS=1")
				}
				_, err := gitWith(clean, env, p.Bytes, "apply", "--whitespace=nowarn")
				require.NoError(t, err, "%s", p.Bytes)
			}
			for _, large := range p.Large {
				f, err := os.Create(filepath.Join(clean, large.Path))
				require.NoError(t, err)
				require.NoError(t, large.Copy(ctx, f))
				require.NoError(t, f.Close())
			}
			same(t, fingerprint(t, l.Dir, ".git")[1:], fingerprint(t, clean, ".git")[1:])
		})
	}
}
