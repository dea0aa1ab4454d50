package pack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// packFile is one pack with its index.
type packFile struct {
	path  string
	file  *os.File
	size  int64
	index *index
}

const (
	packHead = 12
	packTail = 20
	// deepest bounds a chain of deltas; git makes none deeper than 4095.
	deepest = 4096

	offsetDelta = 6
	refDelta    = 7
)

func openPack(path string, load int64) (*packFile, error) {
	f, size, err := openFile(path + ".pack")
	if err != nil {
		return nil, err
	}
	p := &packFile{path: path + ".pack", file: f, size: size}
	var head [packHead]byte
	if _, err := f.ReadAt(head[:], 0); err != nil || !bytes.HasPrefix(head[:], []byte("PACK")) {
		err = p.damaged(0, "it does not begin as a pack")
		f.Close()
		return nil, err
	}
	if v := binary.BigEndian.Uint32(head[4:]); v != 2 && v != 3 {
		f.Close()
		return nil, &VersionError{p.path, v}
	}
	if p.index, err = openIndex(path+".idx", load); err != nil {
		f.Close()
		return nil, err
	}
	return p, nil
}

func (p *packFile) close() {
	p.file.Close()
	p.index.close()
}

func (p *packFile) damaged(at int64, why string) error {
	return &DamagedError{File: p.path, Why: fmt.Sprintf("at %d: %s", at, why)}
}

// entry is the head of an object in a pack.
type entry struct {
	kind Kind // or a delta
	// size is that of what the stream inflates to, in bytes.
	size int64
	// data is where the stream begins, base where the base of a delta does.
	data, base int64
}

// most returns the number of bytes that a stream from offset at may inflate to: deflate makes at most 1032 of one.
func (p *packFile) most(at int64) int64 { return 1032 * (p.size - packTail - at) }

func (p *packFile) entry(at int64) (e entry, err error) {
	if at < packHead || at >= p.size-packTail {
		return e, p.damaged(at, "an offset points outside it")
	}
	in := inflaters.Get().(*inflater)
	var b [40]byte
	n := copy(b[:], in.bytes(p.file, at, len(b)))
	inflaters.Put(in)
	r := bytes.NewReader(b[:n])
	c, err := r.ReadByte()
	if err != nil {
		return e, p.damaged(at, "it is cut short")
	}
	e.kind, e.size = Kind(c>>4&7), int64(c&15)
	for shift := 4; c&0x80 != 0; shift += 7 {
		if c, err = r.ReadByte(); err != nil || shift > 53 {
			return e, p.damaged(at, "the head of an object is wrong")
		}
		e.size |= int64(c&0x7f) << shift
	}
	switch e.kind {
	case Commit, Tree, Blob, Tag:
	case offsetDelta:
		back := int64(-1)
		for more := true; more; more = c&0x80 != 0 {
			if c, err = r.ReadByte(); err != nil || back > 1<<48 {
				return e, p.damaged(at, "the head of a delta is wrong")
			}
			back = (back+1)<<7 | int64(c&0x7f)
		}
		if e.base = at - back; back <= 0 || e.base < packHead {
			return e, p.damaged(at, "the base of a delta is not before it")
		}
	case refDelta:
		var id ID
		if _, err := io.ReadFull(r, id[:]); err != nil {
			return e, p.damaged(at, "it is cut short")
		}
		var ok bool
		if e.base, ok, err = p.index.find(id); err != nil || !ok {
			return e, p.damaged(at, "the base of a delta is not in it")
		}
	default:
		return e, p.damaged(at, "an object is of no known kind")
	}
	e.data = at + int64(n-r.Len())
	if e.size > p.most(e.data) {
		return e, p.damaged(at, "an object says that it is larger than it can be")
	}
	return e, nil
}

func (e entry) delta() bool { return e.kind == offsetDelta || e.kind == refDelta }

// inflate returns what the stream of an entry holds.
func (p *packFile) inflate(e entry) ([]byte, error) {
	if e.size > MaxMemory {
		return nil, &TooLargeError{e.size}
	}
	r := newInflater(p.file, e.data, min(p.size-packTail-e.data, deflateBound(e.size)))
	defer func() { _ = r.Close() }()
	out := make([]byte, e.size)
	if err := r.whole(out); err != nil {
		return nil, p.damaged(e.data, err.Error())
	}
	return out, nil
}

// packed returns the object at an offset, with its deltas applied.
func (s *Store) packed(p *packFile, at int64) (Kind, []byte, error) {
	var chain []int64 // deltas, the last applied first
	var kind Kind
	var data []byte
	for {
		var ok bool
		if kind, data, ok = s.cache.get(place{pack: p, at: at}); ok {
			break
		}
		e, err := p.entry(at)
		if err != nil {
			return 0, nil, err
		}
		if !e.delta() {
			if data, err = p.inflate(e); err != nil {
				return 0, nil, err
			}
			kind = e.kind
			s.cache.put(place{pack: p, at: at}, kind, data)
			break
		}
		if len(chain) == deepest {
			return 0, nil, p.damaged(at, "a chain of deltas does not end")
		}
		chain = append(chain, at)
		at = e.base
	}
	for i := len(chain) - 1; i >= 0; i-- {
		e, err := p.entry(chain[i])
		if err != nil {
			return 0, nil, err
		}
		delta, err := p.inflate(e)
		if err != nil {
			return 0, nil, err
		}
		if data, err = applyDelta(data, delta); err != nil {
			if errors.Is(err, errDelta) {
				err = p.damaged(chain[i], err.Error())
			}
			return 0, nil, err
		}
		s.cache.put(place{pack: p, at: chain[i]}, kind, data)
	}
	return kind, data, nil
}

// info returns kind and size of the object at an offset.
func (p *packFile) info(at int64) (Kind, int64, error) {
	e, err := p.entry(at)
	if err != nil || !e.delta() {
		return e.kind, e.size, err
	}
	var head [20]byte
	r := newInflater(p.file, e.data, p.size-packTail-e.data)
	n, _ := io.ReadFull(r, head[:min(int64(len(head)), e.size)])
	_ = r.Close()
	_, size, _, err := deltaHead(head[:n])
	if err != nil {
		return 0, 0, p.damaged(at, err.Error())
	}
	for range deepest {
		if e, err = p.entry(e.base); err != nil || !e.delta() {
			return e.kind, size, err
		}
	}
	return 0, 0, p.damaged(at, "a chain of deltas does not end")
}

// stream opens the object at an offset if it is large and no delta.
func (p *packFile) stream(at int64) (Kind, int64, io.ReadCloser, error) {
	e, err := p.entry(at)
	if err != nil || e.delta() || e.size < streamFrom {
		return e.kind, e.size, nil, err
	}
	return e.kind, e.size, newInflater(p.file, e.data, p.size-packTail-e.data), nil
}
