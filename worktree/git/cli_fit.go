package git

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/assent-dev/assent/worktree"
)

// gitPatch is a patch by git within the bounds of patchWriter. What is too large for it git never compares: both trees are
// compared without that. What git then prints is cut into its parts as it comes, and those that have no more room go.
type gitPatch struct {
	// gone are deletes without the old content, which come first: a path is free before something else takes its name.
	gone, out bytes.Buffer
	max       int64
	files     map[string]*worktree.File
	large     []large
	// lacks are those of which the repository does not have the old content.
	oneWay, lacks []string

	ids   func(e *entry) string
	sizes map[string]int64
	// parts are what git is to print, in its order: one for each change, two for a change of type. at counts those begun.
	parts []change
	at    int
	// start is where the part begins in out; full is true when it had no room.
	start int
	full  bool
	// head is the begin of a line as long as it may be that of a part; inLine is true behind it.
	head   []byte
	inLine bool
	// skip is true behind a head that was written in place of git's.
	skip bool
}

// partMark begins each part, and no other line of a patch.
const partMark = "diff --git "

func (p *gitPatch) bytes() []byte {
	if p.gone.Len() == 0 {
		return p.out.Bytes()
	}
	return slices.Concat(p.gone.Bytes(), p.out.Bytes())
}

// fit makes the patch.
func (c *gitCollect) fit(ctx context.Context, changes []change, from, to string) (*gitPatch, error) {
	p := &gitPatch{max: c.d.largePatch, ids: func(e *entry) string { return c.full[e.id] }}
	var err error
	if p.sizes, err = c.sizes(ctx, changes); err != nil {
		return nil, err
	}
	crlf, err := c.crlf(ctx, changes, p.sizes)
	if err != nil {
		return nil, err
	}
	var dropOld, dropNew []string
	var forward, texts []change
	for _, ch := range changes {
		for _, part := range halves(ch) {
			if p.size(part.new) == lacking && (part.old == nil || part.old.id != part.new.id) {
				return nil, &worktree.MissingError{Object: p.ids(part.new), Path: part.path}
			}
			bigOld, bigNew := p.size(part.old) > c.d.largeFile, p.size(part.new) > c.d.largeFile
			if !bigOld && !bigNew && !crlf[part.path] || part.old != nil && part.new != nil && part.old.id == part.new.id {
				p.parts = append(p.parts, part)
				continue
			}
			if part.old != nil {
				dropOld = append(dropOld, part.path)
			}
			if part.new != nil {
				dropNew = append(dropNew, part.path)
			}
			switch {
			case crlf[part.path]:
				texts = append(texts, part)
			case bigNew:
				p.beside(part)
			case part.new == nil:
				p.forget(part)
			default:
				forward = append(forward, part)
			}
		}
	}
	for _, part := range forward {
		if err := c.forward(ctx, p, part); err != nil {
			return nil, err
		}
	}
	if from, err = c.without(ctx, from, dropOld); err != nil {
		return nil, err
	}
	if to, err = c.without(ctx, to, dropNew); err != nil {
		return nil, err
	}
	if p.files, err = c.counted(ctx, changes, from, to); err != nil {
		return nil, err
	}
	for _, part := range texts {
		f, err := c.text(ctx, p, part)
		if err != nil {
			return nil, err
		}
		p.files[part.path].Insertions, p.files[part.path].Deletions, p.files[part.path].Binary = f.Insertions, f.Deletions, f.Binary
	}
	if err := c.stream(ctx, p, append([]string{"diff-tree", "-p", "--binary", "--full-index"}, c.between(from, to)...)...); err != nil {
		return nil, err
	}
	return p, p.end()
}

// halves are the parts of a change: a delete and an add if its type changed.
func halves(ch change) []change {
	if ch.typeChanged() {
		return []change{{path: ch.path, old: ch.old}, {path: ch.path, new: ch.new}}
	}
	return []change{ch}
}

func (p *gitPatch) size(e *entry) int64 {
	if !regular(e) {
		return 0
	}
	return p.sizes[p.ids(e)]
}

// beside leaves the new content of a part out.
func (p *gitPatch) beside(part change) {
	p.large = append(p.large, large{part.new, p.size(part.new)})
}

// forget says in a few bytes that a file is gone, and leaves its content out.
func (p *gitPatch) forget(part change) {
	id := p.ids(part.old)
	writeHead(&p.gone, part.path, part.old.mode, 0, id, strings.Repeat("0", len(id)))
	p.gone.WriteString("GIT binary patch\n")
	_ = writeLiteral(&p.gone, 0, func(io.Writer) error { return nil }) // memory takes all
	p.oneSided(part)
}

// oneSided takes note of a part without its old content.
func (p *gitPatch) oneSided(part change) {
	if p.size(part.old) == lacking {
		p.lacks = append(p.lacks, part.path)
		return
	}
	p.oneWay = append(p.oneWay, part.path)
}

// forward appends the new content of a part without the old one.
func (c *gitCollect) forward(ctx context.Context, p *gitPatch, part change) error {
	p.start = p.out.Len()
	writeHead(&p.out, part.path, part.old.mode, part.new.mode, p.ids(part.old), p.ids(part.new))
	p.out.WriteString("GIT binary patch\n")
	err := writeLiteral(&p.out, p.size(part.new), func(w io.Writer) error {
		return c.stream(ctx, w, "cat-file", "blob", p.ids(part.new))
	})
	if err != nil {
		return err
	}
	if p.over() {
		p.out.Truncate(p.start)
		p.beside(part)
		return nil
	}
	p.oneSided(part)
	return nil
}

func (p *gitPatch) over() bool { return int64(p.gone.Len()+p.out.Len()) > p.max }

// Write takes a part of what git prints.
func (p *gitPatch) Write(data []byte) (int, error) {
	size := len(data)
	for len(data) > 0 {
		switch {
		case p.inLine:
			n := bytes.IndexByte(data, '\n') + 1
			p.inLine = n == 0
			if n == 0 {
				n = len(data)
			}
			if !p.skip {
				p.put(data[:n])
			}
			p.skip = p.skip && p.inLine
			data = data[n:]
		case data[0] != partMark[len(p.head)]:
			p.put(p.head)
			p.head, p.inLine = p.head[:0], true
		default:
			p.head, data = append(p.head, data[0]), data[1:]
			if len(p.head) == len(partMark) {
				if err := p.next(); err != nil {
					return 0, err
				}
				if path := p.parts[p.at-1].path; odd(path) {
					p.head, p.skip = append(p.head[:0], headLine(path)...), true
				}
				p.put(p.head)
				p.head, p.inLine = p.head[:0], true
			}
		}
	}
	return size, nil
}

// put appends to the part that is at hand. Links and submodules always have room.
func (p *gitPatch) put(data []byte) {
	if p.full || p.at == 0 {
		return
	}
	p.out.Write(data)
	if part := p.parts[p.at-1]; p.over() && (regular(part.old) || regular(part.new)) {
		p.out.Truncate(p.start)
		p.full = true
	}
}

// next begins a part.
func (p *gitPatch) next() error {
	p.close()
	if p.at == len(p.parts) {
		return fmt.Errorf("git diff-tree: more than %d changes in its patch", p.at)
	}
	p.at++
	p.start = p.out.Len()
	return nil
}

// close takes note of a part that had no room.
func (p *gitPatch) close() {
	if p.full {
		if part := p.parts[p.at-1]; part.new == nil {
			p.forget(part)
		} else {
			p.beside(part)
		}
	}
	p.full = false
}

// end completes the lists and the manifest.
func (p *gitPatch) end() error {
	p.close()
	if p.at != len(p.parts) {
		return fmt.Errorf("git diff-tree: %d of %d changes in its patch", p.at, len(p.parts))
	}
	slices.SortFunc(p.large, func(a, b large) int { return strings.Compare(a.entry.path, b.entry.path) })
	slices.Sort(p.oneWay)
	slices.Sort(p.lacks)
	for _, path := range slices.Concat(p.oneWay, p.lacks) {
		if f := p.files[path]; f.Status != "type-changed" {
			f.Insertions = 0
		}
		p.files[path].Binary, p.files[path].Deletions = true, 0
	}
	for _, l := range p.large {
		f := p.files[l.entry.path]
		if f.Status != "type-changed" {
			f.Deletions = 0
		}
		f.Binary, f.Large, f.Insertions = true, true, 0
	}
	return nil
}

// lacking is the size of a blob that the repository does not have, such as one of what a sparse checkout of a partial clone
// leaves out: it has no room.
const lacking = math.MaxInt64

// sizes asks for the sizes of the changed blobs, by their ids.
func (c *gitCollect) sizes(ctx context.Context, changes []change) (map[string]int64, error) {
	var ids []string
	for _, ch := range changes {
		for _, e := range []*entry{ch.old, ch.new} {
			if regular(e) {
				ids = append(ids, c.full[e.id])
			}
		}
	}
	out := make(map[string]int64, len(ids))
	if len(ids) == 0 {
		return out, nil
	}
	answer, err := c.run(ctx, bytes.NewBufferString(strings.Join(ids, "\n")+"\n"), "cat-file", "--batch-check=%(objectsize)")
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(answer), "\n"), "\n")
	for i, id := range ids {
		if i < len(lines) && lines[i] == id+" missing" {
			out[id] = lacking
			continue
		}
		size, err := strconv.ParseInt(lines[min(i, len(lines)-1)], 10, 64)
		if err != nil || len(lines) != len(ids) {
			return nil, fmt.Errorf("git cat-file: cannot read its answer %.80q", answer)
		}
		out[id] = size
	}
	return out, nil
}

// without makes a tree that lacks some paths.
func (c *gitCollect) without(ctx context.Context, tree string, paths []string) (string, error) {
	var list bytes.Buffer
	for _, p := range paths {
		nulled(&list, "0 %s\t%s", strings.Repeat("0", len(tree)), p)
	}
	return c.with(ctx, tree, &list)
}

// with makes a tree that has some entries otherwise. It has an index of its own.
func (c *gitCollect) with(ctx context.Context, tree string, list *bytes.Buffer) (string, error) {
	if list.Len() == 0 {
		return tree, nil
	}
	var out []byte
	for _, call := range []struct {
		stdin *bytes.Buffer
		args  []string
	}{
		{nil, []string{"read-tree", tree}}, {list, []string{"update-index", "-z", "--index-info"}}, {nil, []string{"write-tree", "--missing-ok"}},
	} {
		var err error
		if out, err = c.d.frozenCall(ctx, c.git, c.id, c.call("index.fit", call.stdin, call.args...)); err != nil {
			return "", err
		}
	}
	return strings.TrimSpace(string(out)), nil
}
