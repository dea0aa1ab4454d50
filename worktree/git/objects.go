package git

import (
	"crypto/sha1"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/assent-dev/assent/worktree"
	"github.com/assent-dev/assent/worktree/git/pack"
)

// objectStore reads the objects of one repository and its alternates. Every object is hashed as it is read,
// because agents can write to the folder it lies in. It may be used by several goroutines at once.
type objectStore struct {
	store *pack.Store
}

// openObjects opens the object folders that a repository draws on.
func openObjects(common string) (*objectStore, error) {
	var folders []string
	seen := map[string]bool{}
	var add func(objects string, depth int) error
	add = func(objects string, depth int) error {
		if seen[objects] || depth > 5 {
			return nil
		}
		seen[objects] = true
		folders = append(folders, objects)
		text, err := readOptional(filepath.Join(objects, "info", "alternates"))
		if err != nil {
			return err
		}
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			if line == "" || line[0] == '#' {
				continue
			}
			if line[0] == '"' {
				return &worktree.NeedsGitError{Reason: "quoted alternate object folder"}
			}
			if !filepath.IsAbs(line) {
				line = filepath.Join(objects, line)
			}
			if fi, err := os.Stat(line); err != nil || !fi.IsDir() {
				continue // git warns and goes on
			}
			if err := add(filepath.Clean(line), depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	if err := add(filepath.Join(common, "objects"), 0); err != nil {
		return nil, err
	}
	store, err := pack.Open(folders...)
	if err != nil {
		return nil, err
	}
	return &objectStore{store}, nil
}

func (s *objectStore) close() { s.store.Close() }

// unread says which object could not be read. One that is not there, or in a pack of another version, is told apart.
func unread(id plumbing.Hash, err error) error {
	var version *pack.VersionError
	var many *pack.TooManyError
	switch {
	case errors.As(err, &many):
		return &worktree.NeedsGitError{Reason: many.Error()}
	case errors.As(err, &version):
		return &worktree.NeedsGitError{Reason: version.Error()}
	case errors.Is(err, pack.ErrNotFound):
		return fmt.Errorf("read object %s: %w: %w", id, plumbing.ErrObjectNotFound, err)
	}
	return fmt.Errorf("read object %s: %w", id, err)
}

// info returns an object's type and size in bytes.
func (s *objectStore) info(id plumbing.Hash) (plumbing.ObjectType, int64, error) {
	kind, size, err := s.store.Info(pack.ID(id))
	if err != nil {
		return 0, 0, unread(id, err)
	}
	return plumbing.ObjectType(kind), size, nil
}

// read returns an object's content, verified and not to be changed, and its type.
func (s *objectStore) read(id plumbing.Hash) ([]byte, plumbing.ObjectType, error) {
	kind, data, err := s.store.Read(pack.ID(id))
	if err != nil {
		return nil, 0, unread(id, err)
	}
	return data, plumbing.ObjectType(kind), nil
}

// readAs is read for an object that must have type t.
func (s *objectStore) readAs(t plumbing.ObjectType, id plumbing.Hash) ([]byte, error) {
	b, got, err := s.read(id)
	if err == nil && got != t {
		err = fmt.Errorf("read object %s: is a %s, not a %s", id, got, t)
	}
	return b, err
}

// stream writes a blob to w. When it returns an error, w may hold a part of it.
func (s *objectStore) stream(w io.Writer, id plumbing.Hash) error {
	if err := s.store.Copy(w, pack.ID(id)); err != nil {
		return unread(id, err)
	}
	return nil
}

// appender is a writer into a slice of known size.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// newHash starts the id of an object of the given type and size.
func newHash(kind string, size int64) hash.Hash {
	h := sha1.New()
	fmt.Fprintf(h, "%s %d\x00", kind, size)
	return h
}

func sum(h hash.Hash) (id plumbing.Hash) {
	h.Sum(id[:0])
	return id
}

// blobID returns the id of a blob.
func blobID(data []byte) plumbing.Hash {
	h := newHash("blob", int64(len(data)))
	h.Write(data)
	return sum(h)
}
