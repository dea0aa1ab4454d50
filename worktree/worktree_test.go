package worktree_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/worktree"
)

func TestErrorsSayWhatHappened(t *testing.T) {
	require.EqualError(t, &worktree.NotCollectedError{ID: "a"}, `worktree "a" holds work that was not collected`)
	require.EqualError(t, &worktree.NeedsGitError{Reason: "grafts"}, "repository needs the git program, which worktrees.git can name: grafts")
	require.EqualError(t, &worktree.MissingError{Object: "ab"}, "repository lacks object ab")
	require.EqualError(t, &worktree.MissingError{Object: "ab", Path: "a b"}, `repository lacks object ab of "a b"`)
	require.EqualError(t, &worktree.SpaceError{Free: 1, Min: 2}, "no room for a worktree: 1 bytes are free on the disk, and minFree is 2")
	require.EqualError(t, &worktree.SpaceError{Used: 9, Want: 3, Max: 10, Trees: 2},
		"no room for a worktree: 2 that are there take 9 bytes, another takes 3, and maxBytes is 10")
	require.EqualError(t, &worktree.NotCollectedError{ID: "a"}, `worktree "a" holds work that was not collected`)
	require.EqualError(t, &worktree.NotCollectedError{ID: "a", Changed: true}, `worktree "a" has changed since it was collected`)
	require.EqualError(t, &worktree.BusyError{ID: "a"}, `worktree "a" is in use by another process`)
	require.EqualError(t, &worktree.ChangingError{Path: "a\n"}, `"a\n" keeps changing while it is read`)
}
