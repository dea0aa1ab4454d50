package git

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assent-dev/assent/worktree"
)

// sharedState maps what all worktrees of a repository share, and what git reads of the host's own, to a digest:
// `config core.bare`, `hooks/pre-commit`, `info/exclude`, `refs/tags/v1`, `HEAD`, `stash entries`,
// `worktrees/other/HEAD`, `modules/lib/config core.hookspath`.
type sharedState map[string]string

const (
	// unreadable stands for the value of what cannot be read or parsed.
	unreadable = "unreadable"
	// risky begins the digest of what makes git run a program.
	risky = "!"
)

// snapshot digests the shared state of a tree's host. Nothing that an agent puts there makes it fail: a damaged file
// counts as a value of its own. What comes and goes with trees of this driver is left out.
func (d *Driver) snapshot(r *record) sharedState {
	s := newSurvey()
	s.addDir(r.Common, "", r.Host)
	s.addLink(filepath.Join(r.Host, ".git"), ".git", true)
	s.addWorktrees(r.Common)
	s.addModules(filepath.Join(r.Common, "modules"), "modules/", 0)
	s.addStash(r.Common)
	refs, err := openRefs(r.Common, r.Common).all()
	if err != nil {
		s.sharedState["refs"] = unreadable
	}
	for name, value := range refs {
		if !strings.HasPrefix(name, d.pinName("")) {
			s.sharedState[name] = value
		}
	}
	return s.sharedState
}

// addDir adds what a git directory holds for all its worktrees. work is where relative paths of it begin.
func (s *survey) addDir(dir, prefix, work string) {
	s.addConfig(filepath.Join(dir, "config"), prefix+"config", work, 0)
	for _, sub := range []string{"hooks", "remotes", "branches"} {
		s.addFiles(filepath.Join(dir, sub), prefix+sub, true)
	}
	s.addFiles(filepath.Join(dir, "info"), prefix+"info", false)
	// Written by a server for dumb clients, and by every gc.
	delete(s.sharedState, prefix+"info/refs")
	s.addFile(filepath.Join(dir, "objects", "info", "alternates"), prefix+"objects/info/alternates", false)
	s.addFile(filepath.Join(dir, "shallow"), prefix+"shallow", false)
	// Refs kept in tables are seen as a whole: every change of one writes a table.
	s.addFile(filepath.Join(dir, "reftable", "tables.list"), prefix+"refs in tables", false)
	s.addOwn(dir, prefix)
}

// addOwn adds what a git directory holds for one worktree: where it belongs, what it adds to the configuration, and
// the commands of a rebase that waits to go on.
func (s *survey) addOwn(dir, prefix string) {
	s.addConfig(filepath.Join(dir, "config.worktree"), prefix+"config.worktree", dir, 0)
	s.addFile(filepath.Join(dir, "HEAD"), prefix+"HEAD", false)
	for _, name := range []string{"commondir", "gitdir"} {
		s.addFile(filepath.Join(dir, name), prefix+name, true)
	}
	for _, sub := range []string{"rebase-merge", "rebase-apply", "sequencer"} {
		s.addFiles(filepath.Join(dir, sub), prefix+sub, true)
	}
}

// mostIncludes is how deep files of the configuration are followed, as in git.
const mostIncludes = 10

// addConfig adds one key for each configuration key, those of included files among them; its values are hashed, for
// they may be secrets. A key without a value is one too.
func (s *survey) addConfig(file, name, work string, depth int) {
	text, err := s.read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		s.sharedState[name] = risky + unreadable
		return
	}
	s.bytes -= configWeight * int64(len(text))
	list, err := parseConfig(text)
	if err != nil {
		// It may hold anything.
		s.sharedState[name] = risky + digest(unreadable, text)
	}
	for _, set := range list {
		key := name + " " + withoutSecret(set.Key)
		value := digest(strings.TrimPrefix(s.sharedState[key], risky), fmt.Sprintf("%v %s", set.Implicit, set.Value))
		if strings.HasPrefix(s.sharedState[key], risky) || runsPrograms(set.Key, set.Value) {
			value = risky + value
		}
		s.sharedState[key] = value
		included := set.Key == "include.path" || strings.HasPrefix(set.Key, "includeif.") && strings.HasSuffix(set.Key, ".path")
		switch {
		case included && depth < mostIncludes && set.Value != "":
			s.addConfig(resolvePath(set.Value, filepath.Dir(file)), name, work, depth+1)
		case set.Key == "core.hookspath" && set.Value != "":
			s.addFiles(resolvePath(set.Value, work), strings.TrimSuffix(name, "config")+"hooks", true)
		case set.Key == "core.attributesfile" || set.Key == "core.excludesfile":
			s.addFile(resolvePath(set.Value, work), "file of "+key, false)
		}
	}
}

// resolvePath is a path of the configuration.
func resolvePath(path, from string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if !filepath.IsAbs(path) {
		return filepath.Join(from, path)
	}
	return path
}

// addFiles adds every file below a folder. runs says that git runs them, or what they say; never samples.
func (s *survey) addFiles(dir, prefix string, runs bool) {
	// The folder may be a link; what it names is what git reads.
	if to, err := filepath.EvalSymlinks(dir); err == nil {
		s.addLink(dir, prefix, runs)
		dir = to
	}
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if !s.one() {
			return fs.SkipAll
		}
		name, relErr := filepath.Rel(dir, path)
		if relErr != nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		key := prefix + "/" + filepath.ToSlash(name)
		switch {
		case err != nil && runs:
			s.sharedState[key] = risky + unreadable
		case err != nil:
			s.sharedState[key] = unreadable
		case !e.IsDir():
			s.addFile(path, key, runs && !strings.HasSuffix(key, ".sample"))
		}
		return nil
	})
}

func (s *survey) addFile(path, key string, runs bool) {
	fi, err := os.Lstat(path)
	if err != nil {
		return
	}
	content := unreadable
	switch {
	case fi.Mode().IsRegular():
		if text, err := s.read(path); err == nil {
			content = text
		}
	case fi.Mode()&fs.ModeSymlink != 0:
		content, _ = os.Readlink(path)
		if text, err := s.read(path); err == nil {
			content += "\x00" + text
		}
	}
	s.sharedState[key] = digest(fi.Mode().String(), content)
	if runs {
		s.sharedState[key] = risky + s.sharedState[key]
	}
}

// addLink adds a path that should be a folder, unless it is one.
func (s *survey) addLink(path, key string, runs bool) {
	if fi, err := os.Lstat(path); err == nil && !fi.IsDir() {
		s.addFile(path, key, runs)
	}
}

// addWorktrees adds the linked worktrees of the repository, of which the host may be one; those with a marker are trees of a driver.
func (s *survey) addWorktrees(common string) {
	entries, err := os.ReadDir(filepath.Join(common, "worktrees"))
	if err != nil {
		return
	}
	for _, e := range entries {
		if !s.one() {
			return
		}
		dir := filepath.Join(common, "worktrees", e.Name())
		if readMarker(dir) == nil {
			s.addOwn(dir, "worktrees/"+e.Name()+"/")
		}
	}
}

// mostNested is how deep git directories of submodules are looked for: their names may have slashes.
const mostNested = 8

// addModules adds the configuration and the hooks of the host's submodules.
func (s *survey) addModules(dir, prefix string, depth int) {
	entries, err := os.ReadDir(dir)
	if err != nil || depth == mostNested {
		return
	}
	for _, e := range entries {
		if !s.one() {
			return
		}
		sub := filepath.Join(dir, e.Name())
		key := prefix + e.Name() + "/"
		if !isGitDir(sub) {
			s.addModules(sub, key, depth+1)
			continue
		}
		s.addDir(sub, key, sub)
		s.addModules(filepath.Join(sub, "modules"), key+"modules/", depth+1)
	}
}

// addStash adds the entries of the stash, and when it was written last: between two trees one may have taken what the
// other had put there, which leaves everything as it was but the times.
func (s *survey) addStash(common string) {
	s.addFile(filepath.Join(common, "logs", "refs", "stash"), stashEntries, false)
	if fi, err := os.Lstat(filepath.Join(common, "refs", "stash")); err == nil {
		s.sharedState[stashWritten] = fmt.Sprintf("loose %d", statOf(fi).ctime)
		return
	}
	if _, ok := s.sharedState[stashEntries]; ok {
		return // packed, by a gc
	}
	logs := filepath.Join(common, "logs", "refs")
	var names []string
	entries, _ := os.ReadDir(logs)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	var at int64
	if fi, err := os.Lstat(logs); err == nil {
		at = statOf(fi).mtime
	}
	s.sharedState[stashWritten] = fmt.Sprintf("none %q %d", names, at)
}

const (
	stashEntries = "stash entries"
	stashWritten = "stash"
)

// stashMoved reports that the stash was used though it says what it said before.
func (s sharedState) stashMoved(now sharedState) bool {
	before, after := s[stashWritten], now[stashWritten]
	if before == after || after == "" || s[stashEntries] != now[stashEntries] || s["refs/stash"] != now["refs/stash"] {
		return false
	}
	was, is := before[:strings.LastIndexByte(before, ' ')+1], after[:strings.LastIndexByte(after, ' ')+1]
	// Another log beside it changes the folder's time too. A ref that was packed and is loose again was written.
	return was == is || strings.HasPrefix(after, "loose")
}

// digest hashes a value together with an earlier one.
func digest(before, value string) string {
	sum := sha256.Sum256([]byte(before + "\x00" + value))
	return hex.EncodeToString(sum[:16])
}

// changes compares two states, in the order of their keys.
func (s sharedState) changes(now sharedState) []worktree.HostChange {
	var out []worktree.HostChange
	for key, value := range now {
		if key == stashWritten {
			continue
		}
		dangerous := strings.HasPrefix(value, risky)
		if old, ok := s[key]; !ok {
			// A worktree that the agent has made misleads nobody but those who go there.
			dangerous = dangerous && !inWorktree(key)
			out = append(out, worktree.HostChange{Key: key, Change: "added", Dangerous: dangerous})
		} else if old != value || key == moreSurveyed {
			out = append(out, worktree.HostChange{Key: key, Change: "changed", Dangerous: dangerous})
		}
	}
	for key := range s {
		if _, ok := now[key]; !ok && key != stashWritten {
			out = append(out, worktree.HostChange{Key: key, Change: "removed", Dangerous: uncovers(key)})
		}
	}
	if s.stashMoved(now) {
		out = append(out, worktree.HostChange{Key: stashWritten, Change: "changed"})
	}
	slices.SortFunc(out, func(a, b worktree.HostChange) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// frozenShared reads the state that was kept when the tree was made.
func (d *Driver) frozenShared(id string) (sharedState, error) {
	b, err := os.ReadFile(filepath.Join(d.stateDir(id), frozenHost))
	if err != nil {
		return nil, err
	}
	s := sharedState{}
	return s, json.Unmarshal(b, &s)
}
