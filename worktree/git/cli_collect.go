package git

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/assent-dev/assent/internal/gitproc"
	"github.com/assent-dev/assent/worktree"
)

// gitCollect reads one tree by git. The tree itself is read here, as every tree is; what differs from the base is
// copied beside, and git sees only the copies. So it meets no link, no FIFO and no change under its hands, and
// none of the attribute files that the agent may have written.
type gitCollect struct {
	d    *Driver
	git  *gitproc.Program
	id   string
	r    *record
	f    *frozen
	base frozenBase
	// dir holds the copies, the objects made of them, and the index; it is made anew for each reading.
	dir string
	// stored are the ids that the base has for paths of which replace refs show something else.
	stored map[string]string
	// full are the whole ids of what changed, by the first 20 bytes that an entry has of them.
	full map[plumbing.Hash]string
}

// gitReader is reader for a tree that git made.
func (d *Driver) gitReader(ctx context.Context, id string, r *record) (func() (worktree.Patch, error), func(), error) {
	program, err := d.gitOf(r)
	if err != nil {
		return nil, nil, err
	}
	if err := d.endGit(id); err != nil {
		return nil, nil, err
	}
	c := &gitCollect{d: d, git: program, id: id, r: r, dir: filepath.Join(d.stateDir(id), "collect")}
	data, err := os.ReadFile(filepath.Join(d.stateDir(id), frozenList))
	if err != nil {
		return nil, nil, err
	}
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&c.base); err != nil {
		return nil, nil, err
	}
	if err := c.replaced(); err != nil {
		return nil, nil, err
	}
	if c.f, err = d.unfreezeIndex(id); err != nil {
		return nil, nil, err
	}
	err = c.f.rules(func(e *entry) ([]byte, error) { return []byte(c.base.Rules[e.path]), nil })
	if err != nil {
		return nil, nil, err
	}
	// What a failed removal leaves here goes at the next collect, or with the tree.
	return func() (worktree.Patch, error) { return c.read(ctx) }, func() { _ = os.RemoveAll(c.dir) }, nil
}

// read makes the patch of what is on disk now.
func (c *gitCollect) read(ctx context.Context) (worktree.Patch, error) {
	none := worktree.Patch{}
	st, err := newStage(c.dir)
	if err != nil {
		return none, err
	}
	defer st.close()
	c.d.step("stage-made")
	root, err := c.d.openTree(c.id, c.r)
	if err != nil {
		return none, err
	}
	defer root.Close()
	s := &scan{
		ctx: ctx, base: c.f.base, tracked: c.f.tracked, ignore: c.f.ignore, attrs: c.f.attrs, settings: c.f.settings,
		racyFrom: c.r.RacyFrom, take: st.take,
	}
	defer s.relock(root)
	if err := s.run(root); err != nil {
		return none, err
	}
	c.d.step("git-staged")
	from, to, err := c.trees(ctx, s, st)
	if err != nil {
		return none, ofGit(err)
	}
	changes, err := c.changes(ctx, from, to)
	if err != nil {
		return none, ofGit(err)
	}
	fit, err := c.fit(ctx, changes, from, to)
	if err != nil {
		return none, ofGit(err)
	}
	for _, ch := range changes {
		if name := path.Base(ch.path); name == ".gitignore" || name == ".gitattributes" {
			s.warn("%q was changed: the rules of the base were used", ch.path)
		}
	}
	tree, err := c.named(ctx, to)
	if err != nil {
		return none, ofGit(err)
	}
	s.warnOfLarge(fit.large, fit.oneWay)
	for _, gone := range fit.lacks {
		s.warn("the repository does not have what the commit has at %q: the patch cannot be taken back there", gone)
	}
	c.warnOfFilters(s)
	p := worktree.Patch{Bytes: fit.bytes(), Base: c.r.Resolved.Commit, Tree: tree, Files: manifest(changes, fit.files), Large: c.beside(fit.large)}
	p.Warnings, p.Ignored = s.notes()
	return p, nil
}

// run runs git on the copies.
func (c *gitCollect) run(ctx context.Context, stdin *bytes.Buffer, args ...string) ([]byte, error) {
	return c.d.frozenCall(ctx, c.git, c.id, c.call("index", stdin, args...))
}

// stream is run for an output that may be long, by the rules of the base: w gets it as it comes.
func (c *gitCollect) stream(ctx context.Context, w io.Writer, args ...string) error {
	call := c.call(baseIndex, nil, args...)
	call.To = w
	_, err := c.d.frozenCall(ctx, c.git, c.id, call)
	return err
}

// call is a run of git on the copies, with one of the index files of their folder.
func (c *gitCollect) call(index string, stdin *bytes.Buffer, args ...string) gitproc.Call {
	if stdin == nil {
		stdin = new(bytes.Buffer)
	}
	return gitproc.Call{
		Args: append([]string{"-c", "core.sparseCheckout=false"}, args...), Stdin: stdin, Programs: len(c.r.Git.Filters) > 0,
		Env: []string{
			"GIT_OBJECT_DIRECTORY=" + filepath.Join(c.dir, "objects"), "GIT_INDEX_FILE=" + filepath.Join(c.dir, index),
			"GIT_WORK_TREE=" + filepath.Join(c.dir, "files"), "GIT_NO_REPLACE_OBJECTS=1",
		},
	}
}

// trees makes the tree of the base and that of the result and returns their ids.
func (c *gitCollect) trees(ctx context.Context, s *scan, st *stage) (from, to string, err error) {
	if err := st.borrow(c.objects()); err != nil {
		return "", "", err
	}
	if err := c.load(ctx, c.base.Entries); err != nil {
		return "", "", err
	}
	if from, err = c.writeTree(ctx); err != nil {
		return "", "", err
	}
	if err := c.keepRules(); err != nil {
		return "", "", err
	}
	// The base's attribute files are in the index until all files are converted by them.
	if err := c.convert(ctx, s, st.paths); err != nil {
		return "", "", err
	}
	if err := c.finish(ctx, s, st); err != nil {
		return "", "", err
	}
	c.d.step("git-indexed")
	to, err = c.writeTree(ctx)
	return from, to, err
}

// baseIndex is a copy of the index while it is that of the base. Diffs have it, because the attributes in an index say what of
// a patch people can read.
const baseIndex = "index.base"

func (c *gitCollect) keepRules() error {
	data, err := os.ReadFile(filepath.Join(c.dir, "index"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing is in the base
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.dir, baseIndex), data, 0o600)
}

// objects is the object folder of the repository.
func (c *gitCollect) objects() string { return filepath.Join(c.r.Common, "objects") }

// load puts entries of the base into the index.
func (c *gitCollect) load(ctx context.Context, entries []baseEntry) error {
	var list bytes.Buffer
	for _, e := range entries {
		nulled(&list, "%o %s\t%s", e.Mode, e.ID, e.Path)
	}
	_, err := c.run(ctx, &list, "update-index", "-z", "--index-info")
	return err
}

func (c *gitCollect) writeTree(ctx context.Context) (string, error) {
	out, err := c.run(ctx, nil, "write-tree", "--missing-ok")
	return strings.TrimSpace(string(out)), err
}

// convert adds copied files to the index through the conversions that git knows. If that fails it is tried with
// fewer files, until the one that cannot be converted is alone.
func (c *gitCollect) convert(ctx context.Context, s *scan, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	var list bytes.Buffer
	for _, p := range paths {
		nulled(&list, "%s", p)
	}
	_, err := c.run(ctx, &list, "update-index", "-z", "--add", "--replace", "--stdin")
	switch {
	case !failed(err):
		return err
	case len(paths) > 1:
		half := len(paths) / 2
		if err := c.convert(ctx, s, paths[:half]); err != nil {
			return err
		}
		return c.convert(ctx, s, paths[half:])
	}
	p := paths[0]
	if encoded, askErr := c.encoded(ctx, p); askErr != nil || !encoded {
		return fmt.Errorf("convert %q: %w", p, errors.Join(err, askErr))
	}
	s.warn("%q is not in the encoding that the base says: its bytes are in the patch as they are", p)
	file, err := c.plainly(p)
	if err != nil {
		return err
	}
	return c.addRaw(ctx, p, file, c.modeOf(s, p))
}

// encoded asks git whether the base says an encoding of a file: it may match names in any case.
func (c *gitCollect) encoded(ctx context.Context, path string) (bool, error) {
	out, err := c.run(ctx, bytes.NewBufferString(path+"\x00"), "check-attr", "--cached", "--stdin", "-z", "working-tree-encoding")
	fields := strings.Split(string(out), "\x00")
	return len(fields) > 2 && fields[2] != "unspecified", err
}

// plainly gives a copied file a plain name: hash-object reads names by lines, without a CR at the end, and only short ones.
func (c *gitCollect) plainly(path string) (string, error) {
	const name = "raw"
	root, err := os.OpenRoot(c.dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	return filepath.Join(c.dir, name), root.Rename("files/"+path, name)
}

func (c *gitCollect) modeOf(s *scan, path string) uint32 {
	for i := range s.found {
		if s.found[i].path == path {
			return s.found[i].mode
		}
	}
	return modeFile
}

// addRaw adds a file to the index without any conversion.
func (c *gitCollect) addRaw(ctx context.Context, path, file string, mode uint32) error {
	out, err := c.run(ctx, bytes.NewBufferString(file+"\n"), "hash-object", "-w", "--no-filters", "--stdin-paths")
	if err != nil {
		return err
	}
	var list bytes.Buffer
	nulled(&list, "%o %s\t%s", mode, strings.TrimSpace(string(out)), path)
	_, err = c.run(ctx, &list, "update-index", "-z", "--replace", "--index-info")
	return err
}

// finish takes what is gone out of the index and adds the attribute files.
func (c *gitCollect) finish(ctx context.Context, s *scan, st *stage) error {
	found := make(map[string]bool, len(s.found))
	for i := range s.found {
		found[s.found[i].path] = true
	}
	var list bytes.Buffer
	for _, e := range c.base.Entries {
		if !found[e.Path] && !e.Absent {
			nulled(&list, "0 %s\t%s", strings.Repeat("0", len(e.ID)), e.Path)
		}
	}
	if list.Len() > 0 {
		if _, err := c.run(ctx, &list, "update-index", "-z", "--index-info"); err != nil {
			return err
		}
	}
	return c.addAttributes(ctx, s, st)
}

// addAttributes adds what lies apart to the index, the line ends of files converted by the rules of the base.
func (c *gitCollect) addAttributes(ctx context.Context, s *scan, st *stage) error {
	for i, e := range st.attributes {
		file := st.attributeFile(i)
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if e.mode != modeLink {
			if data, err = c.f.settings.convert(c.f.attrs, e.path).toBlob(data, nil); err != nil {
				return err
			}
			if c.byGitAlone(e.path, data) {
				s.warn("%q has the name of an attribute file, or is below one: only its line ends were converted, and git apply writes it otherwise", e.path)
			}
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			return err
		}
		if err := c.addRaw(ctx, e.path, file, e.mode); err != nil {
			return err
		}
	}
	return nil
}

// byGitAlone reports whether the base has more in store for a file than line ends.
func (c *gitCollect) byGitAlone(path string, data []byte) bool {
	got := c.f.attrs.of(path)
	filter, code := got["filter"], got["working-tree-encoding"]
	return got["ident"].kind == attrSet && bytes.Contains(data, []byte("$Id")) || filter.kind == attrText && slices.Contains(c.r.Git.Filters, filter.text) ||
		code.kind == attrText && !strings.EqualFold(code.text, "utf-8") && !strings.EqualFold(code.text, "utf8")
}

// between are the arguments of a diff that depends on nothing but two trees: not on a .gitmodules that hides a submodule either.
func (c *gitCollect) between(from, to string) []string {
	return []string{"-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none",
		"--src-prefix=a/", "--dst-prefix=b/", from, to}
}

// changes lists what differs, in git's order. Ids are cut to their first 20 bytes.
func (c *gitCollect) changes(ctx context.Context, from, to string) ([]change, error) {
	out, err := c.run(ctx, nil, append([]string{"diff-tree", "--raw", "--no-abbrev", "-z"}, c.between(from, to)...)...)
	if err != nil {
		return nil, err
	}
	fields := strings.Split(string(out), "\x00")
	var list []change
	c.full = map[plumbing.Hash]string{}
	for i := 0; i+1 < len(fields); i += 2 {
		head := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(head) != 5 {
			return nil, fmt.Errorf("git diff-tree: cannot read its answer %.80q", fields[i])
		}
		ch := change{path: fields[i+1]}
		for j, into := range []**entry{&ch.old, &ch.new} {
			mode, err := strconv.ParseUint(head[j], 8, 32)
			if err != nil || !isAnyID(head[2+j]) {
				return nil, fmt.Errorf("git diff-tree: cannot read its answer %.80q", fields[i])
			}
			if mode != 0 {
				*into = &entry{path: ch.path, mode: uint32(mode), id: plumbing.NewHash(head[2+j][:40])}
				c.full[(*into).id] = head[2+j]
			}
		}
		list = append(list, ch)
	}
	slices.SortFunc(list, func(a, b change) int { return strings.Compare(a.path, b.path) })
	return list, nil
}

// counted describes each change and counts its lines.
func (c *gitCollect) counted(ctx context.Context, changes []change, from, to string) (map[string]*worktree.File, error) {
	files := make(map[string]*worktree.File, len(changes))
	for _, ch := range changes {
		f := &worktree.File{Path: ch.path, Status: "modified"}
		switch {
		case ch.old == nil:
			f.Status = "added"
		case ch.new == nil:
			f.Status = "deleted"
		case ch.typeChanged():
			f.Status = "type-changed"
		}
		files[ch.path] = f
	}
	out, err := c.d.frozenCall(ctx, c.git, c.id, c.call(baseIndex, nil, append([]string{"diff-tree", "--numstat", "-z"}, c.between(from, to)...)...))
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(string(out), "\x00") {
		fields := strings.SplitN(line, "\t", 3)
		if len(fields) != 3 || files[fields[2]] == nil {
			continue
		}
		f := files[fields[2]]
		if f.Binary = fields[0] == "-"; !f.Binary {
			f.Insertions, _ = strconv.Atoi(fields[0])
			f.Deletions, _ = strconv.Atoi(fields[1])
		}
	}
	return files, nil
}

// warnOfFilters names the filters that the base asks for and that did not run.
func (c *gitCollect) warnOfFilters(s *scan) {
	var names []string
	note := func(rules []attrRule) {
		for _, r := range rules {
			for i, name := range r.names {
				if v := r.value[i]; name == "filter" && v.kind == attrText && !slices.Contains(c.r.Git.Filters, v.text) {
					names = append(names, v.text)
				}
			}
		}
	}
	note(c.f.attrs.info)
	note(c.f.attrs.config)
	for _, rules := range c.f.attrs.files {
		note(rules)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		s.warn("filter %q did not run: the files that it is for are as they are stored", name)
	}
}
