package garbage_test

import (
	"context"
	"fmt"
	"time"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/garbage"
)

// What a store holds that no run of a server needs.
func Example() {
	store := blob.NewMemory("demo")
	_, _ = store.Put(context.Background(), []byte("left by a run"))
	report, err := garbage.Look(context.Background(), store, garbage.Options{
		Sources: []garbage.Source{{Client: &server{}, Namespace: "default"}}, Since: time.Now().Add(-time.Hour)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(report.Unused(time.Now().Add(time.Hour))))
	// Output: 1
}
