package blob_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/assent-dev/assent/blob"
)

func Example() {
	path, err := os.MkdirTemp("", "blobs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(path)
	store, err := blob.NewDir(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	ref, _ := store.Put(context.Background(), []byte("a patch"))
	data, _ := store.Get(context.Background(), ref)
	fmt.Printf("%d bytes: %s\n", ref.Size, data)

	_, err = store.Get(context.Background(), blob.RefOf([]byte("another patch")))
	var missing *blob.NotFoundError
	fmt.Println(errors.As(err, &missing))
	// Output:
	// 7 bytes: a patch
	// true
}
