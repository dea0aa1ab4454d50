package pack

import (
	"bytes"
	"compress/zlib"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// squeezers are dear to make.
var squeezers = sync.Pool{New: func() any { return zlib.NewWriter(nil) }}

func squeezed(data []byte) []byte {
	var out bytes.Buffer
	z := squeezers.Get().(*zlib.Writer)
	defer squeezers.Put(z)
	z.Reset(&out)
	_, _ = z.Write(data)
	_ = z.Close()
	return out.Bytes()
}

// FuzzAgainstGit packs objects as git does and reads all of them back.
func FuzzAgainstGit(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(seed, seed%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, offsets bool) {
		blobs := texts(seed, 40)
		dir, ids := repository(t, blobs)
		var args []string
		if offsets {
			args = append(args, "--delta-base-offset")
		}
		packAll(t, dir, ids, args...)
		requireAll(t, open(t, dir), ids, blobs)
	})
}

// FuzzDelta applies whatever is said to be a delta: it fails, or makes what it promised.
func FuzzDelta(f *testing.F) {
	f.Add([]byte("base"), []byte("\x04\x04\x90\x04"))
	f.Add([]byte("base"), []byte("\x04\x05\x05hello"))
	f.Add([]byte("base"), []byte("\x04\x80\x80\x80\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, base, delta []byte) {
		out, err := applyDelta(base, delta)
		if err != nil {
			return
		}
		_, size, _, err := deltaHead(delta)
		require.NoError(t, err)
		require.Len(t, out, int(size))
	})
}

// FuzzPack reads a pack of one object that says anything.
func FuzzPack(f *testing.F) {
	f.Add([]byte{3<<4 | 1}, []byte("x"))
	f.Add([]byte{6<<4 | 3, 1}, []byte("\x01\x01\x90"))
	f.Fuzz(func(t *testing.T, head, data []byte) {
		s := open(t, made(t, object{2, []byte{3<<4 | 1}, []byte("x")}, object{1, head, data}))
		_, _, err := s.Read(named(1))
		require.True(t, err != nil && typed(err), "%v", err)
		_, _, _ = s.Info(named(1))
	})
}
