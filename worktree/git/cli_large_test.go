package git

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/worktree"
)

// TestByGitHugeFilesAreConverted has large files that only git converts, under names of any bytes.
func TestByGitHugeFilesAreConverted(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			host := repo(t)
			if format == "sha256" {
				sha256Repo(t, host)
			}
			put(t, host, ".gitattributes", "*.c ident\n*.bat text eol=crlf\n*.u16 text working-tree-encoding=UTF-16LE\n*.up filter=up\n*.bin -diff\n")
			git(t, host, "config", "filter.up.clean", "tr a-z A-Z")
			put(t, host, "old.c", strings.Repeat("/* $Id$ */\n", 200))
			put(t, host, "turns", strings.Repeat("t\n", 1000))
			put(t, host, "opens", strings.Repeat("o\n", 1000))
			commitNeeds(t, host, "needs")
			d := driver(t, host, withGit(t, "up"))
			d.always, d.largeFile = true, 1000
			l := acquire(t, d, who, "")
			require.NotNil(t, mustLoad(t, d, l.ID).Git)
			put(t, l.Dir, "a.up", strings.Repeat("low\n", 400))
			put(t, l.Dir, "bad.u16", strings.Repeat("odd", 401))
			put(t, l.Dir, "deep/.gitattributes", strings.Repeat("# none\n", 400))
			put(t, l.Dir, "deep/x.bat", strings.Repeat("one\r\n", 400))
			put(t, l.Dir, "fits.bat", strings.Repeat("12345678\r\n", 111)) // 999 bytes without CR
			put(t, l.Dir, "link:(top)*/\xff\n\"", strings.Repeat("odd\n", 400))
			put(t, l.Dir, "old.c", strings.Repeat("/* $Id: mine$ */\n", 201))
			replaceBy(t, l.Dir, "opens", func(path string) error { return os.Mkdir(path, 0o777) })
			put(t, l.Dir, "opens/[a]", strings.Repeat("in\n", 400))
			put(t, l.Dir, "t.u16", strings.Repeat("h\x00\n\x00", 800))
			replaceBy(t, l.Dir, "turns", func(path string) error { return os.Symlink("x", path) })
			p := collect(t, d, l)
			require.Equal(t, []string{"a.up", "bad.u16", "deep/.gitattributes", "deep/x.bat", "link:(top)*/\xff\n\"", "old.c", "opens/[a]", "t.u16"}, paths(p.Large))
			require.Contains(t, p.Warnings, `"opens" was too large for the patch: it cannot be taken back there`)
			require.Contains(t, p.Warnings, `"turns" was too large for the patch: it cannot be taken back there`)
			require.NotContains(t, string(p.Bytes), "mine")
			require.Equal(t, p.Tree, byHand(t, host, p))
			again := collect(t, d, l)
			require.Equal(t, p.Warnings, again.Warnings)
			require.Equal(t, p.Files, again.Files)

			require.NoDirExists(t, filepath.Join(d.stateDir(l.ID), "collect"))
			var changing *worktree.ChangingError
			for i, change := range []func(path string) error{
				os.Remove,
				func(path string) error { return os.WriteFile(path, []byte("small"), 0o666) },
				func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
			} {
				require.NoError(t, change(filepath.Join(l.Dir, p.Large[i].Path)))
				require.ErrorAs(t, p.Large[i].Copy(ctx, new(bytes.Buffer)), &changing, p.Large[i].Path)
				require.Equal(t, p.Large[i].Path, changing.Path)
			}
		})
	}
}

// TestByGitRandomBounds has any patch fit any bounds.
func TestByGitRandomBounds(t *testing.T) {
	seeds := uint64(4)
	if os.Getenv("ASSENT_LONG") == "1" {
		seeds = 100
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			host := repo(t)
			d := driver(t, host, withGit(t))
			d.always = true
			l := acquire(t, d, who, "")
			c := &chaos{t: t, rng: rand.New(rand.NewPCG(seed, 11)), dir: l.Dir}
			for range 20 + c.rng.IntN(40) {
				c.step()
			}
			d.largeFile, d.largePatch = c.rng.Int64N(200), c.rng.Int64N(4000)
			p := collect(t, d, l)
			require.Equal(t, p.Tree, byHand(t, host, p), "seed %d: %d, %d:\n%s", seed, d.largeFile, d.largePatch, strings.Join(c.log, "\n"))
			require.Equal(t, p.Bytes, collect(t, d, l).Bytes)
		})
	}
}

// TestAGitPatchIsCutIntoItsParts has the patch come in pieces of all sizes.
func TestAGitPatchIsCutIntoItsParts(t *testing.T) {
	file := func(path string) change { return change{path: path, new: &entry{path: path, mode: modeFile}} }
	text := "diff --git a/x b/x\n+diff --git a/y\n diff\ndiff\n" + "diff --git a/y b/y\n+" + strings.Repeat("y", 100) + "\n" + "diff --git a/z b/z\n+z\n"
	for _, max := range []int64{0, 60, 1000} {
		var whole string
		for _, size := range []int{len(text), 1, 7} {
			p := &gitPatch{max: max, parts: []change{file("x"), file("y"), file("z")}, files: map[string]*worktree.File{"x": {}, "y": {}, "z": {}},
				ids: func(*entry) string { return "" }}
			for i := 0; i < len(text); i += size {
				_, err := p.Write([]byte(text[i:min(i+size, len(text))]))
				require.NoError(t, err)
			}
			require.NoError(t, p.end())
			require.Equal(t, map[int64]int{0: 3, 60: 2, 1000: 0}[max], len(p.large), "%d %d", max, size)
			if size == len(text) {
				whole = string(p.bytes())
			}
			require.Equal(t, whole, string(p.bytes()))
		}
	}
	p := &gitPatch{max: 1000, parts: []change{file("x")}}
	_, err := p.Write([]byte(text))
	require.ErrorContains(t, err, "more than 1 changes")
	require.ErrorContains(t, (&gitPatch{parts: []change{file("x")}}).end(), "0 of 1 changes")
}
