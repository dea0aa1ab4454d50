package git

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/worktree"
)

// gitEnv is a closed environment: nothing of the machine's or the user's configuration reaches the referee.
func gitEnv() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "TZ=UTC",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.com",
		"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000",
		// The referee's files need not outlive the machine.
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.fsync", "GIT_CONFIG_VALUE_0=none",
		"GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=file",
	}
}

// tryGit runs the real git in dir.
func tryGit(dir string, stdin []byte, args ...string) (string, error) {
	return gitWith(dir, nil, stdin, args...)
}

// gitWith runs the real git in dir with more variables.
func gitWith(dir string, env []string, stdin []byte, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(gitEnv(), env...)
	cmd.Stdin = bytes.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := tryGit(dir, nil, args...)
	require.NoError(t, err)
	return strings.TrimRight(out, "\n")
}

// put writes a file below dir, making folders on the way.
func put(t testing.TB, dir, path, content string) {
	t.Helper()
	full := filepath.Join(dir, filepath.FromSlash(path))
	require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o777))
	require.NoError(t, os.WriteFile(full, []byte(content), 0o666))
}

// template is made once and copied for each test; TestMain removes it.
var template struct {
	once sync.Once
	dir  string
}

// repo returns a repository with a few files of every kind and one commit.
func repo(t testing.TB) string {
	t.Helper()
	template.once.Do(func() {
		dir, err := os.MkdirTemp("", "template-")
		require.NoError(t, err)
		fill(t, dir)
		template.dir = dir
	})
	dir := filepath.Join(t.TempDir(), "host")
	require.NoError(t, os.CopyFS(dir, os.DirFS(template.dir)))
	return dir
}

func fill(t testing.TB, dir string) {
	t.Helper()
	git(t, dir, "init", "-q", "-b", "main")
	put(t, dir, "README.md", "# hello\n\nworld\n")
	put(t, dir, "src/main.go", numbered("line", 40))
	put(t, dir, "src/deep/er/leaf.txt", "leaf\n")
	put(t, dir, "bin.dat", "\x00\x01\x02binary\xff\n")
	put(t, dir, "no-eol", "no end")
	put(t, dir, "empty", "")
	put(t, dir, "crlf.txt", "one\r\ntwo\r\nthree\r\n")
	put(t, dir, "run.sh", "#!/bin/sh\necho hi\n")
	require.NoError(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o755))
	require.NoError(t, os.Symlink("README.md", filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("/nowhere/at/all", filepath.Join(dir, "abs")))
	put(t, dir, "spa ce/na\"me\tü.txt", "odd\n")
	put(t, dir, ".gitignore", "*.log\nbuild/\n")
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "base")
}

func numbered(word string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s %d\n", word, i)
	}
	return b.String()
}

// driver returns a driver with one repository named r.
func driver(t testing.TB, host string, change ...func(*Config)) *Driver {
	t.Helper()
	c := Config{Repos: map[string]string{"r": host}, Root: filepath.Join(t.TempDir(), "root"), KeepOnError: true}
	for _, f := range change {
		f(&c)
	}
	d, err := New(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

var who = worktree.Identity{Namespace: "default", WorkflowID: "Agent/one", Attempt: 0}

// acquire resolves ref and acquires a tree.
func acquire(t testing.TB, d *Driver, id worktree.Identity, ref string) worktree.Lease {
	t.Helper()
	at, err := d.Resolve(context.Background(), worktree.Isolation{Kind: worktree.Tree, Repo: "r", Ref: ref})
	require.NoError(t, err)
	l, err := d.Acquire(context.Background(), id, at)
	require.NoError(t, err)
	return l
}

// fingerprint returns one line for each path below dir: name, mode, and a hash of the content.
func fingerprint(t testing.TB, dir string, skip ...string) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		for _, s := range skip {
			if rel == s && e.IsDir() {
				return fs.SkipDir
			}
			if rel == s {
				return nil // SkipDir would skip what comes after it too
			}
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		content := []byte(nil)
		switch {
		case fi.Mode().IsRegular():
			content, err = os.ReadFile(path)
		case fi.Mode()&fs.ModeSymlink != 0:
			var to string
			to, err = os.Readlink(path)
			content = []byte(to)
		}
		mode := fi.Mode()
		if e.IsDir() {
			mode &^= fs.ModeSetgid // it comes from the folder above
		}
		out = append(out, fmt.Sprintf("%q %v %x", rel, mode, sha256.Sum256(content)))
		return err
	}))
	sort.Strings(out)
	return out
}

// same compares two fingerprints and shows only what differs.
func same(t testing.TB, want, got []string) {
	t.Helper()
	var diff []string
	for _, pair := range []struct {
		sign string
		a, b []string
	}{{"-", want, got}, {"+", got, want}} {
		for _, line := range pair.a {
			if !slices.Contains(pair.b, line) {
				diff = append(diff, pair.sign+line)
			}
		}
	}
	require.Empty(t, diff)
}
