package git

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// encodeIndex writes a version 2 index with the TREE extension, so that the first `git status` needs neither to
// read a file nor to hash a tree. The library's encoder writes no extensions.
func encodeIndex(w io.Writer, entries []entry, folders []folder) error {
	h := sha1.New()
	b := bufio.NewWriterSize(io.MultiWriter(w, h), 64<<10)
	head := binary.BigEndian.AppendUint32([]byte("DIRC"), 2)
	b.Write(binary.BigEndian.AppendUint32(head, uint32(len(entries))))
	var buf []byte
	for i := range entries {
		buf = appendIndexEntry(buf[:0], &entries[i])
		b.Write(buf)
	}
	if folders != nil {
		ext := appendTreeExtension(nil, folders)
		b.WriteString("TREE")
		b.Write(binary.BigEndian.AppendUint32(nil, uint32(len(ext))))
		b.Write(ext)
	}
	if err := b.Flush(); err != nil {
		return err
	}
	_, err := w.Write(h.Sum(nil))
	return err
}

const indexEntrySize = 62 // bytes before the name

func appendIndexEntry(b []byte, e *entry) []byte {
	start := len(b)
	s := &e.stat
	for _, v := range []uint32{
		uint32(s.ctime / 1e9), uint32(s.ctime % 1e9), uint32(s.mtime / 1e9), uint32(s.mtime % 1e9),
		uint32(s.dev), uint32(s.ino), e.mode, s.uid, s.gid, uint32(s.size),
	} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	b = append(b, e.id[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(min(len(e.path), 0xfff)))
	b = append(b, e.path...)
	// at least one NUL ends the name
	for pad := 8 - (len(b)-start)%8; pad > 0; pad-- {
		b = append(b, 0)
	}
	return b
}

func appendTreeExtension(b []byte, folders []folder) []byte {
	for _, f := range folders {
		b = fmt.Appendf(b, "%s\x00%d %d\n", f.name, f.entries, f.folders)
		b = append(b, f.id[:]...)
	}
	return b
}

// decodeIndex reads what encodeIndex wrote, without the extension. It reads our own frozen copy and nothing else.
func decodeIndex(data []byte) ([]entry, error) {
	bad := errors.New("index is damaged")
	if len(data) < 32 || !bytes.HasPrefix(data, []byte("DIRC\x00\x00\x00\x02")) {
		return nil, bad
	}
	body := data[:len(data)-20]
	if got := sha1.Sum(body); !bytes.Equal(got[:], data[len(body):]) {
		return nil, bad
	}
	n := int(binary.BigEndian.Uint32(body[8:]))
	body = body[12:]
	if n > len(body)/indexEntrySize {
		return nil, bad
	}
	entries := make([]entry, 0, n)
	for range n {
		if len(body) < indexEntrySize {
			return nil, bad
		}
		end := bytes.IndexByte(body[indexEntrySize:], 0)
		if end < 0 {
			return nil, bad
		}
		u := func(i int) uint32 { return binary.BigEndian.Uint32(body[4*i:]) }
		e := entry{mode: u(6)}
		e.stat = fileStat{
			ctime: int64(u(0))*1e9 + int64(u(1)), mtime: int64(u(2))*1e9 + int64(u(3)),
			dev: uint64(u(4)), ino: uint64(u(5)), uid: u(7), gid: u(8), size: int64(u(9)),
		}
		copy(e.id[:], body[40:60])
		e.path = string(body[indexEntrySize : indexEntrySize+end])
		entries = append(entries, e)
		size := indexEntrySize + end
		size += 8 - size%8
		if len(body) < size {
			return nil, bad
		}
		body = body[size:]
	}
	return entries, nil
}

// writeIndex puts an index in place the way git does: index.lock, then rename.
func writeIndex(path string, entries []entry, folders []folder) error {
	f, err := os.OpenFile(path+".lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL|openFlags, 0o666)
	if err != nil {
		return err
	}
	err = encodeIndex(f, entries, folders)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(path + ".lock")
		return err
	}
	return os.Rename(path+".lock", path)
}

// sameStat reports whether a file still has what the index recorded of it. Sizes, devices and inodes are kept in
// 32 bits there; a change that keeps all of them would still have changed the change time.
func sameStat(now, then fileStat) bool {
	return now.mtime == then.mtime && now.ctime == then.ctime && uint32(now.size) == uint32(then.size) &&
		uint32(now.ino) == uint32(then.ino)
}
