package git

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// The bits of an index entry's flags.
const (
	flagExtended = 0x4000 // in the first two bytes: two more follow
	flagSkip     = 0x4000 // in those: left out by a sparse checkout
)

// restat sets every file of a new tree back by two seconds, so that git trusts the index at once and reads nothing
// through a filter, and writes what lstat then says into the index that git wrote, which data holds. Ids have
// width bytes. The entries of the second list keep the first 20 of them; they are compared and never shown.
func restat(tree *os.Root, data []byte, width int) ([]baseEntry, []entry, error) {
	at := newStack(tree)
	defer at.close()
	bad := errors.New("git's index cannot be read")
	if len(data) < 12+width || !bytes.HasPrefix(data, []byte("DIRC")) {
		return nil, nil, bad
	}
	version, n := binary.BigEndian.Uint32(data[4:]), binary.BigEndian.Uint32(data[8:])
	if version != 2 && version != 3 {
		return nil, nil, fmt.Errorf("%w: version %d", bad, version)
	}
	when := time.Now().Add(-2 * time.Second)
	var base []baseEntry
	var entries []entry
	body := data[12 : len(data)-width]
	for range n {
		head := 42 + width
		if len(body) < head+2 {
			return nil, nil, bad
		}
		absent := false
		if binary.BigEndian.Uint16(body[40+width:])&flagExtended != 0 {
			absent = binary.BigEndian.Uint16(body[head:])&flagSkip != 0
			head += 2
		}
		end := bytes.IndexByte(body[head:], 0)
		if end < 0 {
			return nil, nil, bad
		}
		e := entry{path: string(body[head : head+end]), mode: binary.BigEndian.Uint32(body[24:])}
		copy(e.id[:], body[40:])
		if !absent {
			if err := setBack(at, &e, when); err != nil {
				return nil, nil, fmt.Errorf("read %q: %w", e.path, err)
			}
			if e.stat.ino != 0 {
				putStat(body, e.stat)
			}
		}
		base = append(base, baseEntry{Path: e.path, Mode: e.mode, ID: hex.EncodeToString(body[40 : 40+width]), Absent: absent})
		entries = append(entries, e)
		size := (head + end + 8) &^ 7
		if len(body) < size {
			return nil, nil, bad
		}
		body = body[size:]
	}
	if width == sha256.Size {
		sum := sha256.Sum256(data[:len(data)-width])
		copy(data[len(data)-width:], sum[:])
	} else {
		sum := sha1.Sum(data[:len(data)-width])
		copy(data[len(data)-width:], sum[:])
	}
	return base, entries, nil
}

// setBack changes the times of a file and takes what lstat says. What is not there, because a file system that
// folds case has it under another name, is left as it is.
func setBack(at *folderStack, e *entry, when time.Time) error {
	dir, name := "", e.path
	if i := strings.LastIndexByte(e.path, '/'); i >= 0 {
		dir, name = e.path[:i], e.path[i+1:]
	}
	root, err := at.enter(dir)
	if err != nil {
		return err
	}
	fi, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && fi.Mode().IsRegular() {
		if err = root.Chtimes(name, when, when); err == nil {
			fi, err = root.Lstat(name)
		}
	}
	if err == nil {
		e.stat = statOf(fi)
	}
	return err
}

// putStat writes what lstat says into an index entry.
func putStat(b []byte, s fileStat) {
	for i, v := range []uint32{
		uint32(s.ctime / 1e9), uint32(s.ctime % 1e9), uint32(s.mtime / 1e9), uint32(s.mtime % 1e9), uint32(s.dev), uint32(s.ino),
	} {
		binary.BigEndian.PutUint32(b[4*i:], v)
	}
	for i, v := range []uint32{s.uid, s.gid, uint32(s.size)} {
		binary.BigEndian.PutUint32(b[28+4*i:], v)
	}
}
