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

// sharedState maps what all worktrees of a repository share to a digest: `config core.bare`, `hooks/pre-commit`,
// `info/exclude`, `refs/tags/v1`, `HEAD`, `stash entries`.
type sharedState map[string]string

// unreadable stands for the value of what cannot be read or parsed.
const unreadable = "unreadable"

// snapshot digests the shared state. Nothing that an agent puts there makes it fail: a damaged file counts as a
// value of its own.
func snapshot(common string) sharedState {
	s := sharedState{}
	s.addConfig(common)
	s.addFiles(common, "hooks")
	s.addFiles(common, "info")
	for _, name := range []string{"objects/info/alternates", "shallow"} {
		s.addFile(common, name, name)
	}
	s.addFile(common, "logs/refs/stash", "stash entries")
	refs, err := openRefs(common, common).all()
	if err != nil {
		s["refs"] = unreadable
	}
	for name, value := range refs {
		s[name] = value
	}
	return s
}

// addConfig adds one key for each configuration key; its values are hashed, for they may be secrets.
func (s sharedState) addConfig(common string) {
	for _, file := range []string{"config", "config.worktree"} {
		text, err := readOptional(filepath.Join(common, file))
		if err != nil {
			s[file] = unreadable
			continue
		}
		list, err := parseConfig(text)
		if err != nil {
			s[file] = digest(unreadable, text)
		}
		for _, set := range list {
			key := file + " " + set.Key
			s[key] = digest(s[key], fmt.Sprintf("%v %s", set.Implicit, set.Value))
		}
	}
}

func (s sharedState) addFiles(common, dir string) {
	_ = filepath.WalkDir(filepath.Join(common, dir), func(path string, e fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(common, path)
		if relErr != nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			s[name] = unreadable
		case !e.IsDir():
			s.addFile(common, name, name)
		}
		return nil
	})
}

func (s sharedState) addFile(common, name, key string) {
	path := filepath.Join(common, filepath.FromSlash(name))
	fi, err := os.Lstat(path)
	if err != nil {
		return
	}
	content := unreadable
	switch {
	case fi.Mode().IsRegular():
		if b, err := readFile(path); err == nil {
			content = string(b)
		}
	case fi.Mode()&fs.ModeSymlink != 0:
		content, _ = os.Readlink(path)
	}
	s[key] = digest(fi.Mode().String(), content)
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
		if old, ok := s[key]; !ok {
			out = append(out, worktree.HostChange{Key: key, Change: "added", Dangerous: runsPrograms(key)})
		} else if old != value {
			out = append(out, worktree.HostChange{Key: key, Change: "changed", Dangerous: runsPrograms(key)})
		}
	}
	for key := range s {
		if _, ok := now[key]; !ok {
			out = append(out, worktree.HostChange{Key: key, Change: "removed"})
		}
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

// programKeys are the configuration keys whose value git runs, or that make it read such keys from elsewhere.
// A star stands for any subsection.
var programKeys = []string{
	"core.hookspath", "core.fsmonitor", "core.sshcommand", "core.editor", "core.pager", "core.askpass",
	"core.gitproxy", "core.alternaterefscommand", "core.attributesfile", "sequence.editor", "pager.*",
	"filter.*.clean", "filter.*.smudge", "filter.*.process", "diff.external", "diff.*.command", "diff.*.textconv",
	"merge.*.driver", "mergetool.*.cmd", "mergetool.*.path", "difftool.*.cmd", "difftool.*.path", "guitool.*.cmd",
	"alias.*", "credential.helper", "credential.*.helper", "gpg.program", "gpg.*.program", "gpg.ssh.defaultkeycommand",
	"interactive.difffilter", "include.path", "includeif.*", "init.templatedir", "browser.*.cmd", "browser.*.path",
	"man.*.cmd", "man.*.path", "remote.*.uploadpack", "remote.*.receivepack", "remote.*.vcs", "remote.*.url",
	"remote.*.pushurl", "remote.*.proxy", "url.*.insteadof", "url.*.pushinsteadof", "protocol.*",
	"uploadpack.packobjectshook", "submodule.*.update", "submodule.*.url", "trailer.*.command", "trailer.*.cmd",
	"sendemail.*", "instaweb.*", "web.browser", "uploadarchive.*", "tar.*.command", "hook.*", "maintenance.*",
	"http.proxy", "core.worktree", "imap.tunnel",
}

// runsPrograms reports whether a new value of a shared key can make git run a program.
func runsPrograms(key string) bool {
	if strings.HasPrefix(key, "hooks/") {
		return !strings.HasSuffix(key, ".sample")
	}
	name, ok := strings.CutPrefix(key, "config ")
	if !ok {
		if name, ok = strings.CutPrefix(key, "config.worktree "); !ok {
			// A configuration that cannot be parsed may hold anything.
			return key == "config" || key == "config.worktree"
		}
	}
	for _, p := range programKeys {
		before, after, star := strings.Cut(p, "*")
		if !star && name == p {
			return true
		}
		if star && strings.HasPrefix(name, before) && strings.HasSuffix(name, after) && len(name) >= len(before)+len(after) {
			return true
		}
	}
	return false
}
