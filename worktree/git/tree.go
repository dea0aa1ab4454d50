package git

import (
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// treeID returns the id of the tree that holds entries, which are in index order. Nothing is stored.
func treeID(entries []entry) plumbing.Hash {
	id, _ := subtree(entries, 0)
	return id
}

// subtree hashes the folder that the first entry's path names up to byte prefix, and returns how many entries
// belong to it. Index order is tree order, because a folder sorts as its name with a slash in both.
func subtree(entries []entry, prefix int) (plumbing.Hash, int) {
	var body []byte
	n := 0
	for n < len(entries) && (prefix == 0 || len(entries[n].path) >= prefix && entries[n].path[:prefix] == entries[0].path[:prefix]) {
		e := &entries[n]
		name := e.path[prefix:]
		mode, id, count := e.mode, e.id, 1
		if i := strings.IndexByte(name, '/'); i >= 0 {
			name = name[:i]
			mode = modeDir
			id, count = subtree(entries[n:], prefix+i+1)
		}
		body = fmt.Appendf(body, "%o %s\x00", mode, name)
		body = append(body, id[:]...)
		n += count
	}
	h := newHash("tree", int64(len(body)))
	h.Write(body)
	return sum(h), n
}

// change is one path that differs: without old it is new, without new it is deleted.
type change struct {
	path     string
	old, new *entry
}

// compare returns what differs between two lists in index order.
func compare(old, now []entry) []change {
	var out []change
	i, j := 0, 0
	for i < len(old) || j < len(now) {
		switch {
		case j == len(now) || i < len(old) && old[i].path < now[j].path:
			out = append(out, change{path: old[i].path, old: &old[i]})
			i++
		case i == len(old) || now[j].path < old[i].path:
			out = append(out, change{path: now[j].path, new: &now[j]})
			j++
		default:
			if old[i].mode != now[j].mode || old[i].id != now[j].id {
				out = append(out, change{old[i].path, &old[i], &now[j]})
			}
			i++
			j++
		}
	}
	return out
}

// typeChanged reports a path that became another kind of thing, which a patch says as a delete and an add.
func (c change) typeChanged() bool {
	return c.old != nil && c.new != nil && c.old.mode&0o170000 != c.new.mode&0o170000
}
