package git

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/worktree"
)

// host is an opened repository that agents' trees hang on. It is only ever read, but for the folder of a tree.
type host struct {
	name string
	// path is the configured path by its real name, gitDir its git directory, common the directory that linked
	// worktrees share. work is the host's own working directory, empty for a bare host.
	path, gitDir, common, work string
	config                     gitConfig
	settings                   settings
	objects                    *objectStore
	refs                       *refStore
}

// settings are what the repository's configuration says about files. They are frozen when a tree is made.
type settings struct {
	// AutoCRLF is "true", "input" or "false"; EOL is "lf", "crlf" or "".
	AutoCRLF string `json:"autocrlf"`
	EOL      string `json:"eol,omitempty"`
	// FileMode says whether executable bits on disk mean anything.
	FileMode bool `json:"fileMode"`
	// ByGit says that git converts the files: rules that ask for it are not refused. NoLinks says that it makes
	// files of links.
	ByGit   bool `json:"byGit,omitempty"`
	NoLinks bool `json:"noLinks,omitempty"`
	// Excludes and Attributes are the contents of core.excludesFile and core.attributesFile, InfoExclude and
	// InfoAttributes those of info/exclude and info/attributes.
	Excludes       string `json:"excludes,omitempty"`
	Attributes     string `json:"attributes,omitempty"`
	InfoExclude    string `json:"infoExclude,omitempty"`
	InfoAttributes string `json:"infoAttributes,omitempty"`
}

// openHost opens the repository of a configured name. Errors: those of findHost, and *worktree.NeedsGitError for
// what cannot be served without git. The caller closes it.
func (d *Driver) openHost(name string) (*host, error) {
	if d.always {
		return nil, &worktree.NeedsGitError{Reason: "a test"}
	}
	h, err := d.findHost(name)
	if err != nil {
		return nil, err
	}
	if err := h.configure(); err != nil {
		return nil, err
	}
	if h.objects, err = openObjects(h.common); err != nil {
		return nil, err
	}
	h.refs = openRefs(h.gitDir, h.common)
	return h, nil
}

// findHost finds the folders of the repository of a configured name and reads nothing of it. Errors are
// *fault.ConfigError: it is not a repository, or somebody else's.
func (d *Driver) findHost(name string) (*host, error) {
	key := "worktrees.repos." + name
	path, ok := d.repos[name]
	if !ok {
		return nil, &fault.ConfigError{Key: "isolation.repo", Msg: fmt.Sprintf("unknown repository %q", name), Allowed: d.repoNames()}
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, &fault.ConfigError{Key: key, Msg: "cannot be opened", Cause: err}
	}
	h := &host{name: name, path: real}
	if err := h.locate(); err != nil {
		return nil, &fault.ConfigError{Key: key, Msg: fmt.Sprintf("%q is not a git repository", path), Cause: err}
	}
	for _, dir := range []string{h.path, h.gitDir, h.common} {
		fi, err := os.Lstat(dir)
		if err != nil {
			return nil, &fault.ConfigError{Key: key, Msg: "cannot be opened", Cause: err}
		}
		if owner := int(statOf(fi).uid); owner != d.euid {
			return nil, fault.Configf(key, "%q belongs to user %d and this process runs as user %d", dir, owner, d.euid)
		}
	}
	if strings.ContainsAny(h.common, "\n\r") {
		return nil, fault.Configf(key, "%q holds a line break, which git cannot record", h.common)
	}
	return h, nil
}

func (h *host) close() {
	if h.objects != nil {
		h.objects.close()
	}
}

// key is the configuration key of the repository.
func (h *host) key() string { return "worktrees.repos." + h.name }

// locate finds the git directory, the common directory and the working directory of h.path, and does not search
// the folders above: a configured path that is a folder inside a repository is a mistake.
func (h *host) locate() error {
	dot := filepath.Join(h.path, ".git")
	fi, err := os.Lstat(dot)
	switch {
	case err == nil && fi.Mode().IsRegular():
		to, err := readLink(dot, "gitdir: ")
		if err != nil {
			return err
		}
		h.gitDir, h.work = to, h.path
	case err == nil:
		h.gitDir, h.work = dot, h.path
	case errors.Is(err, fs.ErrNotExist):
		h.gitDir = h.path
	default:
		return err
	}
	if h.gitDir, err = filepath.EvalSymlinks(h.gitDir); err != nil {
		return err
	}
	h.common = h.gitDir
	if _, err := os.Lstat(filepath.Join(h.gitDir, "commondir")); err == nil {
		to, err := readLink(filepath.Join(h.gitDir, "commondir"), "")
		if err != nil {
			return err
		}
		if h.common, err = filepath.EvalSymlinks(to); err != nil {
			return err
		}
	}
	if !isGitDir(h.common) {
		return errors.New("no HEAD, objects and refs in " + h.common)
	}
	return nil
}

// readLink reads a file that holds one path, relative to the file's folder.
func readLink(file, prefix string) (string, error) {
	b, err := readFile(file)
	if err != nil {
		return "", err
	}
	to, ok := strings.CutPrefix(strings.TrimRight(string(b), "\r\n"), prefix)
	if !ok || to == "" {
		return "", fmt.Errorf("%q holds no path", file)
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(file), to)
	}
	return to, nil
}

// isGitDir reports whether dir looks like a git directory by git's own rule.
func isGitDir(dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, "HEAD")); err != nil {
		return false
	}
	for _, sub := range []string{"objects", "refs"} {
		if fi, err := os.Stat(filepath.Join(dir, sub)); err != nil || !fi.IsDir() {
			return false
		}
	}
	return true
}

// configure reads the configuration, refuses what the driver does not serve, and takes what files depend on.
func (h *host) configure() error {
	text, err := readOptional(filepath.Join(h.common, "config"))
	if err != nil {
		return &fault.ConfigError{Key: h.key(), Msg: "configuration cannot be read", Cause: err}
	}
	list, err := parseConfig(text)
	if err != nil {
		return &fault.ConfigError{Key: h.key(), Msg: fmt.Sprintf("%q cannot be read", filepath.Join(h.common, "config")), Cause: err}
	}
	h.config = newConfig(list)
	if err := h.refuse(); err != nil {
		return err
	}
	return h.settle()
}

// settle takes from the configuration, and from the files that it names, what the files of a tree depend on.
func (h *host) settle() error {
	s := settings{AutoCRLF: "false", EOL: strings.ToLower(h.config.text("core.eol"))}
	if strings.EqualFold(h.config.text("core.autocrlf"), "input") {
		s.AutoCRLF = "input"
	} else if on, err := h.config.flag("core.autocrlf", false); err != nil {
		return err
	} else if on {
		s.AutoCRLF = "true"
	}
	if s.EOL == "native" {
		s.EOL = "lf"
	}
	var err error
	if s.FileMode, err = h.config.flag("core.filemode", true); err != nil {
		return err
	}
	files := []struct {
		path string
		into *string
	}{
		{h.config.text("core.excludesfile"), &s.Excludes},
		{h.config.text("core.attributesfile"), &s.Attributes},
		{filepath.Join(h.common, "info", "exclude"), &s.InfoExclude},
		{filepath.Join(h.common, "info", "attributes"), &s.InfoAttributes},
	}
	for _, f := range files {
		if f.path == "" {
			continue
		}
		text, err := readUpTo(h.expand(f.path), maxRules)
		if *f.into = string(text); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &fault.ConfigError{Key: h.key(), Msg: "rules cannot be read", Cause: err}
		}
	}
	h.settings = s
	return nil
}

// expand resolves a path of the configuration file.
func (h *host) expand(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if !filepath.IsAbs(path) {
		return filepath.Join(h.path, path)
	}
	return path
}

// readOptional returns a file's text, empty if there is no such file.
func readOptional(path string) (string, error) {
	b, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(b), err
}

// maxShared is the size in bytes up to which a file of the shared repository is read whole.
const maxShared = 256 << 20

// readFile reads a file that an agent may have replaced: it does not wait for a FIFO and does not take in more
// than memory can hold.
func readFile(path string) ([]byte, error) {
	b, err := readUpTo(path, maxShared)
	if errors.Is(err, errTooLarge) || errors.Is(err, fs.ErrInvalid) {
		return nil, fmt.Errorf("%q is no file of a size that can be read", path)
	}
	return b, err
}

// knownExtensions are those that change nothing for a tree. worktreeConfig adds a file per worktree, and a tree
// of ours has none.
var knownExtensions = map[string]bool{
	"noop": true, "noop-v1": true, "preciousobjects": true, "worktreeconfig": true, "relativeworktrees": true,
}

// refuse returns a *worktree.NeedsGitError for the first thing that this driver would have to guess about.
func (h *host) refuse() error {
	needs := func(format string, args ...any) error {
		return &worktree.NeedsGitError{Reason: fmt.Sprintf(format, args...)}
	}
	if v := h.config.text("core.repositoryformatversion"); v != "" && v != "0" && v != "1" {
		return needs("repository format version %q", v)
	}
	for key, s := range h.config {
		if key == "include.path" || strings.HasPrefix(key, "includeif.") {
			return needs("config include %q", s.Value)
		}
		if strings.HasPrefix(key, "remote.") && strings.HasSuffix(key, ".promisor") {
			return needs("promisor remote: objects may be missing")
		}
		if ext, ok := strings.CutPrefix(key, "extensions."); ok {
			switch {
			case ext == "objectformat" && strings.EqualFold(s.Value, "sha1"), ext == "refstorage" && strings.EqualFold(s.Value, "files"):
			case ext == "objectformat" || ext == "refstorage" || !knownExtensions[ext]:
				return needs("extension %s %q", ext, s.Value)
			}
		}
	}
	flags := []struct {
		key    string
		unset  bool
		refuse bool
		why    string
	}{
		{"core.symlinks", true, false, "core.symlinks is false"},
		{"core.ignorecase", false, true, "core.ignoreCase is true"},
		{"core.sparsecheckout", false, true, "sparse checkout"},
		{"index.sparse", false, true, "sparse index"},
	}
	config, err := h.ownConfig()
	if err != nil {
		return err
	}
	for _, f := range flags {
		v, err := config.flag(f.key, f.unset)
		if err != nil {
			return err
		}
		if v == f.refuse {
			return needs("%s", f.why)
		}
	}
	if _, err := os.Lstat(filepath.Join(h.common, "info", "grafts")); err == nil {
		return needs("grafts")
	}
	return nil
}

// ownConfig is the configuration with what the host's own worktree adds to it.
func (h *host) ownConfig() (gitConfig, error) {
	text, err := readOptional(filepath.Join(h.gitDir, "config.worktree"))
	var list []setting
	if err == nil {
		list, err = parseConfig(text)
	}
	if err != nil {
		return nil, &worktree.NeedsGitError{Reason: fmt.Sprintf("config.worktree: %v", err)}
	}
	config := maps.Clone(h.config)
	maps.Copy(config, newConfig(list))
	return config, nil
}
