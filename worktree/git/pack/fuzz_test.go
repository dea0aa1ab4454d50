package pack

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"math/rand/v2"
	"os"
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

// Objects by chance are packed as git does, and all of them read back. It starts git for each, so that it is no fuzz target.
func TestAgainstGit(t *testing.T) {
	rounds := uint64(6)
	if os.Getenv("ASSENT_LONG") == "1" {
		rounds = 300
	}
	first := rand.Uint64()
	for n := range rounds {
		seed := first + n
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			blobs := texts(seed, 40)
			dir, ids := repository(t, blobs)
			var args []string
			if n%2 == 0 {
				args = append(args, "--delta-base-offset")
			}
			packAll(t, dir, ids, args...)
			requireAll(t, open(t, dir), ids, blobs)
		})
	}
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
	dir := f.TempDir() // each process that fuzzes has its own
	f.Fuzz(func(t *testing.T, head, data []byte) {
		s := open(t, madeIn(t, dir, object{2, []byte{3<<4 | 1}, []byte("x")}, object{1, head, data}))
		_, _, err := s.Read(named(1))
		require.True(t, err != nil && typed(err), "%v", err)
		_, _, _ = s.Info(named(1))
	})
}
