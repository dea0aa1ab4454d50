package fault_test

import (
	"fmt"

	"github.com/assent-dev/assent/fault"
)

// What is wrong with a configuration says where, and what would have been right.
func Example() {
	err := fmt.Errorf("start worker: %w", &fault.ConfigError{
		File: "assent.yaml", Line: 7, Column: 13, Key: "profiles.fixer.preset", Msg: `unknown preset "strickt"`,
		Allowed: []string{"strict", "standard", "open"},
	})
	fmt.Println(err)
	fmt.Println("trying again helps:", !fault.IsConfig(err))
	// Output:
	// start worker: assent.yaml:7:13: profiles.fixer.preset: unknown preset "strickt"; one of strict, standard, open
	// trying again helps: false
}
