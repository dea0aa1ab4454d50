package endpoint_test

import (
	"fmt"

	"github.com/assent-dev/assent/model/endpoint"
)

// What is wrong with an address is found before anything is sent.
func Example() {
	_, err := endpoint.New(endpoint.Config{BaseURL: "localhost:11434/v1", Auth: endpoint.Bearer})
	fmt.Println(err)
	// Output:
	// baseURL: "localhost:11434/v1" has no scheme http or https; want one such as https://api.example.com/v1
}
