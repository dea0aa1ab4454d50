package follow_test

import (
	"fmt"
	"os"

	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/follow"
)

// A Reader needs no server: here it reads a history from a file, as `temporal workflow show -o json` writes it.
func ExampleReader() {
	file, err := os.Open("testdata/histories/asked-and-allowed.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = file.Close() }()
	history, err := client.HistoryFromJSON(file, client.HistoryJSONOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := follow.NewReader("my-agent", "", nil)
	for _, e := range history.GetEvents() {
		for _, event := range r.Read(e) {
			switch event.Kind {
			case follow.ApprovalPending:
				fmt.Println(event.Question.Key, string(event.Question.Input))
			case follow.ApprovalClosed:
				fmt.Println(event.Closed.Key, event.Closed.How)
			}
		}
	}
	// Output:
	// run-06dc9abe {"text":"a"}
	// run-06dc9abe allowed
}
