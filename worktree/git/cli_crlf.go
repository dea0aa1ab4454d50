package git

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/assent-dev/assent/worktree"
)

// crlf finds the changed texts that are stored with CR LF although the rules leave line ends to the content. Their part of the
// patch is the built-in writer's, because git apply drops the CR of those that git does not show to it.
func (c *gitCollect) crlf(ctx context.Context, changes []change, sizes map[string]int64) (map[string]bool, error) {
	var list bytes.Buffer
	for _, ch := range changes {
		if !regular(ch.old) || !regular(ch.new) || ch.old.id == ch.new.id || !c.f.settings.convert(c.f.attrs, ch.path).auto() ||
			max(sizes[c.full[ch.old.id]], sizes[c.full[ch.new.id]]) > min(maxTextDiff, c.d.largeFile) {
			continue
		}
		nulled(&list, "%o %s\t%s", ch.old.mode, c.full[ch.old.id], ch.path)
	}
	found := map[string]bool{}
	if list.Len() == 0 {
		return found, nil
	}
	const index = "index.crlf"
	if _, err := c.d.frozenCall(ctx, c.git, c.id, c.call(index, &list, "update-index", "-z", "--index-info")); err != nil {
		return nil, err
	}
	out, err := c.d.frozenCall(ctx, c.git, c.id, c.call(index, nil, "ls-files", "--eol", "-z"))
	if err != nil {
		return nil, err
	}
	for record := range strings.SplitSeq(string(out), "\x00") {
		if head, path, ok := strings.Cut(record, "\t"); ok && (strings.HasPrefix(head, "i/mixed") || strings.HasPrefix(head, "i/crlf")) {
			found[path] = true
		}
	}
	return found, nil
}

// text appends such a part.
func (c *gitCollect) text(ctx context.Context, p *gitPatch, part change) (*worktree.File, error) {
	w := &patchWriter{maxFile: c.d.largeFile}
	writeHead(&w.out, part.path, part.old.mode, part.new.mode, p.ids(part.old), p.ids(part.new))
	side := func(e *entry) side {
		load := func() ([]byte, error) { return c.run(ctx, nil, "cat-file", "blob", p.ids(e)) }
		return side{mode: e.mode, id: e.id, size: p.size(e), load: load, copy: func(io.Writer) error { return fmt.Errorf("%q: not loaded", e.path) }}
	}
	auto := *part.new
	auto.conv = convAuto
	f := new(worktree.File)
	if err := w.body(change{path: part.path, old: part.old, new: &auto}, side(part.old), side(part.new), f); err != nil {
		return nil, err
	}
	p.start = p.out.Len()
	p.out.Write(w.out.Bytes())
	if p.over() {
		p.out.Truncate(p.start)
		p.beside(part)
	}
	return f, nil
}
