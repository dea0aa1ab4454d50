package e2e

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worktree"
)

// An agent that asks for privacy does with git what it likes; its patch is whole, nothing of the host has changed, and
// history says that the tree was private.
func TestPrivateWorktree(t *testing.T) {
	t.Parallel()
	repo := newRepo(t)
	before := digestTree(t, repo)
	w := newWorld(t)
	s := setup{Repo: repo, Root: filepath.Join(t.TempDir(), "trees"), Keys: true, Script: `
turns:
  - calls: [{tool: shell, args: {command: "git config core.hooksPath /evil && git config user.name a && git config user.email a@example.com && git tag v9 && git checkout -q -b agent && echo more >> a.txt && git stash -q && git stash pop -q && git commit -qam work && git gc -q --prune=now && git log --format=%s"}}]
  - say: done
    expect: {lastResult: {code: OK, contains: 'work\nbase'}}
`}
	w.work(s)
	w.start(protocol.AgentInput{Isolation: &worktree.Isolation{Kind: worktree.Tree, Private: true}})
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Len(t, res.Artifacts, 1)
	a := res.Artifacts[0]
	require.Len(t, a.Files, 1)
	require.Equal(t, "a.txt", a.Files[0].Path)
	require.Empty(t, a.HostChanges)
	require.Equal(t, before, digestTree(t, repo), "the host is untouched")
	var req protocol.AcquireRequest
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(w.scheduledAs(protocol.ActivityAcquireWorktree)[0].GetInput(), &req))
	require.True(t, req.Resolved.Private)
}
