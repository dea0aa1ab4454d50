package gitproc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/gitproc"
)

// A binary that is no git is a mistake in the configuration.
func Example() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	script := filepath.Join(dir, "git")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho hello\n"), 0o700); err != nil {
		panic(err)
	}
	_, err = gitproc.Open(context.Background(), script, filepath.Join(dir, "home"))
	var config *fault.ConfigError
	fmt.Println(errors.As(err, &config), config.Key)
	// Output:
	// true worktrees.git
}
