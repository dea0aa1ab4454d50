package verify_test

import (
	"fmt"
	"os"

	"github.com/assent-dev/assent/internal/verify"
)

// A history file becomes a report. One in which a decision is missing has a finding at the call that ran without it.
func Example() {
	f, err := os.Open("../../workflows/testdata/histories/edited.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	events, err := verify.Read(f)
	if err != nil {
		fmt.Println(err)
		return
	}
	r := verify.History(events, verify.Options{})
	for _, c := range r.Calls {
		fmt.Println(c.CallID, c.Tool, c.Verdict, c.Key, c.Edited)
	}
	fmt.Println(r.State, len(r.Findings), "findings")
	// Output:
	// t1.1 run ask run-06dc9abe true
	// gated 0 findings
}
