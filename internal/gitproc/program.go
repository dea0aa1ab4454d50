package gitproc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/assent-dev/assent/fault"
)

// MinVersion is the oldest git that is served.
const MinVersion = "2.34.0"

// Key is the configuration key that errors of Open name.
const Key = "worktrees.git"

// openWait is how long a binary may take to say which version it is.
const openWait = 10 * time.Second

// Program is a git binary that said its version.
type Program struct {
	path, home string
	// version is what it said, such as 2.39.5.
	version string
	// search is where git finds its own parts.
	search string
}

// Open checks the binary at path, an absolute one. home is a folder that Open makes; it must be empty and stays so.
// Errors are *fault.ConfigError for a binary that is missing, no git, too old or silent, and *fault.NotBuiltError
// on a system without process groups.
func Open(ctx context.Context, path, home string) (*Program, error) {
	if !supported {
		return nil, &fault.NotBuiltError{Feature: Key + " on this system"}
	}
	if !filepath.IsAbs(path) {
		return nil, fault.Configf(Key, "must be an absolute path, got %q", path)
	}
	if err := emptyFolder(home); err != nil {
		return nil, err
	}
	p := &Program{path: path, home: home, search: filepath.Dir(path)}
	ctx, cancel := context.WithTimeout(ctx, openWait)
	defer cancel()
	out, err := p.Run(ctx, Call{Args: []string{"version"}, Limit: 4 << 10})
	if err != nil {
		return nil, &fault.ConfigError{Key: Key, Msg: fmt.Sprintf("%q does not say its version", path), Cause: err}
	}
	text, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "git version ")
	if p.version = versionText.FindString(text); !ok || p.version == "" {
		return nil, fault.Configf(Key, "%q is no git: it says %.60q", path, out)
	}
	if older(p.version, MinVersion) {
		return nil, fault.Configf(Key, "%q is git %s, and the oldest that is served is %s", path, p.version, MinVersion)
	}
	out, err = p.Run(ctx, Call{Args: []string{"--exec-path"}, Limit: 4 << 10})
	if err != nil {
		return nil, &fault.ConfigError{Key: Key, Msg: fmt.Sprintf("%q does not say where its parts are", path), Cause: err}
	}
	if dir := strings.TrimSpace(string(out)); filepath.IsAbs(dir) {
		p.search = dir + ":" + p.search
	}
	return p, nil
}

// Path is where the binary is.
func (p *Program) Path() string { return p.path }

// Version is what the binary said, for example 2.39.5.
func (p *Program) Version() string { return p.version }

var versionText = regexp.MustCompile(`^[0-9]+(\.[0-9]+)+`)

// older compares two dotted versions.
func older(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(x), len(y)) {
		m, n := 0, 0
		if i < len(x) {
			m, _ = strconv.Atoi(x[i])
		}
		if i < len(y) {
			n, _ = strconv.Atoi(y[i])
		}
		if m != n {
			return m < n
		}
	}
	return false
}

// emptyFolder makes a folder, or makes sure that one of ours is empty: a file in it could be a configuration.
func emptyFolder(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return &fault.ConfigError{Key: Key, Msg: "its home folder cannot be made", Cause: err}
	}
	names, err := os.ReadDir(path)
	if err != nil {
		return &fault.ConfigError{Key: Key, Msg: "its home folder cannot be read", Cause: err}
	}
	if len(names) > 0 {
		return fault.Configf(Key, "its home folder %q holds %q and must be empty", path, names[0].Name())
	}
	return nil
}
