package git

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// errNoRef reports that a ref does not exist.
var errNoRef = errors.New("no such ref")

// refStore reads loose and packed refs. It is strict where the library is not: a damaged loose ref is an error
// and never an older packed value.
type refStore struct {
	gitDir, common string
}

// maxRef is the greatest size in bytes of a loose ref. FETCH_HEAD has a line for each branch.
const maxRef = 1 << 20

func openRefs(gitDir, common string) *refStore { return &refStore{gitDir, common} }

// resolve follows name to an object id. It returns the name of the last ref, which for a branch without a commit
// is the missing one, with errNoRef.
func (r *refStore) resolve(name string) (plumbing.Hash, string, error) {
	for range 6 {
		value, err := r.raw(name)
		if err != nil {
			return plumbing.ZeroHash, name, err
		}
		target, symbolic := strings.CutPrefix(value, "ref:")
		if !symbolic {
			if !isFullHex(value) {
				return plumbing.ZeroHash, name, fmt.Errorf("ref %q is damaged", name)
			}
			return plumbing.NewHash(value), name, nil
		}
		if name = strings.TrimSpace(target); !validRef(name) {
			return plumbing.ZeroHash, name, fmt.Errorf("ref %q is damaged", name)
		}
	}
	return plumbing.ZeroHash, name, fmt.Errorf("ref %q goes in a circle", name)
}

// raw returns the value of one ref: 40 hex digits or `ref: <name>`.
func (r *refStore) raw(name string) (string, error) {
	dir := r.common
	if !strings.HasPrefix(name, "refs/") || ownRef(name) {
		dir = r.gitDir
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() {
		b, err := readUpTo(path, maxRef)
		if err == nil {
			value := strings.TrimSpace(string(b))
			// git allows more after the id, as in FETCH_HEAD
			if len(value) > 40 && isFullHex(value[:40]) && (value[40] == ' ' || value[40] == '\t') {
				value = value[:40]
			}
			return value, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read ref %q: %w", name, err)
		}
	}
	packed, err := r.packed()
	if err != nil {
		return "", err
	}
	if id, ok := packed[name]; ok {
		return id, nil
	}
	return "", errNoRef
}

// ownRef reports refs that every worktree has for itself.
func ownRef(name string) bool {
	for _, p := range []string{"refs/bisect/", "refs/worktree/", "refs/rewritten/"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

func (r *refStore) packed() (map[string]string, error) {
	text, err := readOptional(filepath.Join(r.common, "packed-refs"))
	if err != nil {
		return nil, fmt.Errorf("read packed refs: %w", err)
	}
	out := map[string]string{}
	for line := range strings.Lines(text) {
		id, name, ok := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		if ok && isFullHex(id) {
			out[name] = id
		}
	}
	return out, nil
}

// all returns the raw values of every shared ref and of the common HEAD, loose before packed.
func (r *refStore) all() (map[string]string, error) {
	out, err := r.packed()
	if err != nil {
		return nil, err
	}
	if head, err := readUpTo(filepath.Join(r.common, "HEAD"), maxRef); err == nil {
		out["HEAD"] = strings.TrimSpace(string(head))
	}
	top := filepath.Join(r.common, "refs")
	err = filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(r.common, path)
		if err != nil || strings.HasSuffix(name, ".lock") {
			return err
		}
		value := "not a file"
		if e.Type().IsRegular() || e.Type() == fs.ModeSymlink {
			b, err := readUpTo(path, maxRef)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case errors.Is(err, errTooLarge):
				value = "too large"
			case err == nil:
				value = strings.TrimSpace(string(b))
			}
		}
		out[filepath.ToSlash(name)] = value
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read refs: %w", err)
	}
	return out, nil
}

func isFullHex(s string) bool { return len(s) == 40 && isHex(s) }

func isHex(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			return false
		}
	}
	return s != ""
}

// validRef is git's check-ref-format for a full name or a pseudo ref such as HEAD.
func validRef(name string) bool {
	if name == "" || name == "@" || strings.HasSuffix(name, ".") || strings.Contains(name, "..") || strings.Contains(name, "@{") {
		return false
	}
	for i := 0; i < len(name); i++ {
		if c := name[i]; c <= ' ' || c == 0x7f || strings.IndexByte(`~^:?*[\`, c) >= 0 {
			return false
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}
