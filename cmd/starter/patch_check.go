package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/gitproc"
	"github.com/assent-dev/assent/protocol"
)

// checkout is a user's checkout that is only looked at, by a git that sees no configuration but its own.
type checkout struct {
	git *gitproc.Program
	top string
	// below says that the path was a folder in it.
	below bool
	// home is the folder of the git, which close removes.
	home string
}

// openCheckout finds the checkout that path is in.
func openCheckout(ctx context.Context, path string) (*checkout, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if fi, err := os.Stat(full); err != nil {
		return nil, exit.Failf("", "--check: %w", err)
	} else if !fi.IsDir() {
		return nil, exit.Usagef("--check takes the folder of a checkout", "%s is not a directory", path)
	}
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, exit.Failf("install git, or write the patch with --to and try it elsewhere", "--check needs the program git: %w", err)
	}
	if program, err = filepath.Abs(program); err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp("", "assent-check-")
	if err != nil {
		return nil, err
	}
	c := &checkout{home: home}
	if c.git, err = gitproc.Open(ctx, program, filepath.Join(home, "home")); err != nil {
		c.close()
		return nil, err
	}
	out, err := c.run(ctx, full, "", "rev-parse", "--show-toplevel")
	if err != nil {
		c.close()
		return nil, exit.WithHint(fmt.Errorf("%s is not a checkout of a repository: %w", path, err), "--check takes the folder of a checkout of your own")
	}
	c.top = strings.TrimSuffix(out, "\n")
	prefix, err := c.run(ctx, full, "", "rev-parse", "--show-prefix")
	c.below = err == nil && strings.TrimSuffix(prefix, "\n") != ""
	return c, nil
}

func (c *checkout) close() { _ = os.RemoveAll(c.home) }

// run runs git in dir. Filters of the checkout run, as they do when the user applies the patch.
func (c *checkout) run(ctx context.Context, dir, stdin string, args ...string) (string, error) {
	out, err := c.git.Run(ctx, gitproc.Call{Args: append([]string{"-C", dir}, args...), Stdin: strings.NewReader(stdin), Programs: true, Limit: 64 << 20})
	return string(out), err
}

// trial is what `patch --check -o json` prints.
type trial struct {
	Path string `json:"path"`
	// Applies is the verdict of git apply on the files as they are.
	Applies bool `json:"applies"`
	// Base is the commit of the patch; BaseThere says that the repository has it, AtBase that it is checked out.
	Base      string `json:"base"`
	BaseThere bool   `json:"baseThere"`
	AtBase    bool   `json:"atBase"`
	Head      string `json:"head,omitempty"`
	// Changed are files of the checkout that differ from its HEAD.
	Changed   []string   `json:"changed,omitempty"`
	Conflicts []conflict `json:"conflicts,omitempty"`
	// below says that a folder of the checkout was named, and not its top.
	below bool
}

// conflict is why a file cannot be patched; Path is empty for what is wrong with the patch as a whole.
type conflict struct {
	Path string `json:"path,omitempty"`
	Why  string `json:"why"`
}

// look finds out whether a patch applies, and changes nothing.
func (c *checkout) look(ctx context.Context, art protocol.Artifact, patch string) (trial, error) {
	r := trial{Path: c.top, Base: art.Base, below: c.below}
	head, err := c.run(ctx, c.top, "", "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if err != nil && !refused(err) {
		return r, err
	}
	r.Head = strings.TrimSpace(head)
	r.AtBase = r.Head == art.Base
	if _, err = c.run(ctx, c.top, "", "cat-file", "-e", art.Base+"^{commit}"); err != nil && !refused(err) {
		return r, err
	}
	r.BaseThere = err == nil
	status, err := c.run(ctx, c.top, "", "status", "--porcelain", "-z", "--untracked-files=no", "--no-renames")
	if err != nil {
		return r, err
	}
	for _, line := range strings.Split(status, "\x00") {
		if len(line) > 3 {
			r.Changed = append(r.Changed, line[3:])
		}
	}
	if patch == "" {
		r.Applies = true
		return r, nil
	}
	_, err = c.run(ctx, c.top, patch, "apply", "--check", "--whitespace=nowarn", "-")
	var said *gitproc.ExitError
	switch {
	case err == nil:
		r.Applies = true
	case errors.As(err, &said):
		r.Conflicts = conflicts(said.Stderr)
	default:
		return r, err
	}
	return r, nil
}

// refused reports an answer of git that is no.
func refused(err error) bool {
	var said *gitproc.ExitError
	return errors.As(err, &said)
}

// conflicts reads what git apply says of each file.
func conflicts(stderr string) []conflict {
	var out []conflict
	for _, line := range strings.Split(strings.TrimSpace(stderr), "\n") {
		text, ok := strings.CutPrefix(line, "error: ")
		if !ok || strings.HasPrefix(text, "patch failed: ") {
			continue
		}
		c := conflict{Why: text}
		if i := strings.LastIndex(text, ": "); i > 0 {
			c = conflict{text[:i], text[i+2:]}
		}
		out = append(out, c)
	}
	if out == nil {
		out = []conflict{{Why: strings.TrimSpace(stderr)}}
	}
	return out
}

// checkPatch says whether the patch applies to the checkout at path; its error is that it does not.
func (a *app) checkPatch(ctx context.Context, art protocol.Artifact, patch []byte, path string) error {
	c, err := openCheckout(ctx, path)
	if err != nil {
		return err
	}
	defer c.close()
	r, err := c.look(ctx, art, string(patch))
	if err != nil {
		return err
	}
	if a.json() {
		err = a.printJSON(r)
	} else {
		a.sayChecked(r)
	}
	if art.Large != nil {
		a.note("only the patch was tried: the files beside it go into their places whatever is there")
	}
	if err != nil || r.Applies {
		return err
	}
	hint := ""
	switch {
	case !r.BaseThere:
		hint = fmt.Sprintf("fetch %.12s and try it on a checkout of that", r.Base)
	case !r.AtBase:
		hint = fmt.Sprintf("it applies to a clean checkout of its base: git -C %s worktree add --detach ../at-base %.12s", shellQuote(r.Path), r.Base)
	case len(r.Changed) > 0:
		hint = "it applies to a clean checkout of its base, and this one has changes of its own"
	}
	return exit.Failf(hint, "the patch does not apply to %s", r.Path)
}

func (a *app) sayChecked(r trial) {
	switch {
	case r.AtBase:
		a.printf("base %.12s is checked out\n", r.Base)
	case r.BaseThere:
		a.printf("base %.12s is there, and %.12s is checked out\n", r.Base, r.Head)
	default:
		a.printf("base %.12s is not in this repository\n", r.Base)
	}
	const most = 20
	for i, name := range r.Changed {
		if i == most {
			a.printf("%d more changed\n", len(r.Changed)-most)
			break
		}
		a.printf("changed    %s\n", oneLine(name, mostLine))
	}
	for i, c := range r.Conflicts {
		if i == most {
			a.printf("%d more conflicts\n", len(r.Conflicts)-most)
			break
		}
		if c.Path == "" {
			a.printf("conflict   %s\n", oneLine(c.Why, 400))
			continue
		}
		a.printf("conflict   %s: %s\n", oneLine(c.Path, mostLine), oneLine(c.Why, mostLine))
	}
	if r.Applies {
		a.printf("applies to %s\n", oneLine(r.Path, 400))
	}
	if r.Applies && r.below {
		a.note("apply it there: git apply in a folder below leaves out what is not in that folder, and says nothing")
	}
}
