package demo_test

import (
	"errors"
	"fmt"

	"github.com/assent-dev/assent/internal/demo"
)

// An id is looked for before a server is asked about it.
func ExampleOpen() {
	_, err := demo.Open("fix-1234")
	fmt.Println(errors.Is(err, demo.ErrNone))
	// Output: true
}
