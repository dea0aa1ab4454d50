package git

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/worktree"
)

// byHand applies a patch to a clean checkout of base, writes the large files in their places, and returns the tree id.
func byHand(t testing.TB, host string, p worktree.Patch) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clean")
	git(t, host, "worktree", "add", "-q", "--detach", dir, p.Base)
	if len(p.Bytes) > 0 {
		_, err := tryGit(dir, p.Bytes, "apply", "--index", "--whitespace=nowarn")
		require.NoError(t, err)
	}
	for _, l := range p.Large {
		path := filepath.Join(dir, l.Path)
		require.NoError(t, os.RemoveAll(path))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		f, err := os.Create(path)
		require.NoError(t, err)
		require.NoError(t, l.Copy(ctx, f))
		require.NoError(t, f.Close())
		// As a blob, because the rules of the repository need not leave such a file as it is.
		require.Equal(t, l.ID, git(t, dir, "hash-object", "-w", "--no-filters", "--", l.Path))
		fi, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, l.Size, fi.Size())
		git(t, dir, "update-index", "--add", "--cacheinfo", l.Mode+","+l.ID+","+l.Path)
	}
	return git(t, dir, "write-tree")
}

// bothWays runs a test with the built-in reader, and with trees that git makes.
func bothWays(t *testing.T, test func(t *testing.T, host string, d *Driver), prepare func(t *testing.T, host string)) {
	for _, byGit := range []bool{false, true} {
		t.Run(fmt.Sprintf("git=%v", byGit), func(t *testing.T) {
			t.Parallel()
			host := repo(t)
			prepare(t, host)
			d := driver(t, host, withGit(t))
			d.always = byGit
			test(t, host, d)
		})
	}
}

func paths(list []worktree.LargeFile) (out []string) {
	for _, l := range list {
		out = append(out, l.Path)
	}
	return out
}

func TestHugeFilesLieBesideThePatch(t *testing.T) {
	bothWays(t, hugeFilesLieBesideThePatch, func(t *testing.T, host string) {
		put(t, host, "was-big", strings.Repeat("big\n", 5000))
		put(t, host, "gone", strings.Repeat("\x00gone", 5000))
		put(t, host, "shrinks", strings.Repeat("s\n", 10000))
		commitAll(t, host)
	})
}

func hugeFilesLieBesideThePatch(t *testing.T, host string, d *Driver) {
	d.largeFile = 10_000
	l := acquire(t, d, who, "")
	put(t, l.Dir, "huge/new.bin", strings.Repeat("\x00new", 5000))
	put(t, l.Dir, "was-big", strings.Repeat("BIG\n", 5000))
	put(t, l.Dir, "run.sh", strings.Repeat("echo\n", 5000))
	put(t, l.Dir, "small", "s\n")
	put(t, l.Dir, "exactly", strings.Repeat("x", 10_000))
	put(t, l.Dir, "shrinks", "s\n")
	require.NoError(t, os.Remove(filepath.Join(l.Dir, "gone")))
	replaceBy(t, l.Dir, "link", func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("l"), 10_001), 0o666) })
	replaceBy(t, l.Dir, "src", func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("d"), 10_001), 0o666) })
	require.NoError(t, os.Chmod(filepath.Join(l.Dir, "huge/new.bin"), 0))
	require.NoError(t, os.Chmod(filepath.Join(l.Dir, "huge"), 0o500))

	p := collect(t, d, l)
	require.Equal(t, []string{"huge/new.bin", "link", "run.sh", "src", "was-big"}, paths(p.Large))
	require.Equal(t, "100755", p.Large[2].Mode)
	require.Equal(t, "a exactly\nd gone\na huge/new.bin\nt link\nm run.sh\nm shrinks\na small\na src\nd src/deep/er/leaf.txt\nd src/main.go\nm was-big\n", status(p))
	for _, f := range p.Files {
		require.Equal(t, strings.Contains(" huge/new.bin link run.sh src was-big ", " "+f.Path+" "), f.Large, f.Path)
	}
	require.Equal(t, []string{
		`"huge/new.bin" is too large for the patch (20000 bytes): it lies beside it`, `"link" is too large for the patch (10001 bytes): it lies beside it`,
		`"run.sh" is too large for the patch (25000 bytes): it lies beside it`, `"src" is too large for the patch (10001 bytes): it lies beside it`,
		`"was-big" is too large for the patch (20000 bytes): it lies beside it`,
		`"gone" was too large for the patch: it cannot be taken back there`, `"shrinks" was too large for the patch: it cannot be taken back there`,
	}, p.Warnings)
	require.Less(t, len(p.Bytes), 20_000)
	require.Equal(t, p.Tree, byHand(t, host, p))

	// What has changed since is not passed off as what was collected, and a failing writer is.
	put(t, l.Dir, "was-big", strings.Repeat("bad\n", 5000))
	var changing *worktree.ChangingError
	require.ErrorAs(t, p.Large[4].Copy(ctx, new(bytes.Buffer)), &changing)
	require.NoError(t, os.Remove(filepath.Join(l.Dir, "was-big")))
	require.ErrorAs(t, p.Large[4].Copy(ctx, new(bytes.Buffer)), &changing)
	full := errors.New("full")
	require.ErrorIs(t, p.Large[0].Copy(ctx, failing{full}), full)
	require.NoError(t, d.Dispose(ctx, l, true))
	requireGone(t, p.Large[0].Copy(ctx, new(bytes.Buffer)), "disposed")
}

type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 0, w.err }

func TestAPatchIsBounded(t *testing.T) {
	bothWays(t, aPatchIsBounded, func(t *testing.T, host string) {
		for i := range 40 {
			put(t, host, fmt.Sprintf("old%02d", i), strings.Repeat(fmt.Sprintf("old %d\n", i), 200))
		}
		commitAll(t, host)
	})
}

func aPatchIsBounded(t *testing.T, host string, d *Driver) {
	d.largePatch = 20_000
	l := acquire(t, d, who, "")
	for i := range 40 {
		require.NoError(t, os.Remove(filepath.Join(l.Dir, fmt.Sprintf("old%02d", i))))
		put(t, l.Dir, fmt.Sprintf("new%02d", i), strings.Repeat(fmt.Sprintf("new %d\n", i), 200))
		require.NoError(t, os.Symlink("x", filepath.Join(l.Dir, fmt.Sprintf("ln%02d", i))))
	}
	p := collect(t, d, l)
	require.Less(t, len(p.Bytes), 40_000)
	require.Greater(t, len(p.Large), 20)
	require.Equal(t, p.Tree, byHand(t, host, p))
	again := collect(t, d, l)
	require.Equal(t, p.Bytes, again.Bytes)
	require.Equal(t, p.Files, again.Files)
	require.Equal(t, paths(p.Large), paths(again.Large))
}

// TestHugeFilesWithConvertedLineEnds has files of more than is held in memory, which git stores with other line ends.
func TestHugeFilesWithConvertedLineEnds(t *testing.T) {
	bothWays(t, hugeFilesWithConvertedLineEnds, func(t *testing.T, host string) {
		git(t, host, "config", "core.autocrlf", "true")
		put(t, host, ".gitattributes", "*.txt text\n")
		put(t, host, "stays-crlf", "a\r\nb\r\n")
		git(t, host, "-c", "core.autocrlf=false", "add", "-A")
		git(t, host, "-c", "core.autocrlf=false", "commit", "-qm", "crlf")
	})
}

func hugeFilesWithConvertedLineEnds(t *testing.T, _ string, d *Driver) {
	l := acquire(t, d, who, "")
	d.largeFile = 1 << 20
	lines := strings.Repeat("text\r\n", maxTextDiff/6+1000)
	put(t, l.Dir, "auto", lines)
	put(t, l.Dir, "lone", lines+"x\ry")
	put(t, l.Dir, "set.txt", lines+"x\ry\r")
	put(t, l.Dir, "stays-crlf", lines)
	put(t, l.Dir, "bin", lines+"\x00")
	put(t, l.Dir, "lf", strings.Repeat("text\n", maxTextDiff/5+1000))
	git(t, l.Dir, "add", "-A")
	p := collect(t, d, l)
	require.Equal(t, git(t, l.Dir, "write-tree"), p.Tree)
	require.Equal(t, []string{"auto", "bin", "lf", "lone", "set.txt", "stays-crlf"}, paths(p.Large))
	for _, large := range p.Large {
		var b bytes.Buffer
		require.NoError(t, large.Copy(ctx, &b), large.Path)
		require.Equal(t, large.ID, blobID(b.Bytes()).String())
		require.Equal(t, int64(b.Len()), large.Size)
	}
}
