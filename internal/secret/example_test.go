package secret_test

import (
	"fmt"

	"github.com/assent-dev/assent/internal/secret"
)

// What is wrong with a key is told in the words of the configuration that names it.
func Example() {
	_, err := secret.Key{Env: "NO_SUCH_TOKEN"}.ReadAs("token")
	fmt.Println(err)
	// Output:
	// tokenEnv: the environment variable NO_SUCH_TOKEN is not set
}
