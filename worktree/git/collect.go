package git

import (
	"context"
	"os"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/worktree"
)

func (d *Driver) Collect(ctx context.Context, l worktree.Lease) (worktree.Patch, error) {
	return worktree.Patch{}, &fault.NotBuiltError{Feature: "collecting a worktree"}
}

func (d *Driver) Retain(ctx context.Context, l worktree.Lease, why string) (bool, error) {
	return false, &fault.NotBuiltError{Feature: "retaining a worktree"}
}

func readNames(r *os.Root) ([]string, error) {
	f, err := r.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}
