package pack

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"sort"
)

// index is a pack index of version 2: a table of how many ids begin with at most each byte, the ids in order, their
// checksums, their offsets in 32 bits, and the offsets that need 64.
type index struct {
	path string
	data []byte // all of it, or nil and read from file
	file *os.File
	fan  [256]uint32
	big  int // offsets of 64 bits
}

const (
	indexHead  = 8 + 4*256
	indexTail  = 40
	indexEntry = 20 + 4 + 4
)

// openIndex opens an index and loads it if it has at most load bytes.
func openIndex(path string, load int64) (*index, error) {
	f, size, err := openFile(path)
	if err != nil {
		return nil, err
	}
	x := &index{path: path, file: f}
	if err := x.check(size); err != nil {
		f.Close()
		return nil, err
	}
	if size > load {
		return x, nil
	}
	data := make([]byte, size)
	_, err = f.ReadAt(data, 0)
	f.Close()
	if err != nil {
		return nil, x.damaged("it is cut short")
	}
	x.data, x.file = data, nil
	return x, nil
}

func (x *index) check(size int64) error {
	var head [indexHead]byte
	if _, err := x.file.ReadAt(head[:], 0); err != nil {
		return x.damaged("it is cut short")
	}
	if !bytes.HasPrefix(head[:], []byte("\xfftOc")) {
		return &VersionError{x.path, 1}
	}
	if v := binary.BigEndian.Uint32(head[4:]); v != 2 {
		return &VersionError{x.path, v}
	}
	for i := range x.fan {
		x.fan[i] = binary.BigEndian.Uint32(head[8+4*i:])
		if i > 0 && x.fan[i] < x.fan[i-1] {
			return x.damaged("its table of first bytes is not in order")
		}
	}
	rest := size - indexHead - indexTail - int64(x.count())*indexEntry
	if rest < 0 || rest%8 != 0 || rest/8 > int64(x.count()) {
		return x.damaged("its size is not that of its table")
	}
	x.big = int(rest / 8)
	return nil
}

func (x *index) count() uint32 { return x.fan[255] }

func (x *index) damaged(why string) error { return &DamagedError{File: x.path, Why: why} }

func (x *index) close() {
	if x.file != nil {
		x.file.Close()
	}
}

// read fills buf from offset at.
func (x *index) read(buf []byte, at int64) error {
	if x.file == nil {
		copy(buf, x.data[at:])
		return nil
	}
	if _, err := x.file.ReadAt(buf, at); err == io.EOF {
		return x.damaged("it is cut short")
	} else if err != nil {
		return err
	}
	return nil
}

func (x *index) id(i uint32) (id ID, err error) {
	err = x.read(id[:], indexHead+20*int64(i))
	return id, err
}

// lower returns the number of the first id that is not before a prefix.
func (x *index) lower(prefix []byte) (uint32, error) {
	from, to := uint32(0), x.fan[prefix[0]]
	if prefix[0] > 0 {
		from = x.fan[prefix[0]-1]
	}
	var failed error
	n := sort.Search(int(to-from), func(i int) bool {
		id, err := x.id(from + uint32(i))
		if err != nil {
			failed = err
		}
		return bytes.Compare(id[:], prefix) >= 0
	})
	return from + uint32(n), failed
}

// find returns the offset of an object in the pack.
func (x *index) find(id ID) (int64, bool, error) {
	n, err := x.lower(id[:])
	if err != nil || n >= x.fan[id[0]] {
		return 0, false, err
	}
	got, err := x.id(n)
	if err != nil || got != id {
		return 0, false, err
	}
	var b [8]byte
	table := indexHead + 24*int64(x.count())
	if err := x.read(b[:4], table+4*int64(n)); err != nil {
		return 0, false, err
	}
	at := binary.BigEndian.Uint32(b[:])
	if at>>31 == 0 {
		return int64(at), true, nil
	}
	if at &= 1<<31 - 1; int64(at) >= int64(x.big) {
		return 0, false, x.damaged("an offset points outside it")
	}
	if err := x.read(b[:], table+4*int64(x.count())+8*int64(at)); err != nil {
		return 0, false, err
	}
	// One that does not fit is negative and so outside of every pack.
	return int64(binary.BigEndian.Uint64(b[:])), true, nil
}

func (x *index) prefix(prefix []byte, visit func(ID)) error {
	n, err := x.lower(prefix)
	for ; err == nil && n < x.fan[prefix[0]]; n++ {
		var id ID
		if id, err = x.id(n); err != nil || !bytes.HasPrefix(id[:], prefix) {
			break
		}
		visit(id)
	}
	return err
}
