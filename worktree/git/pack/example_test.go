package pack_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/assent-dev/assent/worktree/git/pack"
)

// Read an object of an object folder by its id.
func Example() {
	objects, err := os.MkdirTemp("", "objects-")
	check(err)
	defer os.RemoveAll(objects)
	stored := []byte("blob 6\x00hello\n")
	id := pack.ID(sha1.Sum(stored))
	var file bytes.Buffer
	z := zlib.NewWriter(&file)
	_, err = z.Write(stored)
	check(err)
	check(z.Close())
	name := hex.EncodeToString(id[:])
	check(os.Mkdir(filepath.Join(objects, name[:2]), 0o700))
	check(os.WriteFile(filepath.Join(objects, name[:2], name[2:]), file.Bytes(), 0o600))

	store, err := pack.Open(objects)
	check(err)
	defer store.Close()
	kind, data, err := store.Read(id)
	fmt.Printf("%v %v %q %v\n", id, kind, data, err)
	// Output: ce013625030ba8dba906f756967f9e9ca394464a blob "hello\n" <nil>
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
