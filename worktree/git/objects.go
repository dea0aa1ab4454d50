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

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"

	"github.com/assent-dev/assent/worktree"
)

const (
	objectCache = 32 << 20 // bytes of delta bases and small objects kept while a repository is open
	largeObject = 4 << 20  // bytes from which an object is streamed where its encoding allows it
)

// objectStore reads the objects of one repository and its alternates. Every object is hashed as it is read,
// because agents can write to the folder it lies in. It is used by one goroutine.
type objectStore struct {
	parts []*filesystem.ObjectStorage
}

// openObjects opens the object folders that a repository draws on. Alternates are followed here, because the
// library opens them anew for each object and reads relative ones from the wrong place.
func openObjects(common string) (*objectStore, error) {
	s := new(objectStore)
	seen := map[string]bool{}
	var add func(objects string, depth int) error
	add = func(objects string, depth int) error {
		if seen[objects] || depth > 5 {
			return nil
		}
		seen[objects] = true
		if filepath.Base(objects) != "objects" {
			return &worktree.NeedsGitError{Reason: fmt.Sprintf("alternate object folder %q", objects)}
		}
		dir := dotgit.NewWithOptions(osfs.New(filepath.Dir(objects)), dotgit.Options{})
		s.parts = append(s.parts, filesystem.NewObjectStorageWithOptions(dir, cache.NewObjectLRU(objectCache),
			filesystem.Options{KeepDescriptors: true, LargeObjectThreshold: largeObject}))
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
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *objectStore) close() {
	for _, p := range s.parts {
		p.Close()
	}
}

// find returns the object, wherever it lies.
func (s *objectStore) find(id plumbing.Hash) (plumbing.EncodedObject, error) {
	for _, p := range s.parts {
		if err := p.HasEncodedObject(id); errors.Is(err, plumbing.ErrObjectNotFound) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("read object %s: %w", id, err)
		}
		obj, err := p.EncodedObject(plumbing.AnyObject, id)
		if err != nil {
			return nil, fmt.Errorf("read object %s: %w", id, err)
		}
		return obj, nil
	}
	return nil, fmt.Errorf("read object %s: %w", id, plumbing.ErrObjectNotFound)
}

// read returns an object's content, verified, and its type.
func (s *objectStore) read(id plumbing.Hash) ([]byte, plumbing.ObjectType, error) {
	obj, err := s.find(id)
	if err != nil {
		return nil, 0, err
	}
	buf := make([]byte, 0, obj.Size())
	w := &appender{buf}
	if err := copyObject(w, obj, id); err != nil {
		return nil, 0, err
	}
	return w.b, obj.Type(), nil
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
	obj, err := s.find(id)
	if err != nil {
		return err
	}
	if obj.Type() != plumbing.BlobObject {
		return fmt.Errorf("read object %s: is a %s, not a blob", id, obj.Type())
	}
	return copyObject(w, obj, id)
}

// copyObject writes the content of obj to w and compares its hash with id.
func copyObject(w io.Writer, obj plumbing.EncodedObject, id plumbing.Hash) error {
	r, err := obj.Reader()
	if err != nil {
		return fmt.Errorf("read object %s: %w", id, err)
	}
	defer r.Close()
	h := newHash(obj.Type().String(), obj.Size())
	if _, err := io.Copy(io.MultiWriter(w, h), r); err != nil {
		return fmt.Errorf("read object %s: %w", id, err)
	}
	if sum(h) != id {
		return fmt.Errorf("read object %s: its content has another id", id)
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
