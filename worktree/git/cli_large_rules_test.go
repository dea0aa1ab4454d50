package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestByGitWhatStandsInPlaceOfRules puts a folder or a link in the place of an attribute file, which git would read for no rules, or for
// the agent's own: those of the base count all the same, and a large file that they are for can be read again.
func TestByGitWhatStandsInPlaceOfRules(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"folder":                 func(path string) error { return os.Mkdir(path, 0o777) },
		"link that reads a rule": func(path string) error { return os.Symlink("*.bat -text", path) },
		"link":                   func(path string) error { return os.Symlink("x", path) },
	} {
		for _, where := range []string{"", "sub/"} {
			t.Run(name+" "+where, func(t *testing.T) {
				host := repo(t)
				put(t, host, where+".gitattributes", "*.c ident\n*.bat text eol=crlf\n")
				put(t, host, where+"a.c", "/* $Id$ */\n")
				commitNeeds(t, host, "needs")
				d := driver(t, host, withGit(t))
				d.always, d.largeFile = true, 1000
				l := acquire(t, d, who, "")
				replaceBy(t, l.Dir, where+".gitattributes", change)
				if name == "folder" {
					put(t, l.Dir, where+".gitattributes/x", "x\n")
					require.NoError(t, os.Symlink("y", l.Dir+"/"+where+".gitattributes/y"))
				}
				put(t, l.Dir, where+"b.bat", "one\r\n")
				put(t, l.Dir, where+"large.bat", strings.Repeat("one\r\n", 400))
				p := collect(t, d, l)
				require.Contains(t, string(p.Bytes), "+one\n")
				require.Equal(t, []string{where + "large.bat"}, paths(p.Large))
				require.Equal(t, p.Tree, byHand(t, host, p))
			})
		}
	}
}

// TestByGitWhatIsOnlyHalfConvertedIsNamed has files below a folder of that name that git alone converts.
func TestByGitWhatIsOnlyHalfConvertedIsNamed(t *testing.T) {
	host := repo(t)
	put(t, host, ".gitattributes", "*.c ident\n*.u16 text working-tree-encoding=UTF-16LE\n*.up filter=up\n*.down filter=down\n*.bat text eol=crlf\n")
	git(t, host, "config", "filter.up.clean", "tr a-z A-Z")
	commitNeeds(t, host, "needs")
	d := driver(t, host, withGit(t, "up"))
	l := acquire(t, d, who, "")
	for name, content := range map[string]string{"a.c": "$Id: mine $\n", "b.u16": "h\x00\n\x00", "c.up": "low\n", "d.down": "low\n", "e.bat": "e\r\n", "f.c": "x\n"} {
		put(t, l.Dir, "s/.gitattributes/"+name, content)
	}
	require.NoError(t, os.Symlink("x", filepath.Join(l.Dir, "s/.gitattributes/l.up")))
	p := collect(t, d, l)
	require.Equal(t, p.Tree, byHand(t, host, p))
	var want []string
	for _, name := range []string{"a.c", "b.u16", "c.up"} {
		want = append(want, `"s/.gitattributes/`+name+`" has the name of an attribute file, or is below one: only its line ends were converted, and git apply writes it otherwise`)
	}
	require.Equal(t, append(want, `filter "down" did not run: the files that it is for are as they are stored`), p.Warnings)
}
