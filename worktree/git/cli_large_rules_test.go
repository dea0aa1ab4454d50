package git

import (
	"os"
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
