package pack

import (
	"bufio"
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"sync"
)

// inflater reads a zlib stream. Its checksum is not looked at: what is made of it is hashed.
type inflater struct {
	window
	in    io.SectionReader
	small bytes.Reader
	large *bufio.Reader
	out   io.ReadCloser
	begun bool
}

// oneRead is the size in bytes up to which a stream is read in one go.
const oneRead = 64 << 10

var inflaters = sync.Pool{New: func() any {
	return &inflater{window: window{buf: make([]byte, oneRead)}, out: flate.NewReader(bytes.NewReader(nil))}
}}

// window is a part of a pack that was read last. What is asked for in order is mostly near what was asked for before.
type window struct {
	file io.ReaderAt
	at   int64
	buf  []byte
	n    int
}

// bytes returns up to n bytes from an offset, good until the next call: fewer where the file ends.
func (w *window) bytes(f io.ReaderAt, at int64, n int) []byte {
	if w.file != f || at < w.at || at+int64(n) > w.at+int64(w.n) {
		w.file, w.at = f, at
		w.n, _ = f.ReadAt(w.buf, at) // what cannot be read is missed by whoever wants it
	}
	from := int(at - w.at)
	return w.buf[from:min(from+n, w.n)]
}

// deflateBound is the number of bytes from which nobody's stream of size bytes is: stored blocks of a few bytes,
// and the zlib frame.
func deflateBound(size int64) int64 { return size + size/4 + 512 }

// newInflater begins at an offset of a file and reads at most most bytes of it.
func newInflater(f io.ReaderAt, at, most int64) *inflater {
	r := inflaters.Get().(*inflater)
	r.in = *io.NewSectionReader(f, at, most)
	r.begun = false
	return r
}

// source returns the stream: from one read if it is short.
func (r *inflater) source() flate.Reader {
	f, at, size := r.in.Outer()
	if size <= oneRead {
		r.small.Reset(r.bytes(f, at, int(size)))
		return &r.small
	}
	if r.large == nil {
		r.large = bufio.NewReaderSize(&r.in, oneRead)
	} else {
		r.large.Reset(&r.in)
	}
	return r.large
}

var errStream = errors.New("a compressed stream is wrong")

func (r *inflater) begin() error {
	r.begun = true
	in := r.source()
	method, err := in.ReadByte()
	if err != nil {
		return errStream
	}
	flags, err := in.ReadByte()
	// Deflate, a window of at most 32 kB, no dictionary.
	if err != nil || method&15 != 8 || method>>4 > 7 || flags&0x20 != 0 || (uint(method)<<8|uint(flags))%31 != 0 {
		return errStream
	}
	return r.out.(flate.Resetter).Reset(in, nil)
}

func (r *inflater) Read(p []byte) (int, error) {
	if !r.begun {
		if err := r.begin(); err != nil {
			return 0, err
		}
	}
	n, err := r.out.Read(p)
	if err != nil && err != io.EOF {
		err = errStream
	}
	return n, err
}

// whole fills out, which must be all that the stream holds.
func (r *inflater) whole(out []byte) error {
	if _, err := io.ReadFull(r, out); err != nil {
		return errStream
	}
	var more [1]byte
	if n, err := r.Read(more[:]); n != 0 || !errors.Is(err, io.EOF) {
		return errStream
	}
	return nil
}

// Close gives the inflater back. Its window keeps the file, even a closed one, so that no other can have its address.
func (r *inflater) Close() error {
	inflaters.Put(r)
	return nil
}
