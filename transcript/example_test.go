package transcript_test

import (
	"context"
	"fmt"
	"os"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/transcript"
)

func Example() {
	dir, err := os.MkdirTemp("", "blobs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store, err := blob.NewDir(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	first, _ := transcript.Append(ctx, store, transcript.Node{Messages: []model.Message{
		{Role: model.User, Text: "What is in go.mod?"}, {Role: model.Assistant, Text: "A module line."}}})
	last, _ := transcript.Append(ctx, store, transcript.Node{Prev: &first, Messages: []model.Message{
		{Role: model.User, Text: "Which?"}, {Role: model.Assistant, Text: "assent."}}})

	// An agent's result has the last reference; it names all of the conversation.
	entries, err := transcript.Verify(ctx, store, &last)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range entries {
		for _, m := range e.Node.Messages {
			fmt.Printf("%s: %s\n", m.Role, m.Text)
		}
	}
	// Output:
	// user: What is in go.mod?
	// assistant: A module line.
	// user: Which?
	// assistant: assent.
}
