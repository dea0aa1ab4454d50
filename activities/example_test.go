package activities_test

import (
	"context"
	"fmt"
	"os"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/blob"
)

// A transcript is a chain of blobs, each with the hash of all before it. Whoever has the store and the last reference,
// which is in the agent's result, reads the whole conversation.
func ExampleReadTranscript() {
	place, err := os.MkdirTemp("", "blobs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(place)
	store, err := blob.NewDir(place)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	first, err := store.Put(ctx, []byte(`{"messages":[{"role":"user","text":"Is it a Go module?"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	last, err := store.Put(ctx, fmt.Appendf(nil, `{"prev":{"sha256":%q,"size":%d},"messages":[{"role":"assistant","text":"It is."}]}`, first.SHA256, first.Size))
	if err != nil {
		fmt.Println(err)
		return
	}
	messages, err := activities.ReadTranscript(ctx, store, &last)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range messages {
		fmt.Printf("%s: %s\n", m.Role, m.Text)
	}
	// Output:
	// user: Is it a Go module?
	// assistant: It is.
}
