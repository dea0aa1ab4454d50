package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// canaryKeys are configuration keys whose value git runs.
var canaryKeys = []string{
	"core.fsmonitor", "core.sshCommand", "core.editor", "core.pager", "core.askPass", "core.alternateRefsCommand", "diff.external",
	"diff.canary.textconv", "diff.canary.command", "merge.canary.driver", "gpg.program", "credential.helper", "alias.status", "sequence.editor",
	"pager.diff", "uploadpack.packObjectsHook", "interactive.diffFilter",
}

var canaryHooks = []string{
	"post-checkout", "reference-transaction", "post-index-change", "pre-commit", "post-commit", "pre-auto-gc", "post-rewrite", "fsmonitor-watchman",
	"applypatch-msg", "pre-applypatch", "post-applypatch", "prepare-commit-msg", "commit-msg", "post-merge", "pre-push", "sendemail-validate", "p4-pre-submit",
}

// cage has a program that leaves a mark, and sets it wherever a repository can name one.
type cage struct {
	t             *testing.T
	program, mark string
}

func newCage(t *testing.T) *cage {
	dir := t.TempDir()
	c := &cage{t, filepath.Join(dir, "canary"), filepath.Join(dir, "mark")}
	require.NoError(t, os.WriteFile(c.program, []byte("#!/bin/sh\necho \"$0 $*\" >> "+c.mark+"\nexit 0\n"), 0o755))
	return c
}

// set plants canaries in the repository that dir belongs to. filters is whether those of attributes are among them.
func (c *cage) set(dir string) {
	shared := common(c.t, dir)
	text, err := os.ReadFile(filepath.Join(shared, "config"))
	require.NoError(c.t, err)
	var b strings.Builder
	b.Write(text)
	for _, key := range canaryKeys {
		parts := strings.Split(key, ".")
		section, name, sub := parts[0], parts[len(parts)-1], ""
		if len(parts) == 3 {
			sub = ` "` + parts[1] + `"`
		}
		b.WriteString("[" + section + sub + "]\n\t" + name + " = " + c.program + "\n")
	}
	require.NoError(c.t, os.WriteFile(filepath.Join(shared, "config"), []byte(b.String()), 0o666))
	for _, hook := range canaryHooks {
		path := filepath.Join(shared, "hooks", hook)
		require.NoError(c.t, os.MkdirAll(filepath.Dir(path), 0o777))
		_ = os.Remove(path)
		require.NoError(c.t, os.Symlink(c.program, path))
	}
}

// fired returns what has run, and forgets it.
func (c *cage) fired() string {
	b, err := os.ReadFile(c.mark)
	if err != nil {
		require.ErrorIs(c.t, err, os.ErrNotExist)
		return ""
	}
	require.NoError(c.t, os.Remove(c.mark))
	return string(b)
}

// TestCanariesAreSilent plants programs in the repository, in the tree and by the agent.
func TestCanariesAreSilent(t *testing.T) {
	for _, private := range []bool{false, true} {
		host := repo(t)
		c := newCage(t)
		put(t, host, ".gitattributes", "* diff=canary merge=canary\n")
		put(t, host, ".githooks/post-checkout", "#!/bin/sh\necho tree >> "+c.mark+"\n")
		require.NoError(t, os.Chmod(filepath.Join(host, ".githooks/post-checkout"), 0o755))
		commitAll(t, host)
		c.set(host)

		// They do sing where git itself is at work.
		_, _ = tryGit(host, nil, "diff", "HEAD")
		_, _ = tryGit(host, nil, "update-ref", "refs/heads/x", "HEAD")
		_, _ = tryGit(host, nil, "worktree", "add", "-q", "--detach", filepath.Join(t.TempDir(), "x"))
		put(t, host, "README.md", "changed\n")
		_, _ = tryGit(host, nil, "diff")
		songs := c.fired()
		for _, song := range []string{"reference-transaction", "post-checkout", "canary"} {
			require.Contains(t, songs, song)
		}

		d := driver(t, host)
		d.private = func(string) bool { return private }
		d.step = func(step string) { require.Empty(t, c.fired(), step) }
		l := acquire(t, d, who, "")
		require.Empty(t, c.fired(), "acquire")
		put(t, l.Dir, "README.md", "agent\n")
		put(t, l.Dir, ".gitattributes", "* diff=canary merge=canary filter=canary ident\n")
		c.set(l.Dir)
		git(t, l.Dir, "config", "core.hooksPath", filepath.Join(l.Dir, ".githooks"))
		git(t, l.Dir, "config", "filter.canary.clean", c.program)
		git(t, l.Dir, "config", "filter.canary.smudge", c.program)
		git(t, l.Dir, "config", "filter.canary.process", c.program)
		git(t, l.Dir, "config", "filter.canary.required", "true")
		_, _ = tryGit(l.Dir, nil, "add", "README.md")
		require.NotEmpty(t, c.fired(), "the agent's own filter")
		p := collect(t, d, l)
		require.Contains(t, status(p), "m README.md\n")
		require.NoError(t, d.Check(ctx, l))
		_, err := d.Retain(ctx, l, "failed")
		require.NoError(t, err)
		_, err = d.List(ctx)
		require.NoError(t, err)
		_, err = d.Sweep(ctx)
		require.NoError(t, err)
		require.NoError(t, d.Dispose(ctx, l, true))
		require.NoError(t, d.Close())
		require.Empty(t, c.fired())
	}
}
