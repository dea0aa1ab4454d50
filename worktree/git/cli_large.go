package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/assent-dev/assent/worktree"
)

// beside makes the list of large files. Each is read when it is asked for.
func (c *gitCollect) beside(list []large) []worktree.LargeFile {
	var out []worktree.LargeFile
	for _, l := range list {
		id := c.full[l.entry.id]
		out = append(out, worktree.LargeFile{
			Path: l.entry.path, Mode: fmt.Sprintf("%06o", l.entry.mode), Size: l.size, ID: id,
			Copy: func(ctx context.Context, w io.Writer) error { return c.copyLarge(ctx, l, id, w) },
		})
	}
	return out
}

// copyLarge streams the blob of a large file: it is copied and converted once more, and must come to the same id.
func (c *gitCollect) copyLarge(ctx context.Context, l large, id string, w io.Writer) error {
	release, err := c.d.hold(ctx, c.id, c.r)
	if err != nil {
		return err
	}
	defer release()
	if err := c.d.endGit(c.id); err != nil {
		return err
	}
	// What a failed removal leaves here goes at the next collect, or with the tree.
	defer func() { _ = os.RemoveAll(c.dir) }()
	now, err := c.convertAgain(ctx, l.entry)
	if err != nil {
		return c.d.full(fmt.Errorf("read %q: %w", l.entry.path, ofGit(err)))
	}
	if now != id {
		return &worktree.ChangingError{Path: l.entry.path}
	}
	to := &counter{to: stoppable{ctx, w}}
	if err := c.stream(ctx, to, "cat-file", "blob", id); err != nil {
		return err
	}
	if to.n != l.size {
		return fmt.Errorf("git cat-file: %d of %d bytes of %q", to.n, l.size, l.entry.path)
	}
	return nil
}

// convertAgain makes the blob of one file of the tree, as a collect of all files does, and returns its id.
func (c *gitCollect) convertAgain(ctx context.Context, e *entry) (string, error) {
	st, err := newStage(c.dir)
	if err != nil {
		return "", err
	}
	defer st.close()
	if err := c.takeAgain(ctx, st, e); err != nil {
		return "", err
	}
	// What the path had in the base counts for its line ends, and of the other files only those with rules.
	var base []baseEntry
	for _, b := range c.base.Entries {
		if b.Path == e.path || path.Base(b.Path) == ".gitattributes" {
			base = append(base, b)
		}
	}
	if err := c.load(ctx, base); err != nil {
		return "", err
	}
	s := &scan{found: []entry{*e}}
	if err := c.convert(ctx, s, st.paths); err != nil {
		return "", err
	}
	if err := c.addAttributes(ctx, s, st); err != nil {
		return "", err
	}
	out, err := c.run(ctx, nil, "ls-files", "-s", "-z")
	if err != nil {
		return "", err
	}
	for record := range strings.SplitSeq(string(out), "\x00") {
		head, name, _ := strings.Cut(record, "\t")
		if fields := strings.Fields(head); name == e.path && len(fields) == 3 {
			return fields[1], nil
		}
	}
	return "", &worktree.ChangingError{Path: e.path}
}

// takeAgain copies one file of the tree into the stage.
func (c *gitCollect) takeAgain(ctx context.Context, st *stage, e *entry) error {
	if err := st.borrow(c.objects()); err != nil {
		return err
	}
	root, err := c.d.openTree(c.id, c.r)
	if err != nil {
		return err
	}
	defer root.Close()
	s := &scan{ctx: ctx}
	defer s.relock(root)
	s.unlockPath(root, e.path)
	c.d.step("large-opened")
	top, err := root.OpenRoot(".")
	if err != nil {
		return err
	}
	at := newStack(top)
	defer at.close()
	dir, name := path.Split(e.path)
	folder, err := at.enter(strings.TrimSuffix(dir, "/"))
	if err = changing(err); err == nil {
		err = st.take(folder, name, e)
	}
	if errors.Is(err, errChanging) {
		return &worktree.ChangingError{Path: e.path}
	}
	return err
}

// counter counts what it passes on.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}
