package storage_test

import (
	"fmt"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/storage"
)

// One store for both: what Temporal offloads, and what agents keep.
func Example() {
	blobs := blob.NewMemory("demo")
	driver, err := storage.NewDriver(blobs, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	options := client.Options{ExternalStorage: converter.ExternalStorage{Drivers: []converter.StorageDriver{driver}}}
	fmt.Println(options.ExternalStorage.Drivers[0].Name())
	// Output: assent.blob
}

// A team that has a driver gives it to the engine too.
func ExampleFromDriver() {
	theirs := newBucket("payloads")
	blobs, err := storage.FromDriver(theirs, storage.Config{})
	fmt.Println(blobs.ID(), err)
	// Output: external:payloads <nil>
}
