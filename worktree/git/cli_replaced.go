package git

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
)

// What replace refs show of the base is on disk, and so the trees that are compared have that. No ref is followed among them:
// what an agent leaves may be the very thing that one hides.

// maxReplaced is how often git follows a replace ref to the next.
const maxReplaced = 5

// replaced gives the files of the base the ids of what is shown of them, and keeps those that differ by their paths.
func (c *gitCollect) replaced() error {
	data, err := os.ReadFile(filepath.Join(c.d.gitDir(c.id), "packed-refs"))
	if err != nil {
		return err
	}
	by := map[string]string{}
	for line := range strings.Lines(string(data)) {
		now, ref, _ := strings.Cut(strings.TrimSpace(line), " ")
		if was, ok := strings.CutPrefix(ref, "refs/replace/"); ok {
			by[was] = now
		}
	}
	c.stored = map[string]string{}
	for i := range c.base.Entries {
		e := &c.base.Entries[i]
		was := e.ID
		for range maxReplaced {
			if now, ok := by[e.ID]; ok && e.Mode != modeGitlink {
				e.ID = now
			}
		}
		if e.ID != was {
			c.stored[e.Path] = was
		}
	}
	return nil
}

// named is the id of a tree of the result, in which what is as in the base has the id that the base has for it. If something
// holds what is behind its ref, it is the tree as it is: the two must not have one name.
func (c *gitCollect) named(ctx context.Context, tree string) (string, error) {
	if len(c.stored) == 0 {
		return tree, nil
	}
	shown := make(map[string]string, len(c.stored))
	for _, e := range c.base.Entries {
		shown[e.Path] = e.ID
	}
	out, err := c.run(ctx, nil, "ls-tree", "-r", "-z", "--full-tree", tree)
	if err != nil {
		return "", err
	}
	var list bytes.Buffer
	for record := range strings.SplitSeq(string(out), "\x00") {
		head, path, _ := strings.Cut(record, "\t")
		fields := strings.Fields(head) // mode, type, id
		was, ok := c.stored[path]
		switch {
		case !ok || len(fields) != 3:
		case fields[2] == was:
			return tree, nil
		case fields[2] == shown[path]:
			nulled(&list, "%s %s\t%s", fields[0], was, path)
		}
	}
	return c.with(ctx, tree, &list)
}
