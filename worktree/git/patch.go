package git

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/assent-dev/assent/worktree"
)

// maxTextDiff is the size in bytes from which a file is treated as binary and streamed.
const maxTextDiff = 16 << 20

// maxDiffLines is the number of lines from which a text is treated as binary: a diff costs some 50 bytes a line.
const maxDiffLines = 1 << 19

// side is one half of a change: a mode, an id and a way to the content.
type side struct {
	mode uint32
	id   plumbing.Hash
	size int64
	// load returns the content; copy streams it.
	load func() ([]byte, error)
	copy func(io.Writer) error
}

// patchWriter writes a patch that git can apply: full ids, quoted names, no renames.
type patchWriter struct {
	out bytes.Buffer
	// maxFile and max bound a file and the whole in bytes.
	maxFile, max int64
	// large are the new contents that found no room, oneWay the paths whose old content did not, so that the patch
	// cannot be taken back there.
	large  []large
	oneWay []string
	// forward leaves the old content out.
	forward bool
	// old and new give the two sides of a path.
	old, new func(e *entry) (side, error)
}

// write appends all changes, deletes first, so that a path is free before something else takes its name, and
// returns the manifest.
func (w *patchWriter) write(changes []change) ([]worktree.File, error) {
	files := map[string]*worktree.File{}
	for _, c := range changes {
		if c.new == nil || c.typeChanged() {
			f, err := w.fit(change{path: c.path, old: c.old})
			if err != nil {
				return nil, err
			}
			files[c.path] = f
		}
	}
	for _, c := range changes {
		if c.new == nil {
			continue
		}
		retyped := c.typeChanged()
		if retyped {
			c.old = nil
		}
		f, err := w.fit(c)
		if err != nil {
			return nil, err
		}
		if retyped {
			was := files[c.path]
			f.Status = "type-changed"
			f.Deletions = was.Deletions
			f.Binary = f.Binary || was.Binary
		}
		files[c.path] = f
	}
	return manifest(changes, files), nil
}

// manifest lists the files in order and joins a delete and an add of the same content to a rename.
func manifest(changes []change, files map[string]*worktree.File) []worktree.File {
	empty := blobID(nil)
	deleted := map[plumbing.Hash][]change{}
	for _, c := range changes {
		if c.new == nil && c.old.id != empty {
			deleted[c.old.id] = append(deleted[c.old.id], c)
		}
	}
	from := map[string]string{}
	moved := map[string]bool{}
	for _, c := range changes {
		if c.old != nil || len(deleted[c.new.id]) == 0 {
			continue
		}
		list := deleted[c.new.id]
		best := 0
		for i, d := range list {
			if path.Base(d.path) == path.Base(c.path) {
				best = i
				break
			}
		}
		if list[best].old.mode&0o170000 != c.new.mode&0o170000 {
			continue
		}
		from[c.path], moved[list[best].path] = list[best].path, true
		deleted[c.new.id] = append(list[:best:best], list[best+1:]...)
	}
	var out []worktree.File
	for _, c := range changes {
		if moved[c.path] {
			continue
		}
		f := *files[c.path]
		if old, ok := from[c.path]; ok {
			f.Status, f.From, f.Insertions, f.Deletions = "renamed", old, 0, 0
		}
		out = append(out, f)
	}
	return out
}

// errLarge reports a content that has no room in the patch.
var errLarge = errors.New("it is too large for the patch")

// fit appends one change, or takes note of what has no room. Links and submodules always have.
func (w *patchWriter) fit(c change) (*worktree.File, error) {
	start := w.out.Len()
	for _, w.forward = range []bool{false, true} {
		f, err := w.one(c)
		if err != nil && !errors.Is(err, errLarge) {
			return nil, err
		}
		// That a file is gone is said in a few bytes, room or not.
		short := w.forward && c.new == nil || !regular(c.old) && !regular(c.new)
		if err == nil && (short || int64(w.out.Len()) <= w.max) {
			if w.forward {
				w.oneWay = append(w.oneWay, c.path)
			}
			return f, nil
		}
		w.out.Truncate(start)
	}
	f := &worktree.File{Path: c.path, Status: "modified", Binary: true, Large: true}
	if c.old == nil {
		f.Status = "added"
	}
	now, err := w.new(c.new)
	w.large = append(w.large, large{c.new, now.size})
	return f, err
}

// regular reports whether there is an entry and it is a file.
func regular(e *entry) bool { return e != nil && (e.mode == modeFile || e.mode == modeExec) }

// one appends one change.
func (w *patchWriter) one(c change) (*worktree.File, error) {
	var old, new side
	var err error
	if c.old != nil {
		if old, err = w.old(c.old); err != nil {
			return nil, err
		}
	}
	if c.new != nil {
		if new, err = w.new(c.new); err != nil {
			return nil, err
		}
	}
	f := &worktree.File{Path: c.path, Status: "modified"}
	if c.old == nil {
		f.Status = "added"
	} else if c.new == nil {
		f.Status = "deleted"
	}
	writeHead(&w.out, c.path, old.mode, new.mode, old.id.String(), new.id.String())
	if old.id == new.id {
		return f, nil
	}
	return f, w.body(c, old, new, f)
}

// headLine begins a change. git apply cannot read a space before a slash there unless the name is in quotes, and then refuses the
// whole patch.
func headLine(path string) string {
	from, to := quote("a/", path), quote("b/", path)
	if odd(path) && from[0] != '"' {
		from, to = `"`+from+`"`, `"`+to+`"`
	}
	return partMark + from + " " + to + "\n"
}

// odd reports a path that git prints otherwise than git apply reads it.
func odd(path string) bool { return strings.Contains(path, " /") }

// writeHead appends the lines before the content of a change. Mode 0 is that of a side that is not there; the ids are
// whole ones, in hex.
func writeHead(out *bytes.Buffer, path string, oldMode, newMode uint32, oldID, newID string) {
	out.WriteString(headLine(path))
	mode := ""
	switch {
	case oldMode == 0:
		fmt.Fprintf(out, "new file mode %06o\n", newMode)
	case newMode == 0:
		fmt.Fprintf(out, "deleted file mode %06o\n", oldMode)
	case oldMode != newMode:
		fmt.Fprintf(out, "old mode %06o\nnew mode %06o\n", oldMode, newMode)
	default:
		mode = fmt.Sprintf(" %06o", newMode)
	}
	if oldID != newID {
		fmt.Fprintf(out, "index %s..%s%s\n", oldID, newID, mode)
	}
}

// body appends the content of a change.
func (w *patchWriter) body(c change, old, new side, f *worktree.File) error {
	if new.size > w.maxFile || old.size > w.maxFile && !w.forward {
		return errLarge
	}
	if w.forward {
		return w.binary(old, new, f)
	}
	if old.size > maxTextDiff || new.size > maxTextDiff {
		return w.binary(old, new, f)
	}
	var a, b []byte
	var err error
	if c.old != nil {
		if a, err = old.load(); err != nil {
			return err
		}
	}
	if c.new != nil {
		if b, err = new.load(); err != nil {
			return err
		}
	}
	if !diffable(a) || !diffable(b) {
		old.copy = func(to io.Writer) error { _, err := to.Write(a); return err }
		new.copy = func(to io.Writer) error { _, err := to.Write(b); return err }
		old.size, new.size = int64(len(a)), int64(len(b))
		return w.binary(old, new, f)
	}
	d := diffLines(a, b)
	f.Insertions, f.Deletions = d.counts()
	if f.Insertions+f.Deletions == 0 {
		return nil // an empty file comes or goes: the head says it all
	}
	from, to := quote("a/", c.path), quote("b/", c.path)
	if c.old == nil {
		from = "/dev/null"
	}
	if c.new == nil {
		to = "/dev/null"
	}
	fmt.Fprintf(&w.out, "--- %s\n+++ %s\n", endName(from), endName(to))
	hunks := d.hunks(w.out.AvailableBuffer(), contextLines)
	if c.old != nil && c.new != nil && c.new.conv.auto() && bytes.Contains(a, []byte("\r\n")) && !showsCRLF(hunks) {
		hunks = d.hunks(w.out.AvailableBuffer(), len(d.old))
	}
	w.out.Write(hunks)
	return nil
}

// showsCRLF reports whether hunks have an old line that ends with CR LF. By that alone git apply knows that a file keeps them,
// where the rules leave it to the content; else it drops each CR of the file.
func showsCRLF(hunks []byte) bool {
	for line := range bytes.Lines(hunks) {
		if (line[0] == ' ' || line[0] == '-') && bytes.HasSuffix(line, []byte("\r\n")) {
			return true
		}
	}
	return false
}

// diffable reports whether a content is text that can be compared line by line.
func diffable(text []byte) bool {
	return bytes.IndexByte(text, 0) < 0 && bytes.Count(text, []byte("\n")) < maxDiffLines
}

// endName ends a name that holds a space with a tab, or a reader would take the rest for a date.
func endName(name string) string {
	if strings.Contains(name, " ") {
		return name + "\t"
	}
	return name
}

// binary appends the whole content, of both sides if there is room, so that the patch can be taken back too.
func (w *patchWriter) binary(old, new side, f *worktree.File) error {
	f.Binary = true
	w.out.WriteString("GIT binary patch\n")
	sides := []side{new, old}
	if w.forward {
		sides = sides[:1]
	}
	for _, s := range sides {
		if s.copy == nil {
			s.copy = func(io.Writer) error { return nil }
		}
		if err := writeLiteral(&w.out, s.size, s.copy); err != nil {
			return err
		}
	}
	return nil
}
