package git

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/worktree"
)

// The modes that git stores.
const (
	modeDir     = 0o040000
	modeFile    = 0o100644
	modeExec    = 0o100755
	modeLink    = 0o120000
	modeGitlink = 0o160000
)

const (
	// maxDepth bounds nested folders, as git does.
	maxDepth = 2048
	// maxPlanned bounds the paths and folders of a tree: a few small objects can name any number of them. The largest
	// repositories that are known have some 3.5 million.
	maxPlanned = 8 << 20
	// maxRules bounds the sizes of all ignore and attribute files of a tree together: each line takes many times its
	// length when it is read.
	maxRules = 16 << 20
	// maxPlannedBytes bounds the lengths of all paths together.
	maxPlannedBytes = 2 << 30
)

// entry is one path of a tree that is not a folder.
type entry struct {
	path string
	mode uint32
	id   plumbing.Hash
	conv conversion
	stat fileStat
}

// folder is one folder of a tree in pre-order, as the TREE extension of an index wants it.
type folder struct {
	// name is the last part of the path, empty for the top.
	name string
	// entries counts the paths below, at any depth; folders those directly in it.
	entries, folders int
	id               plumbing.Hash
}

// plan is everything that a tree will hold, known and accepted before the first file is written.
type plan struct {
	commit, tree plumbing.Hash
	entries      []entry // in index order
	folders      []folder
	settings     settings
}

// planTree reads the trees of a commit and decides each file's conversion. What the driver refuses to check out
// is refused here: *worktree.NeedsGitError.
func (h *host) planTree(ctx context.Context, commit, tree plumbing.Hash) (*plan, error) {
	attrs, err := newAttributes(h.settings)
	if err != nil {
		return nil, err
	}
	p := &planner{ctx: ctx, host: h, attrs: attrs, plan: &plan{commit: commit, tree: tree, settings: h.settings}, most: maxPlanned}
	if _, err := p.walk("", "", tree, 0); err != nil {
		return nil, err
	}
	return p.plan, nil
}

type planner struct {
	*plan
	ctx   context.Context
	host  *host
	attrs *attributes
	// most is how many paths and folders there may be, bytes the length of the paths so far.
	most         int
	bytes, rules int64
}

// walk appends the entries of one folder and returns how many there are.
func (p *planner) walk(dir, name string, id plumbing.Hash, depth int) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	if depth > maxDepth {
		return 0, fmt.Errorf("read tree %s: more than %d folders deep", id, maxDepth)
	}
	data, err := p.host.objects.readAs(plumbing.TreeObject, id)
	if err != nil {
		return 0, err
	}
	list, err := parseTree(data)
	if err != nil {
		return 0, fmt.Errorf("read tree %s: %w", id, err)
	}
	if err := p.readAttributes(dir, list); err != nil {
		return 0, err
	}
	if p.bytes += int64(len(list)) * int64(len(dir)+1); p.bytes > maxPlannedBytes || len(p.entries)+len(p.folders) >= p.most {
		return 0, fault.Configf("resolved.tree", "%s holds more than %d paths, or paths of more than %d bytes", p.tree, p.most, maxPlannedBytes)
	}
	self := len(p.folders)
	p.folders = append(p.folders, folder{name: name, id: id})
	count := 0
	for _, e := range list {
		path := e.path
		if dir != "" {
			path = dir + "/" + e.path
		}
		if e.mode == modeDir {
			p.folders[self].folders++
			n, err := p.walk(path, e.path, e.id, depth+1)
			if err != nil {
				return 0, err
			}
			count += n
			continue
		}
		e.path = path
		if e.mode == modeFile || e.mode == modeExec {
			e.conv = p.settings.convert(p.attrs, path)
		}
		p.entries = append(p.entries, e)
		count++
	}
	p.folders[self].entries = count
	return count, nil
}

func tooManyRules(tree string) error {
	return fault.Configf("resolved.tree", "%s holds ignore and attribute files of more than %d bytes", tree, maxRules)
}

// readAttributes takes the folder's .gitattributes from the tree itself, as git does when it checks out.
func (p *planner) readAttributes(dir string, list []entry) error {
	for _, e := range list {
		if e.path != ".gitattributes" && e.path != ".gitignore" || e.mode != modeFile && e.mode != modeExec {
			continue
		}
		_, size, err := p.host.objects.info(e.id)
		if err != nil {
			return err
		}
		if p.rules += size; p.rules > maxRules {
			return tooManyRules(p.tree.String())
		}
		if e.path == ".gitignore" {
			continue // read when the tree is collected
		}
		text, err := p.host.objects.readAs(plumbing.BlobObject, e.id)
		if err != nil {
			return err
		}
		if err := p.attrs.add(dir, string(text)); err != nil {
			return err
		}
	}
	if dir == "" {
		p.attrs.finish()
	}
	return nil
}

// parseTree reads a tree object: modes that git would not write and names that git would not check out are errors.
func parseTree(data []byte) ([]entry, error) {
	var out []entry
	prev := ""
	for len(data) > 0 {
		sp := bytes.IndexByte(data, ' ')
		nul := bytes.IndexByte(data, 0)
		if sp < 0 || nul < sp || len(data) < nul+21 {
			return nil, fmt.Errorf("it is damaged")
		}
		mode, err := strconv.ParseUint(string(data[:sp]), 8, 32)
		if err != nil {
			return nil, fmt.Errorf("it is damaged")
		}
		e := entry{path: string(data[sp+1 : nul]), mode: uint32(mode)}
		copy(e.id[:], data[nul+1:])
		data = data[nul+21:]
		switch e.mode {
		case modeDir, modeFile, modeExec, modeLink, modeGitlink:
		default:
			return nil, &worktree.NeedsGitError{Reason: fmt.Sprintf("mode %o of %q", e.mode, e.path)}
		}
		if !validName(e.path, e.mode == modeLink) {
			return nil, &worktree.NeedsGitError{Reason: fmt.Sprintf("name %q in a tree", e.path)}
		}
		key := e.path
		if e.mode == modeDir {
			key += "/"
		}
		if prev != "" && (key <= prev || strings.TrimSuffix(prev, "/") == e.path) {
			return nil, fmt.Errorf("its entries are not in order")
		}
		prev = key
		out = append(out, e)
	}
	return out, nil
}
