package git

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// contentMesses are what agents do to the content, names and kinds of files.
var contentMesses = []mess{
	{name: "nothing", do: func(t *testing.T, dir string) {}},
	{name: "edit in the middle", status: "m src/main.go\n", do: func(t *testing.T, dir string) {
		put(t, dir, "src/main.go", strings.Replace(numbered("line", 40), "line 20\n", "LINE 20\n", 1))
	}},
	{name: "edit at both ends", status: "m src/main.go\n", do: func(t *testing.T, dir string) {
		put(t, dir, "src/main.go", "first\n"+numbered("line", 40)+"last")
	}},
	{name: "same size, same mtime", status: "m README.md\n", do: func(t *testing.T, dir string) {
		path := filepath.Join(dir, "README.md")
		fi, err := os.Stat(path)
		require.NoError(t, err)
		put(t, dir, "README.md", "# HELLO\n\nworld\n")
		require.NoError(t, os.Chtimes(path, fi.ModTime(), fi.ModTime()))
	}},
	{name: "untracked text and binary", status: "a new/deep/file.txt\na new/img.png\n", do: func(t *testing.T, dir string) {
		put(t, dir, "new/deep/file.txt", "hello\n")
		put(t, dir, "new/img.png", "\x89PNG\x00\x01\x02"+strings.Repeat("\x00\xfe\x17", 500))
	}},
	{name: "binary edit beside text edit", status: "m README.md\nm bin.dat\n", do: func(t *testing.T, dir string) {
		put(t, dir, "bin.dat", "\x00\x01other"+strings.Repeat("\xff\x00", 100))
		put(t, dir, "README.md", "# hello\n\nall\n")
	}},
	{name: "binary becomes text and back", status: "m README.md\nm bin.dat\n", do: func(t *testing.T, dir string) {
		put(t, dir, "bin.dat", "now text\n")
		put(t, dir, "README.md", "a\x00b")
	}},
	{name: "delete text, binary, link, empty", status: "d README.md\nd bin.dat\nd empty\nd link\n", do: func(t *testing.T, dir string) {
		for _, f := range []string{"README.md", "bin.dat", "link", "empty"} {
			require.NoError(t, os.Remove(filepath.Join(dir, f)))
		}
	}},
	{name: "delete a whole folder", status: "d src/deep/er/leaf.txt\nd src/main.go\n", do: func(t *testing.T, dir string) {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "src")))
	}},
	{name: "delete everything", do: func(t *testing.T, dir string) {
		for _, e := range []string{".gitignore", "README.md", "abs", "bin.dat", "crlf.txt", "empty", "link", "no-eol", "run.sh", "spa ce", "src"} {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, e)))
		}
	}, status: "d .gitignore\nd README.md\nd abs\nd bin.dat\nd crlf.txt\nd empty\nd link\nd no-eol\nd run.sh\nd spa ce/na\"me\tü.txt\nd src/deep/er/leaf.txt\nd src/main.go\n", warns: 1},
	{name: "commit, amend, commit", status: "a one\na two\n", do: func(t *testing.T, dir string) {
		put(t, dir, "one", "1\n")
		git(t, dir, "add", "one")
		git(t, dir, "commit", "-qm", "one")
		git(t, dir, "commit", "-q", "--amend", "-m", "uno")
		put(t, dir, "two", "2\n")
		git(t, dir, "add", "two")
		git(t, dir, "commit", "-qm", "two")
	}},
	{name: "commit on a branch of its own, then more", status: "m no-eol\na one\n", do: func(t *testing.T, dir string) {
		git(t, dir, "checkout", "-q", "-b", "agent/work")
		put(t, dir, "one", "1\n")
		git(t, dir, "add", "one")
		git(t, dir, "commit", "-qm", "one")
		put(t, dir, "no-eol", "no end but more")
	}},
	{name: "staged then edited again then unstaged delete", status: "m README.md\nd run.sh\n", do: func(t *testing.T, dir string) {
		put(t, dir, "README.md", "staged\n")
		git(t, dir, "add", "README.md")
		put(t, dir, "README.md", "staged and more\n")
		require.NoError(t, os.Remove(filepath.Join(dir, "run.sh")))
	}},
	{name: "modes", status: "m README.md\nm run.sh\n", do: func(t *testing.T, dir string) {
		require.NoError(t, os.Chmod(filepath.Join(dir, "README.md"), 0o755))
		put(t, dir, "run.sh", "#!/bin/sh\necho other\n")
		require.NoError(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o644))
	}},
	{name: "file to link, link to file", status: "t README.md\nt link\n", do: func(t *testing.T, dir string) {
		require.NoError(t, os.Remove(filepath.Join(dir, "README.md")))
		require.NoError(t, os.Symlink("no-eol", filepath.Join(dir, "README.md")))
		require.NoError(t, os.Remove(filepath.Join(dir, "link")))
		put(t, dir, "link", "not a link\n")
	}},
	{name: "file to folder, folder to file", status: "d README.md\na README.md/inside\na src\nd src/deep/er/leaf.txt\nd src/main.go\n", do: func(t *testing.T, dir string) {
		require.NoError(t, os.Remove(filepath.Join(dir, "README.md")))
		put(t, dir, "README.md/inside", "x\n")
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "src")))
		put(t, dir, "src", "a file\n")
	}},
	{name: "folder to link, link to folder", status: "d abs\na abs/file\na src\nd src/deep/er/leaf.txt\nd src/main.go\n", do: func(t *testing.T, dir string) {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "src")))
		require.NoError(t, os.Symlink("spa ce", filepath.Join(dir, "src")))
		require.NoError(t, os.Remove(filepath.Join(dir, "abs")))
		put(t, dir, "abs/file", "x\n")
	}},
	{name: "retargeted links, absolute and broken", status: "m abs\nm link\na out\n", do: func(t *testing.T, dir string) {
		for _, l := range []struct{ to, name string }{{"/etc/passwd", "abs"}, {"../../..", "link"}, {"does/not/exist", "out"}} {
			os.Remove(filepath.Join(dir, l.name))
			require.NoError(t, os.Symlink(l.to, filepath.Join(dir, l.name)))
		}
	}},
	{name: "line ends", status: "m README.md\nm crlf.txt\na mixed\nm no-eol\n", do: func(t *testing.T, dir string) {
		put(t, dir, "crlf.txt", "one\r\nTWO\r\nthree\r\nfour")
		put(t, dir, "README.md", "# hello\r\n\r\nworld\r\n")
		put(t, dir, "no-eol", "no end\n")
		put(t, dir, "mixed", "a\r\nb\nc\rd\r\r\n\r")
	}},
	{name: "odd names", do: func(t *testing.T, dir string) {
		for _, n := range []string{"a b", " lead", "trail ", "tab\there", "new\nline", "quo\"te", "back\\slash", "ü", "\xff\xfe", "\x01\x7f", "-dash", "a/b b/c", "x b/x", "dev/null", "--- a", "diff --git a", "'single'", "{curly}", "日本/語"} {
			put(t, dir, n, "content of "+n+"\n")
			put(t, dir, n+".bin", "\x00"+n)
			put(t, dir, n+".empty", "")
		}
		require.NoError(t, os.Remove(filepath.Join(dir, "spa ce", "na\"me\tü.txt")))
	}},
	{name: "odd contents", do: func(t *testing.T, dir string) {
		put(t, dir, "patch", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\ndiff --git a/x b/x\n")
		put(t, dir, "README.md", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n")
		put(t, dir, "spaces", "   \n\t\n \n\n\n")
		put(t, dir, "latin", "caf\xe9\n")
		put(t, dir, "long", strings.Repeat("x", 300_000)+"\n")
		put(t, dir, "nl", "\n")
		put(t, dir, "run.sh", "")
		put(t, dir, "empty", "not any more")
	}, status: "m README.md\nm empty\na latin\na long\na nl\na patch\nm run.sh\na spaces\n"},
	{name: "whitespace at the end of file and of lines", status: "m README.md\n", do: func(t *testing.T, dir string) {
		put(t, dir, "README.md", "# hello  \n\t \nworld\n\n\n\n")
	}},
	{name: "rename and edit", status: "a moved/main2.go\nr moved/other.txt < src/deep/er/leaf.txt\nd src/main.go\n", do: func(t *testing.T, dir string) {
		put(t, dir, "moved/main2.go", "// moved\n"+numbered("line", 40))
		require.NoError(t, os.Rename(filepath.Join(dir, "src/deep/er/leaf.txt"), filepath.Join(dir, "moved/other.txt")))
		require.NoError(t, os.Remove(filepath.Join(dir, "src/main.go")))
	}},
	{name: "nested repository", warns: 2, status: "a vendor/lib/.gitignore\na vendor/lib/a\na vendor/lib/sub/b\n", do: func(t *testing.T, dir string) {
		put(t, dir, "vendor/lib/a", "a\n")
		put(t, dir, "vendor/lib/sub/b", "b\n")
		put(t, dir, "vendor/lib/.gitignore", "sub\n")
		git(t, filepath.Join(dir, "vendor/lib"), "init", "-q")
	}},
	{name: "fifo, socket, refused names", warns: 4, status: "d empty\n", do: func(t *testing.T, dir string) {
		require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o666))
		require.NoError(t, syscall.Mknod(filepath.Join(dir, "sock"), syscall.S_IFSOCK|0o666, 0))
		require.NoError(t, os.Remove(filepath.Join(dir, "empty")))
		require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "empty"), 0o666))
		put(t, dir, "sub/.GIT/config", "[core]\n")
	}},
	{name: "ignored files stay out", status: "a kept.txt\n", do: func(t *testing.T, dir string) {
		put(t, dir, "x.log", "log\n")
		put(t, dir, "build/out.o", "o\n")
		put(t, dir, "src/build/out.o", "o\n")
		put(t, dir, "kept.txt", "kept\n")
	}},
	{name: "new ignore rules do not hide work", warns: 1, status: "m .gitignore\na secret.txt\n", do: func(t *testing.T, dir string) {
		put(t, dir, ".gitignore", "*\n")
		put(t, dir, "secret.txt", "work\n")
	}},
	{name: "info/exclude written by the agent hides nothing", status: "a hidden\n", do: func(t *testing.T, dir string) {
		put(t, dir, "hidden", "work\n")
		common := git(t, dir, "rev-parse", "--path-format=absolute", "--git-common-dir")
		require.NoError(t, os.MkdirAll(filepath.Join(common, "info"), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(common, "info", "exclude"), []byte("hidden\n"), 0o666))
		git(t, dir, "update-index", "--assume-unchanged", "README.md")
	}},
	{name: "assume-unchanged and skip-worktree hide nothing", status: "m README.md\nm no-eol\n", do: func(t *testing.T, dir string) {
		git(t, dir, "update-index", "--assume-unchanged", "README.md")
		git(t, dir, "update-index", "--skip-worktree", "no-eol")
		put(t, dir, "README.md", "hidden\n")
		put(t, dir, "no-eol", "hidden")
	}},
	{name: "git directory destroyed", status: "m README.md\n", do: func(t *testing.T, dir string) {
		put(t, dir, "README.md", "still here\n")
		require.NoError(t, os.Remove(filepath.Join(dir, ".git")))
	}},
	{name: "git directory replaced by a repository", status: "m README.md\n", do: func(t *testing.T, dir string) {
		put(t, dir, "README.md", "still here\n")
		require.NoError(t, os.Remove(filepath.Join(dir, ".git")))
		git(t, dir, "init", "-q")
		git(t, dir, "add", "-A")
		git(t, dir, "commit", "-qm", "mine")
	}},
	{name: "many scattered edits", status: "m src/main.go\n", do: func(t *testing.T, dir string) {
		var b strings.Builder
		for i := range 3000 {
			b.WriteString([]string{"line 3\n", "line 7\n", "x\n", "line 20\n", "y y\n"}[(i*i+i/3)%5])
		}
		put(t, dir, "src/main.go", b.String())
	}},
	{name: "touched only", do: func(t *testing.T, dir string) {
		put(t, dir, "README.md", "# hello\n\nworld\n")
		require.NoError(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o700))
	}},
}
