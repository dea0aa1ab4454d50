package git

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestByGitWhatCannotBeConvertedIsReadByItsOwnName has files that are not in their encoding, under names that git reads as others
// where it reads them by lines.
func TestByGitWhatCannotBeConvertedIsReadByItsOwnName(t *testing.T) {
	host := repo(t)
	put(t, host, ".gitattributes", "*.u16* text working-tree-encoding=UTF-16LE\n")
	commitNeeds(t, host, "needs")
	d := driver(t, host, withGit(t))
	l := acquire(t, d, who, "")
	put(t, l.Dir, "a.u16", "i\x00")
	long := ""
	for len(long) < 4000 {
		long += strings.Repeat("d", 200) + "/"
	}
	names := []string{"a.u16\r", "a.u16\n", "new\nline.u16", "a\n/etc/passwd\n.u16", long + strings.Repeat("f", maxPath-len(long)-4) + ".u16"}
	root, err := os.OpenRoot(l.Dir)
	require.NoError(t, err)
	defer root.Close()
	for i, name := range names {
		require.NoError(t, root.MkdirAll(filepath.Dir(name), 0o777))
		require.NoError(t, root.WriteFile(name, fmt.Appendf(nil, "odd%02d", i), 0o666))
	}
	p := collect(t, d, l)
	require.Equal(t, p.Tree, byHand(t, host, p))
	for i, name := range names {
		require.Contains(t, p.Warnings, fmt.Sprintf("%q is not in the encoding that the base says: its bytes are in the patch as they are", name))
		require.Contains(t, string(p.Bytes), fmt.Sprintf("+odd%02d\n", i))
	}
}

// TestByGitAnEncodingIsAskedOfGit has rules that git reads in its own way: they fail no collect.
func TestByGitAnEncodingIsAskedOfGit(t *testing.T) {
	for name, rule := range map[string]string{
		"unknown": "*.u16 working-tree-encoding=x", "another case": "*.U16 working-tree-encoding=UTF-16LE",
	} {
		t.Run(name, func(t *testing.T) {
			host := repo(t)
			put(t, host, ".gitattributes", rule+"\n*.c ident\n")
			commitNeeds(t, host, "needs")
			git(t, host, "config", "core.ignoreCase", "true")
			d := driver(t, host, withGit(t))
			l := acquire(t, d, who, "")
			put(t, l.Dir, "a.u16", "odd")
			p := collect(t, d, l)
			require.Contains(t, string(p.Bytes), "+odd\n")
			require.Equal(t, []string{`"a.u16" is not in the encoding that the base says: its bytes are in the patch as they are`}, p.Warnings)
		})
	}
}
