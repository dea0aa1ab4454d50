package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/gitproc"
	"github.com/assent-dev/assent/worktree"
)

// askWait bounds a question to the host's own git directory, where an agent may have put a FIFO.
const askWait = time.Minute

// needsGit reports an error of the built-in reader about a repository that the configured git may serve.
func (d *Driver) needsGit(err error) bool {
	var needs *worktree.NeedsGitError
	return d.git != nil && errors.As(err, &needs)
}

// ask runs a git command that only reads, in the host's own git directory and under its own configuration. Only
// refs, configuration and commits are asked for so; nothing that it can name is a program of the repository.
func (d *Driver) ask(ctx context.Context, h *host, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	out, err := d.git.Run(ctx, gitproc.Call{Args: args, Env: []string{"GIT_DIR=" + h.gitDir}})
	return string(out), err
}

// failed reports that git said no, which is an answer, and not that it could not be asked.
func failed(err error) bool {
	var exit *gitproc.ExitError
	return errors.As(err, &exit)
}

// askConfig reads the configuration as git resolves it, with its includes and the host's own worktree's part.
func (d *Driver) askConfig(ctx context.Context, h *host) error {
	// To read the configuration of a repository that it does not know how to read, git asks for less.
	if _, err := d.ask(ctx, h, "rev-parse", "--git-dir"); failed(err) {
		return d.refusedToo(err)
	}
	out, err := d.ask(ctx, h, "config", "--list", "--null", "--show-scope", "--includes")
	if failed(err) {
		return d.refusedToo(err)
	}
	if err != nil {
		return err
	}
	fields := strings.Split(out, "\x00")
	var list []setting
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] != "local" && fields[i] != "worktree" {
			continue // set by us
		}
		key, value, has := strings.Cut(fields[i+1], "\n")
		list = append(list, setting{Key: key, Value: value, Implicit: !has})
	}
	h.config = newConfig(list)
	if err := h.settle(); err != nil {
		return err
	}
	links, err := h.config.flag("core.symlinks", true)
	h.settings.ByGit, h.settings.NoLinks = true, !links
	return err
}

// refusedToo is the error of a repository that the configured git refuses as well.
func (d *Driver) refusedToo(err error) error {
	return &worktree.NeedsGitError{Reason: fmt.Sprintf("git %s refuses it too: %v", d.git.Version(), err)}
}

// suffixes are those of a revision that lead to a commit.
var suffixes = regexp.MustCompile(`^([~^][0-9]*|\^\{(commit)?\})*$`)

// resolveByGit is Resolve for repositories that the built-in reader refuses.
func (d *Driver) resolveByGit(ctx context.Context, iso worktree.Isolation, ref string) (worktree.Resolved, error) {
	none := worktree.Resolved{}
	h, err := d.findHost(iso.Repo)
	if err != nil {
		return none, err
	}
	if err := d.askConfig(ctx, h); err != nil {
		return none, err
	}
	name, suffix, err := splitRevision(ref)
	if err != nil {
		return none, err
	}
	if !suffixes.MatchString(suffix) || !strings.HasPrefix(name, "refs/") && !plainName(name) {
		return none, badRef(ref, "does not name a commit in repository %q", h.name)
	}
	out, err := d.ask(ctx, h, "rev-parse", "--verify", "--quiet", name+suffix+"^{commit}")
	if failed(err) {
		return none, d.whyNot(ctx, h, name, ref)
	}
	if err != nil {
		return none, err
	}
	commit := strings.TrimSpace(out)
	if !isAnyID(commit) {
		return none, badRef(ref, "is %.80q in repository %q", commit, h.name)
	}
	// With replace refs this is the commit that git shows in its place.
	text, err := d.ask(ctx, h, "cat-file", "commit", commit)
	if failed(err) {
		return none, &worktree.MissingError{Object: commit}
	}
	if err != nil {
		return none, err
	}
	line, _, _ := strings.Cut(text, "\n")
	tree, ok := strings.CutPrefix(line, "tree ")
	if !ok || !isAnyID(tree) {
		return none, fmt.Errorf("read commit %s: it names no tree", commit)
	}
	return worktree.Resolved{Repo: iso.Repo, Ref: ref, Commit: commit, Tree: tree,
		Private: iso.Private || d.private(iso.Repo)}, nil
}

// plainName reports a name that git cannot take for a file of its directory, such as config or index.
func plainName(name string) bool {
	switch name {
	case "config", "index", "description", "packed-refs", "shallow", "gitdir", "commondir", "locked":
		return false
	}
	return true
}

// whyNot says why a revision was not resolved.
func (d *Driver) whyNot(ctx context.Context, h *host, name, ref string) error {
	if out, err := d.ask(ctx, h, "rev-parse", "--verify", "--quiet", name); err == nil {
		id := strings.TrimSpace(out)
		if _, err := d.ask(ctx, h, "cat-file", "-e", id); failed(err) && isAnyID(id) && !strings.EqualFold(id, name) {
			return &worktree.MissingError{Object: id}
		}
		return badRef(ref, "does not name a commit in repository %q", h.name)
	}
	for _, full := range []string{name, "refs/heads/" + name} {
		if branch, err := d.ask(ctx, h, "symbolic-ref", "--quiet", full); err == nil {
			return badRef(ref, "has no commit yet in repository %q: %s", h.name, strings.TrimSpace(branch))
		}
	}
	return badRef(ref, "is not in repository %q", h.name)
}

// isAnyID reports a full object id of sha1 or sha256.
func isAnyID(s string) bool { return (len(s) == 40 || len(s) == 64) && isHex(s) }

// gitDir is the frozen git directory of a tree that git made; work is where its collect happens.
func (d *Driver) gitDir(id string) string  { return d.stateDir(id) + "/" + frozenGit }
func (d *Driver) gitLock(id string) string { return d.stateDir(id) + "/git.lock" }

// endGit ends the git processes that a killed worker left at work for this tree.
func (d *Driver) endGit(id string) error {
	return gitproc.End(d.gitLock(id))
}

// frozenRun runs git in the frozen directory of a tree, where nothing of the repository but its objects is seen.
func (d *Driver) frozenRun(
	ctx context.Context, program *gitproc.Program, id string, filters bool, stdin io.Reader, env []string, args ...string,
) ([]byte, error) {
	return d.frozenCall(ctx, program, id, gitproc.Call{Args: args, Env: env, Stdin: stdin, Programs: filters})
}

// frozenCall completes a call of git in the frozen directory of a tree and runs it.
func (d *Driver) frozenCall(ctx context.Context, program *gitproc.Program, id string, c gitproc.Call) ([]byte, error) {
	c.Env = append([]string{"GIT_DIR=" + d.gitDir(id)}, c.Env...)
	c.Lock, c.Limit = d.gitLock(id), maxGitOutput
	return program.Run(ctx, c)
}

// gitOf returns the git that collects a tree: the configured one, or, for an operator's command, which has no
// configuration, the one that the record names.
func (d *Driver) gitOf(r *record) (*gitproc.Program, error) {
	if d.git == nil && d.operator {
		return gitproc.Open(context.Background(), r.Git.Path, d.root+"/home")
	}
	if d.git == nil {
		return nil, fault.Configf("worktrees.git", "is not set, and git %s made the tree", r.Git.Version)
	}
	return d.git, nil
}

// maxGitOutput bounds lists and patches, in bytes.
const maxGitOutput = 1 << 30

// ofGit turns a failure of git at an object into one that names it.
func ofGit(err error) error {
	var exit *gitproc.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	if strings.Contains(exit.Stderr, "No space left on device") {
		return errors.Join(syscall.ENOSPC, err)
	}
	for line := range strings.Lines(exit.Stderr) {
		for _, says := range missingText {
			if m := says.FindStringSubmatch(line); m != nil {
				missing := &worktree.MissingError{}
				for i, group := range says.SubexpNames() {
					switch group {
					case "id":
						missing.Object = m[i]
					case "path":
						missing.Path = m[i]
					}
				}
				return missing
			}
		}
	}
	return err
}

// missingText is what git says of an object that is not there.
var missingText = []*regexp.Regexp{
	regexp.MustCompile(`unable to read sha1 file of (?P<path>.+) \((?P<id>[0-9a-f]{40,64})\)`),
	regexp.MustCompile(`unable to read (?:sha1 file|tree|blob object)? ?\(?(?P<id>[0-9a-f]{40,64})\)?`),
	regexp.MustCompile(`(?:Could not read|failed to unpack tree object|bad tree object|missing blob object|not a tree object:?|not a valid object name:?|Not a valid object name) '?(?P<id>[0-9a-f]{40,64})`),
	regexp.MustCompile(`^(?P<id>[0-9a-f]{40,64}) missing`),
}

// openGit checks the configured git and the names of allowed filters.
func (d *Driver) openGit(c Config) error {
	for _, name := range c.Filters {
		if !filterName.MatchString(name) {
			return fault.Configf("worktrees.filters", "%q is no name of a filter", name)
		}
	}
	if c.Git == "" {
		if len(c.Filters) > 0 {
			return fault.Configf("worktrees.filters", "needs worktrees.git, which runs them")
		}
		return nil
	}
	var err error
	d.filters = c.Filters
	d.git, err = gitproc.Open(context.Background(), c.Git, d.root+"/home")
	return err
}

var filterName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// nulled joins records with NUL, as git reads them.
func nulled(b *bytes.Buffer, format string, args ...any) {
	fmt.Fprintf(b, format, args...)
	b.WriteByte(0)
}
