package git

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/gitproc"
	"github.com/assent-dev/assent/worktree"
)

// gitMaker makes a tree by running git.
type gitMaker struct {
	d  *Driver
	h  *host
	at worktree.Resolved
	// sparse are the patterns of a sparse checkout, empty without one.
	sparse string
	// replaced are the replace refs, in the form of packed-refs.
	replaced string
	base     []baseEntry
	plan     *plan
}

// baseEntry is one path of the base with what the built-in index has no place for.
type baseEntry struct {
	Path string
	Mode uint32
	// ID is the full object id, of sha1 or sha256.
	ID string
	// Absent is true for what a sparse checkout leaves out.
	Absent bool
}

// frozenBase is what collect needs of the base beside the index: all its entries, and the texts of its ignore and
// attribute files. It is kept as gob: names and texts need not be UTF-8, and JSON would change those that are not.
type frozenBase struct {
	Entries []baseEntry
	Rules   map[string]string
}

// frozenList is the file of a frozenBase.
const frozenList = "base.gob"

func badTree(format string, args ...any) error {
	return fault.Configf("resolved.tree", format, args...)
}

func (d *Driver) gitMaker(ctx context.Context, at worktree.Resolved) (*gitMaker, error) {
	if !isAnyID(at.Commit) || !isAnyID(at.Tree) {
		return nil, fault.Configf("resolved.commit", "%q is not an object id", at.Commit)
	}
	h, err := d.findHost(at.Repo)
	if err != nil {
		return nil, err
	}
	m := &gitMaker{d: d, h: h, at: at}
	if err := d.askConfig(ctx, h); err != nil {
		return nil, err
	}
	if m.reftable() && (at.Private || d.private(at.Repo)) {
		return nil, fault.Configf("isolation.private", "is not there for repository %q, which keeps its refs in tables", at.Repo)
	}
	return m, nil
}

// run runs git in the frozen directory.
func (m *gitMaker) run(ctx context.Context, id string, stdin io.Reader, env []string, args ...string) ([]byte, error) {
	return m.d.frozenRun(ctx, m.d.git, id, len(m.d.filters) > 0, stdin, env, args...)
}

func (m *gitMaker) reftable() bool {
	return strings.EqualFold(m.h.config.text("extensions.refstorage"), "reftable")
}

func (m *gitMaker) host() *host { return m.h }
func (m *gitMaker) close()      {}

func (m *gitMaker) by() *gitMade {
	return &gitMade{Version: m.d.git.Version(), Path: m.d.git.Path(), Filters: m.d.filters}
}

// prepare writes the frozen git directory and finds out whether the tree can be made.
func (m *gitMaker) prepare(ctx context.Context, id string) error {
	if err := m.freezeGit(ctx, id); err != nil {
		return fmt.Errorf("freeze git directory: %w", err)
	}
	m.d.step("git-frozen")
	return m.checkTree(ctx, id)
}

// files has git fill the tree's folder, and takes from git's index what it made.
func (m *gitMaker) files(ctx context.Context, id string) error {
	dir, index := m.d.treeDir(id), m.indexFile(id)
	env := []string{"GIT_WORK_TREE=" + dir, "GIT_INDEX_FILE=" + index}
	if _, err := m.run(ctx, id, nil, env, "read-tree", "--reset", "-u", m.at.Tree); err != nil {
		return ofGit(err)
	}
	m.d.step("git-files")
	if m.reftable() {
		if err := m.headInTable(ctx, id); err != nil {
			return err
		}
	}
	data, err := os.ReadFile(index)
	if err != nil {
		return err
	}
	tree, err := openTopFolder(dir)
	if err != nil {
		return err
	}
	m.plan = &plan{settings: m.h.settings}
	if m.base, m.plan.entries, err = restat(tree, data, len(m.at.Tree)/2); err != nil {
		return err
	}
	if err := os.WriteFile(index, data, 0o600); err != nil {
		return err
	}
	return m.freezeBase(ctx, id)
}

// headInTable moves the tree's HEAD from its file to the table that git looks into here.
func (m *gitMaker) headInTable(ctx context.Context, id string) error {
	admin := filepath.Join(m.h.common, "worktrees", id)
	for _, dir := range []string{"reftable", "refs"} {
		if err := os.Mkdir(filepath.Join(admin, dir), 0o777); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{"HEAD": "ref: refs/heads/.invalid\n", "refs/heads": "this repository uses the reftable format\n"} {
		if err := os.WriteFile(filepath.Join(admin, name), []byte(text), 0o666); err != nil {
			return err
		}
	}
	_, err := m.d.git.Run(ctx, gitproc.Call{
		Args: []string{"update-ref", "--no-deref", "--create-reflog", "-m", "acquire", "HEAD", m.at.Commit},
		Env:  []string{"GIT_DIR=" + admin, "GIT_COMMITTER_NAME=assent", "GIT_COMMITTER_EMAIL=assent@localhost"},
		Lock: m.d.gitLock(id),
	})
	return err
}

func (m *gitMaker) indexFile(id string) string { return filepath.Join(m.d.gitDir(id), "index") }

// freezeBase keeps the entries and the rules of the base.
func (m *gitMaker) freezeBase(ctx context.Context, id string) error {
	f := frozenBase{Entries: m.base, Rules: map[string]string{}}
	var ask bytes.Buffer
	var paths []string
	for _, e := range m.base {
		if name := path.Base(e.Path); (name == ".gitignore" || name == ".gitattributes") && (e.Mode == modeFile || e.Mode == modeExec) {
			fmt.Fprintln(&ask, e.ID)
			paths = append(paths, e.Path)
		}
	}
	if len(paths) > 0 {
		out, err := m.run(ctx, id, &ask, nil, "cat-file", "--batch")
		if err != nil {
			return ofGit(err)
		}
		rules := 0
		for _, p := range paths {
			var text []byte
			if text, out, err = batchRecord(out); err != nil {
				return err
			}
			if rules += len(text); rules > maxRules {
				return tooManyRules(m.at.Tree)
			}
			f.Rules[p] = string(text)
		}
	}
	var data bytes.Buffer
	if err := gob.NewEncoder(&data).Encode(f); err != nil {
		return err
	}
	return m.d.replace(filepath.Join(m.d.stateDir(id), frozenList), data.Bytes())
}

// batchRecord parts the first object from the output of `cat-file --batch`.
func batchRecord(out []byte) (content, rest []byte, err error) {
	line, rest, ok := bytes.Cut(out, []byte("\n"))
	fields := strings.Fields(string(line))
	if ok && len(fields) == 2 && fields[1] == "missing" {
		return nil, nil, &worktree.MissingError{Object: fields[0]}
	}
	if ok && len(fields) == 3 {
		if n, err := strconv.Atoi(fields[2]); err == nil && n >= 0 && n < len(rest) {
			return rest[:n], rest[n+1:], nil
		}
	}
	return nil, nil, fmt.Errorf("git cat-file: cannot read its answer %.80q", line)
}

// index gives the tree's git directory what the agent's git will work with.
func (m *gitMaker) index(r *record, id string) error {
	if r.Resolved.Private {
		if err := m.privatize(r.Admin); err != nil {
			return err
		}
	}
	if m.sparse != "" {
		if err := m.shareSparse(r); err != nil {
			return err
		}
	}
	data, err := os.ReadFile(m.indexFile(id))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.Admin, "index"), data, 0o666); err != nil {
		return err
	}
	m.d.step("git-index-copied")
	return os.Remove(m.indexFile(id))
}

// shareSparse makes the tree a sparse one for the agent's git too, as `git worktree add` does.
func (m *gitMaker) shareSparse(r *record) error {
	info := filepath.Join(r.Admin, "info")
	if err := os.MkdirAll(info, 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(info, "sparse-checkout"), []byte(m.sparse), 0o666); err != nil {
		return err
	}
	if own, err := m.h.config.flag("extensions.worktreeconfig", false); err != nil || !own || r.Resolved.Private {
		return err
	}
	cone, err := m.h.config.flag("core.sparsecheckoutcone", true)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = %t\n", cone)
	return os.WriteFile(filepath.Join(r.Admin, "config.worktree"), []byte(text), 0o666)
}

// privatize adds to a private git directory what the agent's git has to know of the repository.
func (m *gitMaker) privatize(admin string) error {
	for name, text := range map[string]string{"config": m.frozenConfig(""), "packed-refs": m.replaced} {
		f, err := os.OpenFile(filepath.Join(admin, name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (m *gitMaker) planned() *plan { return m.plan }
