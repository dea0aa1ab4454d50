package activities_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

// trees is a provider with one tree.
type trees struct {
	patch   worktree.Patch
	err     error
	keeps   bool
	removed []string
}

func (p *trees) Resolve(_ context.Context, iso worktree.Isolation) (worktree.Resolved, error) {
	return worktree.Resolved{Repo: iso.Repo, Commit: "c"}, p.err
}

func (p *trees) Acquire(_ context.Context, id worktree.Identity, at worktree.Resolved) (worktree.Lease, error) {
	return worktree.Lease{ID: id.WorkflowID, Dir: "/trees/1", Resolved: at}, p.err
}
func (p *trees) Check(context.Context, worktree.Lease) error { return p.err }
func (p *trees) Collect(context.Context, worktree.Lease) (worktree.Patch, error) {
	return p.patch, p.err
}

func (p *trees) Dispose(_ context.Context, l worktree.Lease, _ bool) error {
	p.removed = append(p.removed, l.Dir)
	return p.err
}
func (p *trees) Retain(context.Context, worktree.Lease, string) (bool, error) { return p.keeps, p.err }

func treeBench(t *testing.T, p worktree.Provider) *bench {
	return newBench(t, activities.Config{Worktrees: p, HostQueue: "q@h"})
}

func TestTrees(t *testing.T) {
	p := &trees{patch: worktree.Patch{Bytes: []byte("diff"), Base: "b", Tree: "t", Warnings: []string{"w"}}}
	b := treeBench(t, p)
	var ref protocol.RefResponse
	require.NoError(t, b.call("ref", b.engine.ResolveRef, protocol.RefRequest{Isolation: worktree.Isolation{Kind: worktree.Tree, Repo: "r"}}, &ref))
	require.Equal(t, "q@h", ref.HostQueue)
	require.Equal(t, "c", ref.Resolved.Commit)
	var lease worktree.Lease
	require.NoError(t, b.call("acquire", b.engine.AcquireWorktree, protocol.AcquireRequest{Resolved: ref.Resolved}, &lease))
	require.Equal(t, "/trees/1", lease.Dir)
	var art protocol.Artifact
	require.NoError(t, b.call("collect", b.engine.CollectWorktree, protocol.CollectRequest{Lease: lease, Store: "memory"}, &art))
	require.Equal(t, protocol.ArtifactPatch, art.Kind)
	require.NotNil(t, art.Files)
	stored, err := b.store.Get(context.Background(), art.Ref)
	require.NoError(t, err)
	require.Equal(t, "diff", string(stored))
	requireType(t, b.call("collect", b.engine.CollectWorktree, protocol.CollectRequest{Store: "elsewhere"}, &art), protocol.ErrorStore, false)

	var disposed protocol.DisposeResponse
	require.NoError(t, b.call("dispose", b.engine.DisposeWorktree, protocol.DisposeRequest{Lease: lease}, &disposed))
	require.Equal(t, []string{"/trees/1"}, p.removed)
	p.keeps = true
	require.NoError(t, b.call("dispose", b.engine.DisposeWorktree, protocol.DisposeRequest{Lease: lease, Retain: "error"}, &disposed))
	require.Equal(t, "/trees/1", disposed.Retained)
	require.Len(t, p.removed, 1, "a retained tree is not removed")
	p.keeps = false
	require.NoError(t, b.call("dispose", b.engine.DisposeWorktree, protocol.DisposeRequest{Lease: lease, Retain: "error"}, &disposed))
	require.Len(t, p.removed, 2, "over the cap it goes")
}

// homely is a source that keeps something for each directory.
type homely struct {
	*remote
	leave func(dir string) error
}

func (h *homely) Leave(_ context.Context, dir string) error { return h.leave(dir) }

// What sources keep for a tree ends before its work is read, and before it is removed. One that cannot end it stops nobody.
func TestSourcesLeaveATree(t *testing.T) {
	p := &trees{patch: worktree.Patch{Bytes: []byte("diff")}}
	var left []string
	named := func(name string, leave func(string) error) tool.Source {
		r := offers("fetch_page", "Gets a page.")
		r.name = name
		return &homely{r, leave}
	}
	b := newBench(t, activities.Config{Worktrees: p, HostQueue: "q@h", Sources: []tool.Source{
		named("good", func(dir string) error {
			left = append(left, fmt.Sprintf("%s after %d", dir, len(p.removed)))
			return nil
		}),
		named("bad", func(string) error { return errors.New("no") }),
		named("panics", func(string) error { panic("boom") }),
		named("ends", func(string) error { runtime.Goexit(); return nil }),
		offers("other", "Keeps nothing."),
	}})
	var lease worktree.Lease
	require.NoError(t, b.call("acquire", b.engine.AcquireWorktree, protocol.AcquireRequest{}, &lease))
	p.err = errors.New("not now")
	require.Error(t, b.call("collect", b.engine.CollectWorktree, protocol.CollectRequest{Lease: lease, Store: "memory"}, nil))
	require.Equal(t, []string{"/trees/1 after 0"}, left)
	p.err = nil
	require.NoError(t, b.call("dispose", b.engine.DisposeWorktree, protocol.DisposeRequest{Lease: lease, Force: true}, nil))
	require.Equal(t, []string{"/trees/1 after 0", "/trees/1 after 0"}, left)
	require.Len(t, p.removed, 1)
}

// What went wrong with a tree reaches the workflow as a type that decides what happens next.
func TestErrorsOfTrees(t *testing.T) {
	for name, tc := range map[string]struct {
		provider worktree.Provider
		typ      string
	}{
		"no repositories": {nil, protocol.ErrorConfig},
		"gone":            {&trees{err: &worktree.GoneError{ID: "x", Why: "removed"}}, protocol.ErrorGone},
		"needs git":       {&trees{err: &worktree.NeedsGitError{}}, protocol.ErrorConfig},
		"lacks an object": {&trees{err: &worktree.MissingError{}}, protocol.ErrorConfig},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := activities.Config{Worktrees: tc.provider, HostQueue: "q@h"}
			b := newBench(t, cfg)
			var out any
			for _, err := range []error{
				b.call("ref", b.engine.ResolveRef, protocol.RefRequest{}, &out),
				b.call("acquire", b.engine.AcquireWorktree, protocol.AcquireRequest{}, &out),
				b.call("collect", b.engine.CollectWorktree, protocol.CollectRequest{Lease: worktree.Lease{Run: runID}}, &out),
				b.call("dispose", b.engine.DisposeWorktree, protocol.DisposeRequest{Retain: "error"}, &out),
				b.call("dispose", b.engine.DisposeWorktree, protocol.DisposeRequest{}, &out),
			} {
				requireType(t, err, tc.typ, false)
			}
		})
	}
	// A provider that does not know of privacy makes no tree for who needs it.
	open := treeBench(t, &trees{})
	requireType(t, open.call("ref", open.engine.ResolveRef, protocol.RefRequest{Isolation: worktree.Isolation{Private: true}}, new(any)), protocol.ErrorConfig, false)
	b := treeBench(t, &trees{err: errors.New("disk full")})
	var out any
	requireType(t, b.call("acquire", b.engine.AcquireWorktree, protocol.AcquireRequest{}, &out), "", true)
}

// A full disk has a type of its own, whoever says so; what is left of a tree that is gone is given back.
func TestAFullDiskAndATreeThatIsGone(t *testing.T) {
	var out any
	for _, err := range []error{&worktree.SpaceError{Free: 1, Min: 2}, &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC},
		fmt.Errorf("write: %w", syscall.EDQUOT)} {
		b := treeBench(t, &trees{err: err})
		requireType(t, b.call("acquire", b.engine.AcquireWorktree, protocol.AcquireRequest{}, &out), protocol.ErrorSpace, true)
		requireType(t, b.call("collect", b.engine.CollectWorktree, protocol.CollectRequest{Lease: worktree.Lease{Run: runID}}, &out), protocol.ErrorSpace, true)
	}
	p := &lostTree{}
	b := treeBench(t, p)
	require.NoError(t, b.call("dispose", b.engine.DisposeWorktree, protocol.DisposeRequest{Lease: worktree.Lease{Dir: "/trees/1"}, Retain: "error"}, &out))
	require.Equal(t, []string{"/trees/1"}, p.removed)
}

// lostTree is a provider whose tree was removed by hand.
type lostTree struct{ trees }

func (p *lostTree) Retain(context.Context, worktree.Lease, string) (bool, error) {
	return false, &worktree.GoneError{ID: "x", Why: "its directory was removed"}
}

// The words for a repository that runs programs name what was changed, and not all of it.
func TestARepositoryThatRunsPrograms(t *testing.T) {
	p := worktree.Patch{HostChanges: []worktree.HostChange{{Key: "refs/tags/v1", Change: "added"}}}
	collect := func() (art protocol.Artifact) {
		b := treeBench(t, &trees{patch: p})
		require.NoError(t, b.call("collect", b.engine.CollectWorktree, protocol.CollectRequest{Lease: worktree.Lease{Run: runID}}, &art))
		return art
	}
	require.Empty(t, collect().Error)
	for i := range 7 {
		p.HostChanges = append(p.HostChanges, worktree.HostChange{Key: fmt.Sprintf("hooks/%d", i), Change: "added", Dangerous: true})
	}
	says := collect().Error
	require.Contains(t, says, "hooks/0 (added), ")
	require.Contains(t, says, "hooks/4 (added) and 2 more")
	require.NotContains(t, says, "refs/tags")
}

// An artifact of ten thousand files fits into history, and says what it leaves out.
func TestArtifactsAreBounded(t *testing.T) {
	p := worktree.Patch{Bytes: []byte("diff")}
	for i := range 10_000 {
		path := fmt.Sprintf("%s/%d", strings.Repeat("d", 100), i)
		p.Files = append(p.Files, worktree.File{Path: path, Status: "added"})
		p.Ignored = append(p.Ignored, path)
		p.Warnings = append(p.Warnings, path)
		p.HostChanges = append(p.HostChanges, worktree.HostChange{Key: path, Change: "added", Dangerous: i == 9999})
	}
	b := treeBench(t, &trees{patch: p})
	var art protocol.Artifact
	require.NoError(t, b.call("collect", b.engine.CollectWorktree, protocol.CollectRequest{Lease: worktree.Lease{Run: runID}}, &art))
	require.LessOrEqual(t, len(raw(art)), 257<<10)
	require.Contains(t, art.Warnings, "10000 ignored paths are not listed")
	require.Contains(t, strings.Join(art.Warnings, "\n"), "more files are not listed")
	require.True(t, art.HostChanges[0].Dangerous, "what can run a program is told first")
}

// What an agent has given a name of megabytes does not cost it its patch.
func TestArtifactsOfLongNamesAreBounded(t *testing.T) {
	p := worktree.Patch{Bytes: []byte("diff")}
	long := strings.Repeat("k", 3<<20)
	for i := range 20 {
		p.Files = append(p.Files, worktree.File{Path: strings.Repeat("\x01", 4000), Status: "added"})
		p.Warnings = append(p.Warnings, long)
		p.HostChanges = append(p.HostChanges, worktree.HostChange{Key: long, Change: "added", Dangerous: i == 19})
	}
	b := treeBench(t, &trees{patch: p})
	var art protocol.Artifact
	require.NoError(t, b.call("collect", b.engine.CollectWorktree, protocol.CollectRequest{Lease: worktree.Lease{Run: runID}}, &art))
	require.LessOrEqual(t, len(raw(art)), 512<<10)
	require.True(t, art.HostChanges[0].Dangerous)
	require.Contains(t, strings.Join(art.Warnings, "\n"), "10 more files are not listed")
}

// A profile's privacy holds whatever an input asks for; an input may ask for more.
func TestPrivacyIsAddedAndNeverTaken(t *testing.T) {
	tree := func(private bool) worktree.Isolation {
		return worktree.Isolation{Kind: worktree.Tree, Repo: "r", Private: private}
	}
	for name, tc := range map[string]struct {
		profile worktree.Isolation
		input   *worktree.Isolation
		private bool
		refused string
	}{
		"neither":             {profile: tree(false)},
		"profile alone":       {profile: tree(true), private: true},
		"input alone":         {input: &worktree.Isolation{Kind: worktree.Tree, Repo: "r", Private: true}, private: true},
		"input asks for less": {profile: tree(true), input: &worktree.Isolation{Kind: worktree.Tree, Repo: "other"}, private: true},
		"input asks for more": {profile: tree(false), input: &worktree.Isolation{Kind: worktree.Tree, Private: true}, private: true},
		"input without tree":  {profile: tree(true), input: &worktree.Isolation{Kind: worktree.None}, refused: `profile "p" is private`},
		"input read only":     {profile: tree(true), input: &worktree.Isolation{Kind: worktree.Readonly}, refused: `profile "p" is private`},
		"private and no tree": {input: &worktree.Isolation{Private: true}, refused: "goes with kind worktree only"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, activities.Config{Models: map[string]model.Model{"m": text("hi")}, Worktrees: &trees{}, HostQueue: "q@h",
				Profiles: map[string]config.Profile{"p": {Name: "p", Isolation: tc.profile}}})
			var resp protocol.ResolveResponse
			in := protocol.AgentInput{Prompt: "go", AgentType: "p", Models: []string{"m:x"}, Isolation: tc.input}
			err := b.call(protocol.ActivityResolveToolset, b.engine.ResolveToolset, protocol.ResolveRequest{Input: in}, &resp)
			if tc.refused != "" {
				requireType(t, err, protocol.ErrorConfig, false)
				require.ErrorContains(t, err, tc.refused)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.private, resp.Isolation.Private)
		})
	}
}
