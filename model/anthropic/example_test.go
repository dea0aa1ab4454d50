package anthropic_test

import (
	"fmt"

	"github.com/assent-dev/assent/model/anthropic"
	"github.com/assent-dev/assent/model/endpoint"
)

// A key that is not there is found when the driver is made.
func Example() {
	_, err := anthropic.New(anthropic.Config{Endpoint: endpoint.Config{Key: endpoint.Key{Env: "NO_SUCH_KEY"}}})
	fmt.Println(err)
	// Output:
	// keyEnv: the environment variable NO_SUCH_KEY is not set
}
