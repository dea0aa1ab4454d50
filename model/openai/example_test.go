package openai_test

import (
	"fmt"

	"github.com/assent-dev/assent/model/endpoint"
	"github.com/assent-dev/assent/model/openai"
)

// A server of one's own speaks Chat Completions and asks for no key.
func Example() {
	_, err := openai.New(openai.Config{API: openai.Chat, Endpoint: endpoint.Config{BaseURL: "http://127.0.0.1:11434/v1"}})
	fmt.Println(err)
	// Output:
	// <nil>
}
