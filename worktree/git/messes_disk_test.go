package git

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// diskMesses are what agents do with what a file system can and git cannot, or hardly.
var diskMesses = []mess{
	{name: "latin-1 and utf-16", status: "m latin\na utf16\n", host: func(t *testing.T, host string) {
		put(t, host, "latin", "caf\xe9\nna\xefve\nr\xe9sum\xe9\n")
		commitAll(t, host)
	}, do: func(t *testing.T, dir string) {
		put(t, dir, "latin", "caf\xe9\nna\xefve \xff\nr\xe9sum\xe9\n\x80\x81")
		put(t, dir, "utf16", "\xff\xfeh\x00i\x00\r\x00\n\x00")
	}},
	{name: "NUL in text", status: "m README.md\na nul-last\n", do: func(t *testing.T, dir string) {
		put(t, dir, "README.md", "# hello\n\x00\nworld\n")
		put(t, dir, "nul-last", strings.Repeat("text\n", 5000)+"\x00")
	}},
	{name: "very long lines", status: "m long\n", host: func(t *testing.T, host string) {
		put(t, host, "long", strings.Repeat("a", 1<<20)+"\nmiddle\n"+strings.Repeat("b", 1<<20)+"\n")
		commitAll(t, host)
	}, do: func(t *testing.T, dir string) {
		put(t, dir, "long", strings.Repeat("a", 1<<20)+"\nMIDDLE\n"+strings.Repeat("b", 1<<20)+"c")
	}},
	{name: "very many lines", status: "m many\na newlines\n", host: func(t *testing.T, host string) {
		put(t, host, "many", strings.Repeat("x\n", maxDiffLines+10))
		commitAll(t, host)
	}, do: func(t *testing.T, dir string) {
		put(t, dir, "many", strings.Repeat("x\n", maxDiffLines)+"y\n"+strings.Repeat("x\n", 9))
		put(t, dir, "newlines", strings.Repeat("\n", 1<<21))
	}},
	{name: "odd line separators", status: "a bom\na separators\n", do: func(t *testing.T, dir string) {
		put(t, dir, "bom", "\ufefffirst\nsecond\n")
		put(t, dir, "separators", "a\u2028b\u2029c\u0085d\x0be\x0cf\rg\n")
	}},
	{name: "no newline at the end, gained and lost", status: "m README.md\nm no-eol\n", do: func(t *testing.T, dir string) {
		put(t, dir, "no-eol", "no end\n")
		put(t, dir, "README.md", "# hello\n\nworld")
	}},
	{name: "case twins", status: "r readme.MD < README.md\na run.SH\n", do: func(t *testing.T, dir string) {
		require.NoError(t, os.Rename(filepath.Join(dir, "README.md"), filepath.Join(dir, "readme.MD")))
		put(t, dir, "run.SH", "twin\n")
	}},
	{name: "one name in two Unicode forms", status: "a ne\u0301\na n\u00e9\n", do: func(t *testing.T, dir string) {
		put(t, dir, "n\u00e9", "composed\n")
		put(t, dir, "ne\u0301", "decomposed\n")
	}},
	{name: "empty folders", do: func(t *testing.T, dir string) {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o777))
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "src/empty"), 0o700))
	}},
	{name: "a folder that becomes empty", status: "d src/deep/er/leaf.txt\n", do: func(t *testing.T, dir string) {
		require.NoError(t, os.Remove(filepath.Join(dir, "src/deep/er/leaf.txt")))
	}},
	{name: "file replaced by a folder and back", do: func(t *testing.T, dir string) {
		path := filepath.Join(dir, "README.md")
		require.NoError(t, os.Remove(path))
		put(t, dir, "README.md/x", "x\n")
		require.NoError(t, os.RemoveAll(path))
		put(t, dir, "README.md", "# hello\n\nworld\n")
	}},
	{name: "a program becomes a link, a link a program", status: "t link\nt run.sh\n", do: func(t *testing.T, dir string) {
		replaceBy(t, dir, "run.sh", func(path string) error { return os.Symlink("src", path) })
		replaceBy(t, dir, "link", func(path string) error { return os.WriteFile(path, []byte("#!/bin/sh\n"), 0o777) })
	}},
	{name: "a link's target becomes a file of that text", status: "t link\n", do: func(t *testing.T, dir string) {
		replaceBy(t, dir, "link", func(path string) error { return os.WriteFile(path, []byte("README.md"), 0o666) })
	}},
	{name: "link loops", status: "m link\na loop\na self\na up\n", do: func(t *testing.T, dir string) {
		replaceBy(t, dir, "link", func(path string) error { return os.Symlink("loop", path) })
		require.NoError(t, os.Symlink("link", filepath.Join(dir, "loop")))
		require.NoError(t, os.Symlink("self", filepath.Join(dir, "self")))
		require.NoError(t, os.Symlink(".", filepath.Join(dir, "up")))
	}},
	{name: "a link with a target that is long and odd", status: "a l\n", do: func(t *testing.T, dir string) {
		require.NoError(t, os.Symlink("a\nb\t\"\\\xff"+strings.Repeat("/x", 1500), filepath.Join(dir, "l")))
	}},
	{name: "two files swap names", status: "m README.md\nm no-eol\n", do: func(t *testing.T, dir string) {
		for _, move := range [][2]string{{"README.md", "tmp"}, {"no-eol", "README.md"}, {"tmp", "no-eol"}} {
			require.NoError(t, os.Rename(filepath.Join(dir, move[0]), filepath.Join(dir, move[1])))
		}
	}},
	{name: "a folder is renamed over and over", status: "r z/deep/er/leaf.txt < src/deep/er/leaf.txt\nr z/main.go < src/main.go\n", do: func(t *testing.T, dir string) {
		for _, move := range [][2]string{{"src", "x"}, {"x", "y"}, {"y", "z"}} {
			require.NoError(t, os.Rename(filepath.Join(dir, move[0]), filepath.Join(dir, move[1])))
		}
	}},
	{name: "a renamed program loses its bit", status: "r go.sh < run.sh\n", do: func(t *testing.T, dir string) {
		require.NoError(t, os.Rename(filepath.Join(dir, "run.sh"), filepath.Join(dir, "go.sh")))
		require.NoError(t, os.Chmod(filepath.Join(dir, "go.sh"), 0o644))
	}},
	{name: "copies of one file, the original gone", do: func(t *testing.T, dir string) {
		for i := range 3 {
			put(t, dir, fmt.Sprintf("copy%d", i), "# hello\n\nworld\n")
		}
		require.NoError(t, os.Remove(filepath.Join(dir, "README.md")))
	}, status: "r copy0 < README.md\na copy1\na copy2\n"},
	{name: "files without a right to read them", status: "a secret/inside\na secret/x\n", unlike: "git may not read them", host: func(t *testing.T, host string) {
		put(t, host, "kept/closed", "k\n")
		commitAll(t, host)
	}, do: func(t *testing.T, dir string) {
		put(t, dir, "secret/inside", "s\n")
		put(t, dir, "secret/x", "x\n")
		require.NoError(t, os.Chmod(filepath.Join(dir, "secret/inside"), 0))
		require.NoError(t, os.Chmod(filepath.Join(dir, "README.md"), 0))
		require.NoError(t, os.Chmod(filepath.Join(dir, "secret"), 0))
		require.NoError(t, os.Chmod(filepath.Join(dir, "kept"), 0))
	}},
	{name: "hard links", status: "m README.md\na twin\n", do: func(t *testing.T, dir string) {
		require.NoError(t, os.Link(filepath.Join(dir, "README.md"), filepath.Join(dir, "twin")))
		f, err := os.OpenFile(filepath.Join(dir, "twin"), os.O_WRONLY|os.O_APPEND, 0)
		require.NoError(t, err)
		_, err = f.WriteString("more\n")
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}},
	{name: "extended attributes", do: func(t *testing.T, dir string) {
		err := unix.Setxattr(filepath.Join(dir, "README.md"), "user.note", []byte("x"), 0)
		if err != nil {
			t.Logf("this file system has none: %v", err)
		}
	}},
	{name: "setuid, setgid and sticky", status: "m no-eol\n", do: func(t *testing.T, dir string) {
		require.NoError(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o755|os.ModeSetuid|os.ModeSetgid))
		require.NoError(t, os.Chmod(filepath.Join(dir, "README.md"), 0o666|os.ModeSticky))
		require.NoError(t, os.Chmod(filepath.Join(dir, "no-eol"), 0o700|os.ModeSetuid))
		require.NoError(t, os.Chmod(filepath.Join(dir, "src"), 0o777|os.ModeSticky))
	}},
	{name: "bits for others alone are no program", do: func(t *testing.T, dir string) {
		require.NoError(t, os.Chmod(filepath.Join(dir, "README.md"), 0o655))
	}},
	{name: "times long ago and far ahead", status: "m README.md\n", do: func(t *testing.T, dir string) {
		put(t, dir, "README.md", "# HELLO\n\nWORLD\n")
		require.NoError(t, os.Chtimes(filepath.Join(dir, "README.md"), time.Unix(0, 0), time.Unix(0, 0)))
		require.NoError(t, os.Chtimes(filepath.Join(dir, "no-eol"), time.Unix(1<<33, 0), time.Unix(1<<33, 0)))
	}},
	{name: "a file with holes, one cut short", status: "m bin.dat\na holes\n", do: func(t *testing.T, dir string) {
		put(t, dir, "holes", "x")
		require.NoError(t, os.Truncate(filepath.Join(dir, "holes"), 3<<20))
		require.NoError(t, os.Truncate(filepath.Join(dir, "bin.dat"), 4))
	}},
	{name: "names that git refuses", warns: 6, status: "a ..git\na .gitx\n", do: func(t *testing.T, dir string) {
		for _, n := range []string{"git~1", ".git ", ".git.", ".git::$INDEX_ALLOCATION", "a\\.git", ".gitx", "..git"} {
			put(t, dir, n, "x\n")
		}
		require.NoError(t, os.Symlink("README.md", filepath.Join(dir, ".gitmodules")))
	}},
	{name: "longest names", do: func(t *testing.T, dir string) {
		put(t, dir, strings.Repeat("n", 255), "x\n")
		put(t, dir, strings.Repeat(strings.Repeat("d", 200)+"/", 15)+"leaf", "x\n")
	}},
	{name: "a path longer than the system takes", warns: 1, says: []string{"longer than"}, unlike: "git fails on such a path", status: "a beside\n",
		do: func(t *testing.T, dir string) {
			put(t, dir, "beside", "b\n")
			dig(t, dir, 40, strings.Repeat("d", 200))
		}},
	{name: "folders as deep as can be", warns: 1, says: []string{"longer than"}, unlike: "git fails on such a path",
		do: func(t *testing.T, dir string) { dig(t, dir, 2500, "d") }},
	{name: "many new files", do: func(t *testing.T, dir string) {
		for i := range 300 {
			put(t, dir, fmt.Sprintf("gen/%d/%d.txt", i%7, i), strings.Repeat("y\n", i%5))
		}
	}},
	{name: "sockets, FIFOs and devices over files", warns: 3, status: "d README.md\nd run.sh\n", do: func(t *testing.T, dir string) {
		replaceBy(t, dir, "README.md", func(path string) error { return syscall.Mkfifo(path, 0o666) })
		replaceBy(t, dir, "run.sh", func(path string) error { return syscall.Mknod(path, syscall.S_IFSOCK|0o666, 0) })
		require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "src/pipe"), 0o666))
	}},
	{name: "a huge file", warns: 1, says: []string{"lies beside"}, status: "a huge\nm no-eol\n", do: func(t *testing.T, dir string) {
		put(t, dir, "huge", "x")
		require.NoError(t, os.Truncate(filepath.Join(dir, "huge"), LargeFile+1))
		put(t, dir, "no-eol", "small")
	}},
	{name: "moved away and back", status: "m README.md\n", do: func(t *testing.T, dir string) {
		put(t, dir, "README.md", "moved\n")
		away := filepath.Join(filepath.Dir(dir), "away")
		require.NoError(t, os.Rename(dir, away))
		require.NoError(t, os.Rename(away, dir))
	}},
	{name: "compressed and random bytes", do: func(t *testing.T, dir string) {
		put(t, dir, "zero", string(bytes.Repeat([]byte{0}, 100_000)))
		var b bytes.Buffer
		for i, x := 0, uint32(1); i < 70_000; i++ {
			x = x*1664525 + 1013904223
			b.WriteByte(byte(x >> 24))
		}
		put(t, dir, "noise", b.String())
	}},
}

// commitAll commits whatever there is.
func commitAll(t *testing.T, dir string) {
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-qm", "more")
}

// replaceBy removes a path and makes another thing of that name.
func replaceBy(t *testing.T, dir, name string, make func(path string) error) {
	path := filepath.Join(dir, name)
	require.NoError(t, os.RemoveAll(path))
	require.NoError(t, make(path))
}

// dig makes a file in depth nested folders, one step at a time, because the whole path is too long to be named.
func dig(t *testing.T, dir string, depth int, name string) {
	at, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	for range depth {
		require.NoError(t, unix.Mkdirat(at, name, 0o777))
		next, err := unix.Openat(at, name, unix.O_DIRECTORY, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(at))
		at = next
	}
	f, err := unix.Openat(at, "bottom", unix.O_CREAT|unix.O_WRONLY, 0o666)
	require.NoError(t, err)
	require.NoError(t, unix.Close(f))
	require.NoError(t, unix.Close(at))
}
