package worktree_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/assent-dev/assent/worktree"
)

// An agent asks for a tree by the name of a configured repository; a tree that is gone is a typed error.
func Example() {
	var iso worktree.Isolation
	fmt.Println(json.Unmarshal([]byte(`{"kind":"worktree","repo":"shop","ref":"main"}`), &iso), iso.Kind, iso.Repo, iso.Ref)

	var err error = &worktree.GoneError{ID: "fix-tests-0-1f", Why: "it was disposed of"}
	var gone *worktree.GoneError
	fmt.Println(errors.As(err, &gone), err)
	// Output:
	// <nil> worktree shop main
	// true worktree "fix-tests-0-1f" is gone: it was disposed of
}
