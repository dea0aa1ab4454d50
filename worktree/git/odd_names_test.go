package git

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAFolderThatEndsWithASpace has changes without lines, of which git apply knows the names from their heads alone.
func TestAFolderThatEndsWithASpace(t *testing.T) {
	for _, bound := range []int64{LargePatch, 300} {
		t.Run(fmt.Sprint(bound), func(t *testing.T) {
			bothWays(t, func(t *testing.T, host string, d *Driver) {
				d.largePatch = bound
				l := acquire(t, d, who, "")
				put(t, l.Dir, "x /empty", "")
				put(t, l.Dir, "x /text", "text\n")
				put(t, l.Dir, "a b / /binary b/a b ", "\x00")
				put(t, l.Dir, "ü /more", strings.Repeat("\x00more", 100))
				require.NoError(t, os.Chmod(filepath.Join(l.Dir, "was /mode"), 0o755))
				require.NoError(t, os.Remove(filepath.Join(l.Dir, "was /gone")))
				p := collect(t, d, l)
				require.Equal(t, p.Tree, byHand(t, host, p))
			}, func(t *testing.T, host string) {
				put(t, host, "was /mode", "mode\n")
				put(t, host, "was /gone", "\x00")
				commitAll(t, host)
			})
		})
	}
}
