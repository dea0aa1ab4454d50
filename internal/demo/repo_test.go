package demo_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/demo"
	"github.com/assent-dev/assent/internal/exit"
)

// script writes a script and returns its path.
func (s *stage) script(text string) string {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "play.yaml")
	require.NoError(s.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// host makes a repository as somebody works in it: two commits, staged and unstaged changes, an untracked file, a hook.
func host(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "my project")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	git(t, dir, "init", "-q", "-b", "trunk")
	write("a.txt", "one\n")
	write("sub/b.txt", "b\n")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "first")
	git(t, dir, "tag", "v1")
	write("a.txt", "two\n")
	git(t, dir, "commit", "-q", "-a", "-m", "second")
	write("sub/b.txt", "staged\n")
	git(t, dir, "add", ".")
	write("a.txt", "unstaged\n")
	write("untracked", "u\n")
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".git", "hooks", "post-checkout"), []byte("#!/bin/sh\ntouch \"$PWD/hooked\"\n"), 0o755))
	return dir
}

// digest maps every path of a folder, .git included, to its mode and content.
func digest(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		all[path] = info.Mode().String()
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(b)
			all[path] += " " + hex.EncodeToString(sum[:])
		}
		return nil
	}))
	return all
}

const writes = `turns:
  - {say: First., calls: [{tool: write_file, args: {path: new.txt, content: "new\n"}}, {tool: no_such_tool, args: {}}]}
  - expect: {lastResult: {code: UNKNOWN_TOOL}}
    calls: [{tool: edit_file, args: {path: a.txt, old: one, new: three}}]
  - {calls: [{tool: shell, args: {command: cat a.txt}}]}
  - {say: Done., expect: {lastResult: {code: OK, contains: three}}}
`

func TestRepo(t *testing.T) {
	s, repo := newStage(t), host(t)
	before := digest(t, repo)
	got := s.run(0, "", "demo", "--yes", "--repo", repo, "--ref", "v1", "--script", s.script(writes), "--task", "change it")
	require.Equal(t, before, digest(t, repo), "the repository is as it was")
	require.Contains(t, got.out.String(), "task    change it")
	require.Contains(t, got.out.String(), "UNKNOWN_TOOL")
	require.Contains(t, got.out.String(), "git -C '"+repo+"' apply --whitespace=nowarn "+s.path(s.id(), "fix.patch"))
	require.Equal(t, []string{"fix.patch"}, s.files())

	clone := filepath.Join(t.TempDir(), "clone")
	git(t, "", "clone", "-q", "-b", "v1", repo, clone)
	git(t, clone, "apply", s.path(s.id(), "fix.patch"))
	require.Equal(t, " M a.txt\n?? new.txt\n", git(t, clone, "status", "--porcelain"))
}

// An agent that was left waiting has only its worktree's admin folder in the repository, and nothing when it is done.
func TestRepoWhileWaiting(t *testing.T) {
	s, repo := newStage(t), host(t)
	before := digest(t, repo)
	s.run(3, "q\n", "demo", "--repo", repo, "--ref", "v1", "--script", s.script(writes))
	for path, is := range digest(t, repo) {
		if was, ok := before[path]; ok {
			require.Equal(t, was, is, path)
			continue
		}
		inside, err := filepath.Rel(filepath.Join(repo, ".git", "worktrees"), path)
		require.NoError(t, err)
		require.True(t, filepath.IsLocal(inside), path)
	}
	s.run(0, "a\n", "watch", s.id())
	require.Equal(t, before, digest(t, repo))
}

func TestScriptThatEndsEarly(t *testing.T) {
	s, repo := newStage(t), host(t)
	before := digest(t, repo)
	got := s.run(1, "", "demo", "--yes", "--repo", repo, "--script", s.script("turns: [{calls: [{tool: list_files, args: {dir: .}}]}]"))
	require.Contains(t, got.out.String(), "has 1 turns and turn 2 was asked for")
	require.Equal(t, before, digest(t, repo))
	require.Empty(t, s.ids(), "there is no patch, so nothing is left")
}

func TestRefusals(t *testing.T) {
	s, repo := newStage(t), host(t)
	empty, plain := t.TempDir(), t.TempDir()
	git(t, empty, "init", "-q")
	good := s.script("turns: [{say: x}]")
	bad := s.script("turns:\n  - sya: x\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--repo", plain, "--script", good}, "error: --repo: "},
		{[]string{"--repo", filepath.Join(plain, "none"), "--script", good}, "error: --repo: "},
		{[]string{"--repo", empty, "--script", good}, "no commit yet"},
		{[]string{"--repo", repo, "--script", good, "--ref", "--upload-pack=x"}, `error: --ref: "--upload-pack=x" looks like an option`},
		{[]string{"--repo", repo, "--script", good, "--ref", "nowhere"}, `error: --ref: "nowhere" is not in repository "my project"`},
		{[]string{"--repo", repo}, "error: --repo needs a script"},
		{[]string{"--repo", repo, "--script", bad}, bad + `:2:5: unknown field "sya"`},
		{[]string{"--script", filepath.Join(plain, "none.yaml")}, "cannot be read: no such file"},
		{[]string{"--model", "openai:gpt-5.2", "--key-env", "NO_SUCH_KEY"}, `--model: the environment variable NO_SUCH_KEY is not set`},
		{[]string{"--model", "openai:qwen3", "--base-url", "127.0.0.1:11434/v1"}, `--base-url: "127.0.0.1:11434/v1" has no scheme http or https`},
		{[]string{"--model", "ollama:qwen3"}, `unknown provider "ollama"; one of anthropic, openai, scripted`},
		{[]string{"--model", "openai:qwen3", "--base-url", "http://h/v1", "--script", good}, "leave one of them out"},
		{[]string{"--model", "openai:qwen3", "--base-url", "http://h/v1", "--repo", repo}, "a real model needs a task"},
		{[]string{"--base-url", "http://h/v1"}, "are for a real model"},
		{[]string{"--model", "gpt"}, "is not provider:model"},
		{[]string{"--model", "scripted:other"}, "one of scripted:demo"},
		{[]string{"--ref", "v1"}, "name it with --repo"},
		{[]string{"--namespace", "x"}, "name it with --address"},
		{[]string{"-o", "xml"}, `unknown output "xml"`},
		{[]string{"now"}, `unexpected argument "now"`},
	} {
		got := s.run(2, "", append([]string{"demo"}, c.args...)...)
		require.Contains(t, got.err.String(), c.want, c.args)
		require.Empty(t, got.out.String(), c.args)
	}
	require.Empty(t, s.ids(), "nothing is left")
}

// A state folder that cannot be made is said once, and how to name another one.
func TestStateHomeIsAFile(t *testing.T) {
	home := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(home, nil, 0o600))
	t.Setenv("XDG_STATE_HOME", home)
	_, err := demo.New(context.Background(), demo.Plan{})
	var said bytes.Buffer
	require.Equal(t, 1, exit.Report(&said, err))
	require.Equal(t, "error: make the folder of a demo: mkdir "+home+": not a directory\n"+
		"hint: set HOME or XDG_STATE_HOME to a folder that can be written\n", said.String())
}
