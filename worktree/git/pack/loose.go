package pack

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
)

// openFile opens a regular file and returns its size. It does not wait for a FIFO that took the file's place.
func openFile(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|withoutWaiting, 0)
	if err != nil {
		return nil, 0, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, fi.Size(), nil
}

// loose is an object in a file of its own, its head read.
type loose struct {
	*inflater
	file *os.File
	kind Kind
	size int64
	// rest is what was read beyond the head.
	rest []byte
}

func (l *loose) Close() error {
	return errors.Join(l.inflater.Close(), l.file.Close())
}

func (l *loose) Read(p []byte) (int, error) {
	if len(l.rest) > 0 {
		n := copy(p, l.rest)
		l.rest = l.rest[n:]
		return n, nil
	}
	return l.inflater.Read(p)
}

func openLoose(path string) (*loose, error) {
	f, size, err := openFile(path)
	if err != nil {
		return nil, err
	}
	l := &loose{file: f, inflater: newInflater(f, 0, size)}
	head := make([]byte, 32)
	n, _ := io.ReadFull(l.inflater, head)
	text, rest, ok := bytes.Cut(head[:n], []byte{0})
	kind, digits, spaced := bytes.Cut(text, []byte{' '})
	for _, k := range []Kind{Commit, Tree, Blob, Tag} {
		if string(kind) == k.String() {
			l.kind = k
		}
	}
	l.size, err = strconv.ParseInt(string(digits), 10, 64)
	if !ok || !spaced || l.kind == 0 || err != nil || l.size < 0 || l.size > 1032*size {
		_ = l.Close()
		return nil, &DamagedError{File: path, Why: "it does not begin as an object"}
	}
	l.rest = rest
	return l, nil
}

func readLoose(path string) (Kind, []byte, error) {
	l, err := openLoose(path)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = l.Close() }()
	if l.size > MaxMemory {
		return 0, nil, &TooLargeError{l.size}
	}
	data := make([]byte, l.size)
	n, err := io.ReadFull(l, data)
	var more [1]byte
	if m, _ := l.Read(more[:]); err != nil || m != 0 || n != len(data) {
		return 0, nil, &DamagedError{File: path, Why: errStream.Error()}
	}
	return l.kind, data, nil
}

func looseInfo(path string) (Kind, int64, error) {
	l, err := openLoose(path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = l.Close() }()
	return l.kind, l.size, nil
}

func streamLoose(path string) (Kind, int64, io.ReadCloser, error) {
	l, err := openLoose(path)
	if err != nil {
		return 0, 0, nil, err
	}
	if l.size < streamFrom {
		_ = l.Close()
		return l.kind, l.size, nil, nil
	}
	return l.kind, l.size, l, nil
}
