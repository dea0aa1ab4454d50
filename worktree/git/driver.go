package git

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/gitproc"
	"github.com/assent-dev/assent/worktree"
)

// DefaultPinCap is how many failed agents' trees are retained when Config.PinCap is nil.
const DefaultPinCap = 4

// Config says which repositories may be worked on and where their trees go.
type Config struct {
	// Repos maps the name that an agent asks for to the absolute path of a working directory or a bare repository.
	Repos map[string]string
	// Root is the absolute path of the directory for trees and their records. It must lie outside every
	// repository. It is made with mode 0700 if it does not exist; an existing one must have that mode.
	Root string
	// PinCap is the greatest number of retained trees below Root. Nil means DefaultPinCap, zero retains none.
	PinCap *int
	// KeepOnError lets Retain keep the trees of failed agents.
	KeepOnError bool
	// MinFree is the number of bytes that must be free on Root's file system for Acquire to start; zero checks nothing.
	MinFree int64
	// MaxBytes is what all trees below Root together may take on disk for Acquire to make another; zero is no bound. What
	// agents write is noticed late, and never stops one that has its tree.
	MaxBytes int64
	// Private makes every tree private, as worktree.Isolation.Private asks for one; PrivateRepos are the names of
	// the repositories whose trees are.
	Private      bool
	PrivateRepos []string
	// Git is the absolute path of a git binary that serves repositories which the built-in reader refuses. Without
	// one they are a *worktree.NeedsGitError.
	Git string
	// Filters are the names of filter drivers that git may run, for example lfs. Their commands are those that the
	// repository's configuration holds when a tree is made. Of others, files stay as they are stored.
	Filters []string
}

// Driver makes, reads and removes linked worktrees below one root. It implements worktree.Provider.
type Driver struct {
	repos             map[string]string
	root              string
	pinCap            int
	keep              bool
	minFree, maxBytes int64
	private           func(repo string) bool
	hostID            string
	euid              int
	git               *gitproc.Program
	filters           []string
	// operator is true for a driver without a configuration, which Open returns.
	operator bool
	// always leaves every repository to git, in tests.
	always bool
	// largeFile and largePatch are LargeFile and LargePatch, and less in tests.
	largeFile, largePatch int64
	// step is called with the name of each step that leaves something on disk; tests die there.
	step func(name string)
	// behind is step for what goes on behind a call's back.
	behind func(name string)

	// janitor counts what goes on behind a call's back, one deletion and one flush at a time.
	janitor            sync.WaitGroup
	deleting, flushing sync.Mutex
}

var _ worktree.Provider = (*Driver)(nil)

// New checks c and returns a driver. Errors are *fault.ConfigError, and *fault.NotBuiltError on a system
// without file locks. Repositories are opened at Resolve, because a host may be cloned after the worker started.
func New(c Config) (*Driver, error) { return newDriver(c, func(string) {}) }

func newDriver(c Config, step func(name string)) (*Driver, error) {
	if !supported {
		return nil, &fault.NotBuiltError{Feature: "worktree isolation on this system"}
	}
	d := &Driver{
		repos: make(map[string]string, len(c.Repos)), pinCap: DefaultPinCap, keep: c.KeepOnError,
		minFree: c.MinFree, maxBytes: c.MaxBytes, euid: os.Geteuid(), largeFile: LargeFile, largePatch: LargePatch, step: step, behind: func(string) {},
	}
	if c.PinCap != nil {
		d.pinCap = *c.PinCap
	}
	if d.pinCap < 0 {
		return nil, fault.Configf("worktrees.pinCap", "must not be negative, got %d", d.pinCap)
	}
	if c.MinFree < 0 {
		return nil, fault.Configf("worktrees.minFree", "must not be negative, got %d", c.MinFree)
	}
	if c.MaxBytes < 0 {
		return nil, fault.Configf("worktrees.maxBytes", "must not be negative, got %d", c.MaxBytes)
	}
	for name, path := range c.Repos {
		if name == "" || !filepath.IsAbs(path) {
			return nil, fault.Configf("worktrees.repos."+name, "needs a name and an absolute path, got %q", path)
		}
		d.repos[name] = filepath.Clean(path)
	}
	var err error
	if d.private, err = c.forcesPrivate(); err != nil {
		return nil, err
	}
	if d.root, err = d.makeRoot(c.Root); err != nil {
		return nil, err
	}
	for name, path := range d.repos {
		if within(d.root, path) {
			return nil, fault.Configf("worktrees.root", "%q lies inside repository %q", c.Root, name)
		}
	}
	if err := d.openGit(c); err != nil {
		return nil, err
	}
	d.hostID, err = hostID(d.root, step)
	return d, err
}

// HostID returns the name of this driver's root, made once and kept in a file beside the trees: trees of one
// host id can only be reached by workers that share the root. 16 hex digits.
func (d *Driver) HostID() (string, error) { return d.hostID, nil }

// Close waits until new trees are flushed to disk and the trees that Dispose renamed away are deleted. A process
// that ends without it leaves the rest to Sweep.
func (d *Driver) Close() error {
	d.janitor.Wait()
	return nil
}

// makeRoot makes the root and its folders and returns its real path.
func (d *Driver) makeRoot(path string) (string, error) {
	const key = "worktrees.root"
	if !filepath.IsAbs(path) {
		return "", fault.Configf(key, "must be an absolute path, got %q", path)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", &fault.ConfigError{Key: key, Msg: "cannot be made", Cause: err}
	}
	d.step("root-made")
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", &fault.ConfigError{Key: key, Msg: "cannot be resolved", Cause: err}
	}
	if err := d.ownRoot(real); err != nil {
		return "", err
	}
	if strings.ContainsAny(real, "\n\r") {
		return "", fault.Configf(key, "%q holds a line break, which git cannot record", path)
	}
	for dir := real; ; dir = filepath.Dir(dir) {
		if looksLikeRepository(dir) {
			return "", fault.Configf(key, "%q lies inside the repository %q", path, dir)
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	for _, sub := range []string{"state", "trees", "trash"} {
		if err := os.Mkdir(filepath.Join(real, sub), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", &fault.ConfigError{Key: key, Msg: "cannot be filled", Cause: err}
		}
		d.step("root-" + sub)
	}
	return real, nil
}

// looksLikeRepository reports whether dir has a .git or is a git directory itself.
func looksLikeRepository(dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
		return true
	}
	return isGitDir(dir)
}

// within reports whether path is dir or below it, by real paths.
func within(path, dir string) bool {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

const hostIDName = "host-id"

// hostID reads the root's name, or makes it: a link can be made once, so that workers that start together agree.
func hostID(root string, step func(name string)) (string, error) {
	path := filepath.Join(root, hostIDName)
	for range 2 {
		b, err := os.ReadFile(path)
		if err == nil {
			id := strings.TrimSpace(string(b))
			if len(id) != 16 || strings.Trim(id, "0123456789abcdef") != "" {
				return "", fault.Configf("worktrees.root", "%q does not hold a host id", path)
			}
			return id, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read host id %q: %w", path, err)
		}
		tmp := path + "." + newNonce()
		if err := writeSynced(tmp, []byte(newNonce()[:16]+"\n")); err != nil {
			return "", fmt.Errorf("write host id %q: %w", path, err)
		}
		step("host-id-aside")
		err = os.Link(tmp, path)
		step("host-id-linked")
		os.Remove(tmp)
		// A sweep takes the file aside away, once there is a name.
		if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("write host id %q: %w", path, err)
		}
	}
	return "", fmt.Errorf("write host id %q: it keeps vanishing", path)
}

// newNonce returns 32 random hex digits.
func newNonce() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// treeID returns the directory-safe name of an identity: a readable part of the workflow id, the agent's
// attempt, and a hash of everything, with the root's name in it so that two roots never meet in one repository.
func (d *Driver) treeID(id worktree.Identity) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %s", id.Namespace, id.WorkflowID, id.Attempt, d.hostID))
	slug := make([]byte, 0, 32)
	for i := 0; i < len(id.WorkflowID) && len(slug) < 32; i++ {
		c := id.WorkflowID[i]
		switch {
		case c >= 'A' && c <= 'Z':
			slug = append(slug, c+'a'-'A')
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			slug = append(slug, c)
		case len(slug) > 0 && slug[len(slug)-1] != '-':
			slug = append(slug, '-')
		}
	}
	name := strings.Trim(string(slug), "-")
	if name == "" {
		name = "agent"
	}
	return fmt.Sprintf("%s-%d-%s", name, id.Attempt, hex.EncodeToString(sum[:10]))
}

// repoNames returns the configured names in order, for error messages.
func (d *Driver) repoNames() []string {
	var names []string
	for n := range d.repos {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func (d *Driver) treeDir(id string) string  { return filepath.Join(d.root, "trees", id) }
func (d *Driver) stateDir(id string) string { return filepath.Join(d.root, "state", id) }
