package git

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStoredCRLFIsKept has texts that are stored with some CR LF where the rules leave line ends to the content, and changes far
// from each.
func TestStoredCRLFIsKept(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		for _, bound := range []int64{LargePatch, 60} {
			t.Run(fmt.Sprint(format, bound), func(t *testing.T) {
				bothWays(t, func(t *testing.T, host string, d *Driver) { storedCRLFIsKept(t, host, d, bound) }, func(t *testing.T, host string) {
					if format == "sha256" {
						sha256Repo(t, host)
					}
					put(t, host, "mixed", "a\r\n"+numbered("l", 60))
					put(t, host, "crlf", strings.Repeat("c\r\n", 50))
					put(t, host, "hidden", strings.Repeat("h\r\n", 50))
					put(t, host, "raw", "a\r\n"+numbered("l", 60))
					commitNeeds(t, host, "stored")
					put(t, host, ".gitattributes", "* text=auto\nhidden -diff\nraw -text\n")
					git(t, host, "add", ".gitattributes")
					git(t, host, "commit", "-qm", "rules")
				})
			})
		}
	}
}

func storedCRLFIsKept(t *testing.T, host string, d *Driver, bound int64) {
	l := acquire(t, d, who, "")
	if mustLoad(t, d, l.ID).Git == nil && bound != LargePatch {
		t.Skip("the built-in writer has no other way for these")
	}
	d.largePatch = bound
	changed := "a\r\n" + strings.Replace(numbered("l", 60), "l 40", "l forty", 1)
	put(t, l.Dir, "mixed", changed)
	put(t, l.Dir, "raw", changed)
	put(t, l.Dir, "crlf", strings.Repeat("c\r\n", 49)+"d\n")
	put(t, l.Dir, "hidden", strings.Repeat("h\r\n", 49))
	p := collect(t, d, l)
	require.Equal(t, "m crlf\nm hidden\nm mixed\nm raw\n", status(p))
	require.Equal(t, p.Tree, byHand(t, host, p))
	if bound != LargePatch {
		require.NotEmpty(t, p.Large)
		return
	}
	for _, f := range p.Files {
		require.Equal(t, map[string][2]int{"crlf": {1, 1}, "hidden": {0, 1}, "mixed": {1, 1}, "raw": {1, 1}}[f.Path],
			[2]int{f.Insertions, f.Deletions}, f.Path)
	}
	byIndex, byFiles := applied(t, host, p)
	require.Equal(t, p.Tree, byIndex)
	require.Equal(t, p.Tree, byFiles)
}
