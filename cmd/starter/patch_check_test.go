package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worktree"
	"github.com/assent-dev/assent/worktree/git"
)

// made is a patch of a driver: it edits a.txt and adds new.txt and a file whose name looks like a message.
func (w *world) made(d *git.Driver) (protocol.Artifact, []byte) {
	w.t.Helper()
	l := w.tree(d, "fix-1", "run-1")
	for name, text := range map[string]string{"a.txt": "two\n", "new.txt": "new\n", "odd: name.txt": "odd\n"} {
		require.NoError(w.t, os.WriteFile(filepath.Join(l.Dir, name), []byte(text), 0o600))
	}
	p, err := d.Collect(context.Background(), l)
	require.NoError(w.t, err)
	return protocol.Artifact{Kind: protocol.ArtifactPatch, Base: p.Base, Tree: p.Tree, Files: p.Files}, p.Bytes
}

// tries runs patch --check on a checkout of the world and returns what it said.
func (w *world) tries(art protocol.Artifact, patch []byte, dir string) (trial, error) {
	w.t.Helper()
	var out bytes.Buffer
	a := &app{out: &out, err: &bytes.Buffer{}, output: outputJSON}
	err := a.checkPatch(context.Background(), art, patch, w.path(dir))
	got := lines[trial](w.t, out.String())
	if len(got) == 0 {
		return trial{}, err
	}
	return got[0], err
}

// told is what patch --check tells people on standard error.
func (w *world) told(art protocol.Artifact, patch []byte, dir string) string {
	w.t.Helper()
	var said bytes.Buffer
	a := &app{out: &bytes.Buffer{}, err: &said}
	require.NoError(w.t, a.checkPatch(context.Background(), art, patch, w.path(dir)))
	return said.String()
}

func TestAPatchIsTriedOnACheckout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", "")
	art, patch := w.made(w.driver())
	// Nothing of the checkout may run, and nothing in it change.
	w.write("repo/.git/hooks/post-checkout", "#!/bin/sh\ntouch "+w.path("ran")+"\n")
	require.NoError(t, os.Chmod(w.path("repo/.git/hooks/post-checkout"), 0o700))
	w.git("repo", "config", "core.fsmonitor", "touch "+w.path("ran"))
	w.git("repo", "config", "core.pager", "touch "+w.path("ran"))
	index, err := os.ReadFile(w.path("repo/.git/index"))
	require.NoError(t, err)

	got, err := w.tries(art, patch, "repo")
	require.NoError(t, err)
	require.True(t, got.Applies && got.AtBase && got.BaseThere)
	require.Empty(t, got.Changed)
	w.write("repo/sub/x", "")
	got, err = w.tries(art, patch, "repo/sub")
	require.NoError(t, err)
	require.True(t, got.Applies, "a folder of a checkout means the checkout")
	require.Contains(t, w.told(art, patch, "repo/sub"), "apply it there")
	require.NotContains(t, w.told(art, patch, "repo"), "apply it there")

	// Changes that are in the way are named, those that are not do not matter.
	w.write("repo/a.txt", "mine\n")
	w.write("repo/new.txt", "mine\n")
	w.write("repo/odd: name.txt", "mine\n")
	got, err = w.tries(art, patch, "repo")
	require.ErrorContains(t, err, "does not apply")
	require.Equal(t, exit.Failed, exit.CodeOf(err))
	require.Equal(t, []string{"a.txt"}, got.Changed)
	require.ElementsMatch(t, []conflict{{"a.txt", "patch does not apply"}, {"new.txt", "already exists in working directory"},
		{"odd: name.txt", "already exists in working directory"}}, got.Conflicts)
	mine, err := os.ReadFile(w.path("repo/a.txt"))
	require.NoError(t, err)
	require.Equal(t, "mine\n", string(mine))
	now, err := os.ReadFile(w.path("repo/.git/index"))
	require.NoError(t, err)
	require.Equal(t, index, now)
	require.NoFileExists(t, w.path("ran"))

	// A later commit that is not in the way, and a repository that has never seen the base.
	w.git("repo", "config", "--unset", "core.fsmonitor")
	w.git("repo", "checkout", "-q", "a.txt")
	for _, name := range []string{"new.txt", "odd: name.txt"} {
		require.NoError(t, os.Remove(w.path("repo/"+name)))
	}
	w.write("repo/other.txt", "o\n")
	w.git("repo", "add", "-A")
	w.git("repo", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "second")
	got, err = w.tries(art, patch, "repo")
	require.NoError(t, err)
	require.True(t, got.Applies && got.BaseThere && !got.AtBase)
	w.write("stranger/b.txt", "b\n")
	w.git("stranger", "init", "-q")
	got, err = w.tries(art, patch, "stranger")
	require.ErrorContains(t, err, "does not apply")
	require.False(t, got.BaseThere)
	require.Contains(t, got.Conflicts, conflict{"a.txt", "No such file or directory"})
	got, err = w.tries(art, nil, "stranger")
	require.NoError(t, err)
	require.True(t, got.Applies, "an empty patch")

	require.NoError(t, os.Mkdir(w.path("folder"), 0o700))
	for _, dir := range []string{"folder", "none", "stranger/b.txt"} {
		_, err = w.tries(art, patch, dir)
		require.Error(t, err, dir)
	}
}

func TestAPatchNeverOverwritesAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "fix.patch")
	require.NoError(t, writeWhole(path, []byte("one"), false))
	require.ErrorIs(t, writeWhole(path, []byte("two"), false), os.ErrExist)
	require.ErrorContains(t, writeWhole(dir, []byte("two"), true), "is a directory")
	require.ErrorContains(t, writeWhole(os.DevNull, nil, true), "regular")
	require.Error(t, writeWhole(filepath.Join(dir, "none", "x"), nil, false))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "one", string(text))
	require.NoError(t, writeWhole(path, []byte("two"), true))
	// Not even through a link that leads nowhere.
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(filepath.Join(dir, "elsewhere"), link))
	require.ErrorIs(t, writeWhole(link, nil, false), os.ErrExist)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2)
}

// What makes git run a program in the user's repository is said first.
func TestWhatAPatchDoesNotSay(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	a := &app{err: &said}
	a.warnOf(protocol.Artifact{Warnings: []string{"a FIFO"}, HostChanges: []worktree.HostChange{
		{Key: "refs/tags/v1", Change: "added"}, {Key: "config core.hooksPath", Change: "added", Dangerous: true}}})
	require.Equal(t, "warning: look before you run git: the agent's tree shares a repository with you, in which config core.hooksPath was added; it can run programs\n"+
		"note: in the repository refs/tags/v1 was added\nwarning: a FIFO\n", said.String())
}
