package blob

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/assent-dev/assent/fault"
)

// The names below the directory of a Dir.
const (
	idName      = "store-id"
	objectsName = "objects"
	tempName    = "tmp"
)

// putPrefix begins the names of unfinished writes.
const putPrefix = "put-"

// staleTemp is how old an unfinished write must be before NewDir takes it for the leftover of a crash.
const staleTemp = 24 * time.Hour

// Dir is a Store in one directory, for a single host or a shared file system.
//
// Bytes are visible only as a whole: they are written aside, synced and renamed. Several processes may use one
// directory at the same time. Everything below it is readable by its owner only.
type Dir struct {
	path string
	id   string
}

// NewDir opens the store in the directory path and creates it, with mode 0700, if it is not there. The identity
// of the store is written once and read from then on. An empty path or one that is no directory is a *fault.ConfigError.
func NewDir(path string) (*Dir, error) {
	if path == "" {
		return nil, fault.Configf("blob", "the directory of the store is empty")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("blob: resolve %q: %w", path, err)
	}
	if info, err := os.Stat(abs); err == nil && !info.IsDir() {
		return nil, fault.Configf("blob", "%q is not a directory", path)
	}
	for _, dir := range []string{abs, filepath.Join(abs, objectsName), filepath.Join(abs, tempName)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("blob: open store %q: %w", path, err)
		}
	}
	d := &Dir{path: abs}
	if d.id, err = d.loadID(); err != nil {
		return nil, err
	}
	d.sweepTemp()
	return d, nil
}

// ID returns the identity that the store got when it was created: 32 lower-case hex digits. It moves with the
// directory and never changes.
func (d *Dir) ID() string { return d.id }

// Put stores data and returns its reference once the bytes are on disk.
func (d *Dir) Put(ctx context.Context, data []byte) (Ref, error) {
	ref := RefOf(data)
	if err := ctx.Err(); err != nil {
		return Ref{}, fmt.Errorf("blob: put %s: %w", ref.SHA256, err)
	}
	// Comparing instead of trusting the name heals a file that was damaged after it had been written.
	path := d.object(ref)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		// One that is deleted at this moment, or is somebody else's, is written anew. It is looked for again, because a
		// deletion may have taken the name and read the old time before the new one was set.
		now := time.Now()
		err := os.Chtimes(path, now, now)
		if err == nil {
			_, err = os.Lstat(path)
		}
		if err == nil {
			return ref, nil
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Ref{}, fmt.Errorf("blob: put %s: %w", ref.SHA256, err)
	}
	if err := d.publish(path, data, os.Rename); err != nil {
		return Ref{}, fmt.Errorf("blob: put %s: %w", ref.SHA256, err)
	}
	return ref, nil
}

// Get returns the bytes of ref. The error is a *NotFoundError, a *CorruptError if the stored bytes do not have the
// hash and size of ref, an *InvalidRefError, or one of the file system.
func (d *Dir) Get(ctx context.Context, ref Ref) ([]byte, error) {
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("blob: get %s: %w", ref.SHA256, err)
	}
	data, err := os.ReadFile(d.object(ref))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &NotFoundError{Store: d.id, Ref: ref}
	}
	if err != nil {
		return nil, fmt.Errorf("blob: get %s: %w", ref.SHA256, err)
	}
	if got := RefOf(data); !got.Same(ref) {
		return nil, &CorruptError{Store: d.id, Ref: ref, Got: got}
	}
	return data, nil
}

// object returns the path of ref. Two levels keep directories small.
func (d *Dir) object(ref Ref) string {
	return filepath.Join(d.path, objectsName, ref.SHA256[:2], ref.SHA256[2:])
}

// loadID reads the identity and creates it first if the store is new.
func (d *Dir) loadID() (string, error) {
	path := filepath.Join(d.path, idName)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		// A hard link fails if the name exists, so of two processes that create a store both read the id of one.
		line := []byte(newID() + "\n")
		if err := d.publish(path, line, os.Link); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("blob: name store %q: %w", d.path, err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("blob: read the id of store %q: %w", d.path, err)
	}
	id := strings.TrimSuffix(string(data), "\n")
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != 16 {
		return "", fault.Configf("blob", "%q does not hold the id of a store", path)
	}
	return id, nil
}

// publish writes data aside, syncs it and gives it its name with place, which is os.Rename or os.Link.
func (d *Dir) publish(path string, data []byte, place func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Join(d.path, tempName), putPrefix+"*")
	if err != nil {
		return err
	}
	// After a rename the name is gone and this does nothing.
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = place(f.Name(), path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// sweepTemp removes what crashed writers left. Failing to is no reason not to open the store.
func (d *Dir) sweepTemp() {
	dir := filepath.Join(d.path, tempName)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if name, ok := strings.CutPrefix(entry.Name(), asidePrefix); ok {
			sum, _, _ := strings.Cut(name, "-")
			d.putBack(filepath.Join(dir, entry.Name()), sum)
			continue
		}
		// Nobody else's files: a folder may have had one of that name before it was a store.
		if !strings.HasPrefix(entry.Name(), putPrefix) {
			continue
		}
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > staleTemp {
			_ = os.Remove(filepath.Join(dir, entry.Name()))
		}
	}
}

// syncDir makes a new name durable.
func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
