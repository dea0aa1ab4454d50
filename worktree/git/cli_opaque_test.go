package git

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestByGitTheAgentsRulesHideNothing has an agent say that text is not to be shown in a diff: what people can read of the patch is as
// the rules of the base have it.
func TestByGitTheAgentsRulesHideNothing(t *testing.T) {
	host := repo(t)
	put(t, host, "a.c", "one\n")
	put(t, host, "b.bin", "one\n")
	put(t, host, ".gitattributes", "*.bin -diff\n")
	commitNeeds(t, host, "needs")
	d := driver(t, host, withGit(t))
	d.always = true
	l := acquire(t, d, who, "")
	put(t, l.Dir, "a.c", "two\n")
	put(t, l.Dir, "b.bin", "two\n")
	put(t, l.Dir, "sub/c.c", "new\n")
	put(t, l.Dir, ".gitattributes", "* -diff\n*.bin diff\n")
	put(t, l.Dir, "sub/.gitattributes", "* -diff\n")
	p := collect(t, d, l)
	require.Contains(t, string(p.Bytes), "+two\n")
	require.Contains(t, string(p.Bytes), "+new\n")
	require.Equal(t, p.Tree, byHand(t, host, p))
	for _, f := range p.Files {
		require.Equal(t, f.Path == "b.bin", f.Binary, f.Path)
	}
}
