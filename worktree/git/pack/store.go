package pack

import (
	"bytes"
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// ID is the name of an object: the SHA-1 of its kind, size and content.
type ID [20]byte

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Kind is what an object is. The numbers are those of the pack format.
type Kind byte

const (
	Commit Kind = 1
	Tree   Kind = 2
	Blob   Kind = 3
	Tag    Kind = 4
)

func (k Kind) String() string {
	switch k {
	case Commit:
		return "commit"
	case Tree:
		return "tree"
	case Blob:
		return "blob"
	case Tag:
		return "tag"
	}
	return "kind " + strconv.Itoa(int(k))
}

// MaxMemory is the size in bytes up to which an object is held in memory. Beyond it only Copy of a blob that is no
// delta works; git stores blobs of this size so.
const MaxMemory = 512 << 20

// MaxPacks is how many packs are opened: each takes a descriptor or two, and a process has a bounded number of them.
const MaxPacks = 1000

// TooManyError reports a store with more than MaxPacks packs.
type TooManyError struct{}

func (e *TooManyError) Error() string {
	return fmt.Sprintf("more than %d packs are not opened", MaxPacks)
}

const (
	cacheSize  = 16 << 20 // bytes of objects kept as bases of deltas
	cacheEntry = 1 << 20  // bytes of the largest that is kept
	indexSize  = 32 << 20 // bytes of pack indexes kept in memory; others are read where they lie
	streamFrom = 1 << 20  // bytes from which Copy streams
)

// ErrNotFound reports an object that is in no folder.
var ErrNotFound = errors.New("object not found")

// DamagedError reports a file of the object store that does not hold what it should.
type DamagedError struct {
	// File is the path, Why what is wrong.
	File, Why string
}

func (e *DamagedError) Error() string { return fmt.Sprintf("%q is damaged: %s", e.File, e.Why) }

// TooLargeError reports an object that would take more than MaxMemory.
type TooLargeError struct {
	// Size is in bytes.
	Size int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("object of %d bytes: more than %d are not held in memory", e.Size, int64(MaxMemory))
}

// VersionError reports a pack or an index of a version that is not read here.
type VersionError struct {
	File    string
	Version uint32
}

func (e *VersionError) Error() string { return fmt.Sprintf("%q has version %d", e.File, e.Version) }

// Store reads the objects of some folders. Its methods may be used by several goroutines at once.
type Store struct {
	folders []string
	cache   cache

	mu      sync.RWMutex
	packs   []*packFile
	known   map[string]bool // paths of packs, without suffix
	indexes int64           // bytes of indexes that may still be loaded
	bad     error           // the first pack that cannot be used
}

// Open opens object folders, such as .git/objects and its alternates. A folder without packs is no error, and
// neither is a pack that cannot be used, as long as nothing that is asked for is missing.
func Open(folders ...string) (*Store, error) {
	s := &Store{folders: folders, known: map[string]bool{}, indexes: indexSize, cache: newCache(cacheSize)}
	if _, err := s.scan(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close gives the descriptors back.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.packs {
		p.close()
	}
	s.packs = nil
}

// scan opens packs that are not known yet and reports whether there were any.
func (s *Store) scan() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := false
	for _, folder := range s.folders {
		names, err := os.ReadDir(filepath.Join(folder, "pack"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return found, err
		}
		for _, n := range names {
			base, ok := strings.CutSuffix(n.Name(), ".idx")
			path := filepath.Join(folder, "pack", base)
			if !ok || s.known[path] {
				continue
			}
			if len(s.packs) == MaxPacks {
				s.bad = cmp.Or[error](s.bad, &TooManyError{})
				return found, nil
			}
			p, err := openPack(path, s.indexes)
			if errors.Is(err, fs.ErrNotExist) {
				continue // being removed
			}
			s.known[path], found = true, true
			if err != nil {
				s.bad = cmp.Or(s.bad, err)
				continue
			}
			s.indexes -= int64(len(p.index.data))
			s.packs = append(s.packs, p)
		}
	}
	return found, nil
}

// place is one of the copies of an object: at an offset of a pack, or loose in a file.
type place struct {
	pack *packFile
	at   int64
	file string
}

// places calls try with each copy of an object until one call returns nil. If none does it looks for new packs once.
func (s *Store) places(id ID, try func(place) error) error {
	var first error
	for range 2 {
		s.mu.RLock()
		packs := s.packs
		s.mu.RUnlock()
		attempt := func(p place) bool {
			err := try(p)
			if err != nil && first == nil && !errors.Is(err, fs.ErrNotExist) {
				first = err
			}
			return err == nil
		}
		for _, p := range packs {
			at, ok, err := p.index.find(id)
			if err != nil && first == nil {
				first = err
			}
			if err == nil && ok && attempt(place{pack: p, at: at}) {
				return nil
			}
		}
		hexed := id.String()
		for _, folder := range s.folders {
			if attempt(place{file: filepath.Join(folder, hexed[:2], hexed[2:])}) {
				return nil
			}
		}
		if more, err := s.scan(); err != nil {
			return err
		} else if !more {
			break
		}
	}
	if first != nil {
		return first
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return errors.Join(ErrNotFound, s.bad)
}

// Read returns an object. The bytes are shared and must not be changed.
func (s *Store) Read(id ID) (kind Kind, data []byte, err error) {
	err = s.places(id, func(p place) (err error) {
		kind, data, err = s.verified(p, id)
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	return kind, data, nil
}

// verified returns a copy of an object if it has the id.
func (s *Store) verified(p place, id ID) (Kind, []byte, error) {
	kind, data, err := s.load(p)
	if err == nil && hash(kind, data) != id {
		err = p.other(id)
	}
	return kind, data, err
}

func (s *Store) load(p place) (Kind, []byte, error) {
	if p.pack != nil {
		return s.packed(p.pack, p.at)
	}
	return readLoose(p.file)
}

// Info returns the kind and the size in bytes of an object, as it says itself: nothing is hashed.
func (s *Store) Info(id ID) (kind Kind, size int64, err error) {
	err = s.places(id, func(p place) (err error) {
		if p.pack != nil {
			kind, size, err = p.pack.info(p.at)
		} else {
			kind, size, err = looseInfo(p.file)
		}
		return err
	})
	return kind, size, err
}

// Copy writes a blob to w. Memory is bounded unless it is a delta. When it returns an error, w may hold a part of it.
func (s *Store) Copy(w io.Writer, id ID) error {
	var kind Kind
	var data []byte
	var failed error // of a stream: what has been written cannot be taken back, so that no other copy is tried
	streamed := false
	err := s.places(id, func(p place) error {
		k, size, r, err := s.stream(p)
		if err == nil && r == nil {
			kind, data, err = s.verified(p, id)
		}
		if err != nil || r == nil {
			return err
		}
		defer r.Close()
		if kind = k; kind == Blob {
			streamed = true
			failed = copyHashed(w, r, size, id)
		}
		if errors.Is(failed, errOther) {
			failed = p.other(id)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case kind != Blob:
		return fmt.Errorf("is a %s, not a blob", kind)
	case streamed:
		return failed
	}
	_, err = w.Write(data)
	return err
}

var errOther = errors.New("another id")

// copyHashed writes a blob of a size and reports errOther if it has not the id.
func copyHashed(w io.Writer, r io.Reader, size int64, id ID) error {
	h := newHash(Blob, size)
	if n, err := io.Copy(io.MultiWriter(w, h), r); err != nil {
		return err
	} else if n != size || ID(h.Sum(nil)) != id {
		return errOther
	}
	return nil
}

// stream opens a large object that is stored whole; r is nil for others.
func (s *Store) stream(p place) (kind Kind, size int64, r io.ReadCloser, err error) {
	if p.pack != nil {
		return p.pack.stream(p.at)
	}
	return streamLoose(p.file)
}

// other is the error of a copy that is not the object it should be.
func (p place) other(id ID) error {
	why := "an object has another id than " + id.String()
	if p.pack != nil {
		return p.pack.damaged(p.at, why)
	}
	return &DamagedError{File: p.file, Why: why}
}

// Find calls visit with the id of every object that begins with prefix, in no order, maybe more than once. The
// prefix has at least one byte.
func (s *Store) Find(prefix []byte, visit func(ID)) error {
	if _, err := s.scan(); err != nil {
		return err
	}
	s.mu.RLock()
	packs := s.packs
	s.mu.RUnlock()
	for _, p := range packs {
		if err := p.index.prefix(prefix, visit); err != nil {
			return err
		}
	}
	first := hex.EncodeToString(prefix[:1])
	for _, folder := range s.folders {
		names, err := os.ReadDir(filepath.Join(folder, first))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, n := range names {
			b, err := hex.DecodeString(first + n.Name())
			if err == nil && len(b) == len(ID{}) && bytes.HasPrefix(b, prefix) {
				visit(ID(b))
			}
		}
	}
	return nil
}

func hash(kind Kind, data []byte) ID {
	h := newHash(kind, int64(len(data)))
	_, _ = h.Write(data) // a hash takes everything
	return ID(h.Sum(nil))
}

func newHash(kind Kind, size int64) interface {
	io.Writer
	Sum([]byte) []byte
} {
	h := sha1.New()
	head := append([]byte(kind.String()), ' ')
	h.Write(append(strconv.AppendInt(head, size, 10), 0))
	return h
}
