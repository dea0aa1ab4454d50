package blobtest_test

import (
	"testing"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/blob/blobtest"
)

// The whole test of a driver: each place is new, and is opened as often as the suite asks for it.
func Example() {
	_ = func(t *testing.T) {
		blobtest.Run(t, func(t *testing.T) blobtest.Opener {
			place := t.TempDir()
			return func(t *testing.T) blob.Store {
				store, err := blob.NewDir(place)
				if err != nil {
					t.Fatal(err)
				}
				return store
			}
		})
	}
}
