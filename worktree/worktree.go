package worktree

import (
	"context"
	"fmt"
	"io"
)

// Kind says where an agent's tools run.
type Kind string

const (
	// None runs tools in the worker's directory, with no managed lifecycle.
	None Kind = "none"
	// Readonly runs tools in the worker's directory and denies write and destructive tools, as a rule and as a guard.
	Readonly Kind = "readonly"
	// Tree runs tools in a linked git worktree: acquire, work, collect, dispose.
	Tree Kind = "worktree"
)

// Isolation is what an agent asks for. The zero value means None.
type Isolation struct {
	Kind Kind `json:"kind,omitempty"`
	// Repo is a name from the worker's configured repositories, never a path.
	Repo string `json:"repo,omitempty"`
	// Ref is a git revision; empty means the repository's HEAD.
	Ref string `json:"ref,omitempty"`
	// Private gives the tree a git directory of its own, so that nothing an agent does with git reaches the
	// repository. A worker may force it; nobody can refuse it.
	Private bool `json:"private,omitempty"`
}

// Resolved is a revision pinned before anything is created, so that a retry never sees a moved ref.
type Resolved struct {
	// Repo echoes the repository's configured name.
	Repo string `json:"repo"`
	// Ref is the revision as asked, "HEAD" when none was.
	Ref string `json:"ref"`
	// Commit and Tree are hex object ids.
	Commit string `json:"commit"`
	Tree   string `json:"tree"`
	// Private is what was asked for, or what the worker forces.
	Private bool `json:"private,omitempty"`
}

// Identity names one tree. It is built from namespace, workflow id, span and agent attempt, never from an
// activity attempt, so that a retried activity finds the tree it made.
type Identity struct {
	Namespace  string `json:"namespace"`
	WorkflowID string `json:"workflowId"`
	// Attempt counts the agent's restarts, from 0.
	Attempt int `json:"attempt"`
}

// Lease is a tree that exists. It holds paths of the host that made it.
type Lease struct {
	// ID is the directory-safe name derived from Identity.
	ID string `json:"id"`
	// Dir is the absolute path of the working directory.
	Dir      string   `json:"dir"`
	Resolved Resolved `json:"resolved"`
	// Nonce tells this tree from an earlier or later one of the same identity.
	Nonce string `json:"nonce"`
	// Run is the workflow run that works in the tree: the engine sets it, and providers pass it on as it is. A run that was
	// reset is another one, and must not meet what came after.
	Run string `json:"run,omitempty"`
}

// File is one changed path of a patch.
type File struct {
	// Path is quoted as git does it if it is no UTF-8.
	Path string `json:"path"`
	// Status is one of added, modified, deleted, type-changed, renamed.
	Status string `json:"status"`
	// From is the old path of a rename.
	From   string `json:"from,omitempty"`
	Binary bool   `json:"binary,omitempty"`
	// Large files are not in the patch but beside it.
	Large bool `json:"large,omitempty"`
	// Insertions and Deletions count lines; both are zero for binary files.
	Insertions int `json:"insertions"`
	Deletions  int `json:"deletions"`
}

// HostChange is a change of the shared repository seen between acquire and collect.
type HostChange struct {
	// Key is what changed, for example `config core.hooksPath` or `refs/tags/v1`.
	Key string `json:"key"`
	// Change is one of added, changed, removed.
	Change string `json:"change"`
	// Dangerous is true for keys that make git run a program.
	Dangerous bool `json:"dangerous,omitempty"`
}

// LargeFile is a changed file that has no room in a patch. It is written in place of whatever has its path once the
// patch is applied.
type LargeFile struct {
	Path string `json:"path"`
	// Mode is git's: 100644 or 100755.
	Mode string `json:"mode"`
	// Size is in bytes and ID the hex object id of the blob that git stores.
	Size int64  `json:"size"`
	ID   string `json:"id"`
	// Copy writes the content to w. The tree must still be there. A *ChangingError reports that it is not what was
	// collected; what w got is then worthless.
	Copy func(ctx context.Context, w io.Writer) error `json:"-"`
}

// Patch is everything between base and disk at the time of collect. `git apply --whitespace=nowarn` of Bytes
// on a clean checkout of Base, and then the files of Large in their places, yields Tree.
type Patch struct {
	Bytes []byte `json:"-"`
	// Base is the commit the tree started from; Tree is the id of the result tree.
	Base        string       `json:"base"`
	Tree        string       `json:"tree"`
	Files       []File       `json:"files"`
	Large       []LargeFile  `json:"large,omitempty"`
	Warnings    []string     `json:"warnings,omitempty"`
	Ignored     []string     `json:"ignored,omitempty"`
	HostChanges []HostChange `json:"hostChanges,omitempty"`
}

// Provider manages trees on one host. All methods are idempotent, so that they can be activities that run
// at least once and are killed anywhere. Every implementation's methods are safe for concurrent use.
type Provider interface {
	// Resolve pins a revision of a configured repository. Unknown repository, not a repository, no commit
	// yet, unknown ref: *fault.ConfigError.
	Resolve(ctx context.Context, iso Isolation) (Resolved, error)
	// Acquire makes the tree, or returns the one that this identity already has. A tree that once existed
	// and is gone is a *GoneError, never silently a fresh one: acquire of the same identity after Dispose too.
	// A repository that the driver does not serve is a *NeedsGitError, a full disk a *SpaceError.
	Acquire(ctx context.Context, id Identity, at Resolved) (Lease, error)
	// Check returns nil if the lease's tree is still there and is the same one, else a *GoneError.
	Check(ctx context.Context, l Lease) error
	// Collect reads the tree and returns the patch. The tree is kept. A tree that something goes on writing to is
	// a *ChangingError, and stays uncollected.
	Collect(ctx context.Context, l Lease) (Patch, error)
	// Dispose removes a collected tree. An uncollected one is refused with *NotCollectedError unless force.
	// Disposing a tree that is gone is no error.
	Dispose(ctx context.Context, l Lease, force bool) error
	// Retain marks a failed agent's tree to be kept for inspection, within the pin cap, and reports whether it was
	// kept. A tree that was not kept is the caller's to dispose of; one that was may be evicted by a later Retain.
	Retain(ctx context.Context, l Lease, why string) (bool, error)
}

// GoneError reports that a lease's tree no longer exists or is another one.
type GoneError struct {
	ID, Why string
}

func (e *GoneError) Error() string { return fmt.Sprintf("worktree %q is gone: %s", e.ID, e.Why) }

// NotCollectedError reports a dispose of a tree whose work was not collected.
type NotCollectedError struct {
	ID string
	// Changed is true for a tree that was collected and has changed since.
	Changed bool
}

func (e *NotCollectedError) Error() string {
	if e.Changed {
		return fmt.Sprintf("worktree %q has changed since it was collected", e.ID)
	}
	return fmt.Sprintf("worktree %q holds work that was not collected", e.ID)
}

// BusyError reports a tree whose lock another process holds: it is being made, collected or removed.
type BusyError struct {
	ID string
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("worktree %q is in use by another process", e.ID)
}

// NeedsGitError reports a repository that the built-in driver refuses to guess about.
type NeedsGitError struct {
	// Reason names the feature, for example `filter driver "lfs"`.
	Reason string
}

func (e *NeedsGitError) Error() string {
	return "repository needs the git program, which worktrees.git can name: " + e.Reason
}

// MissingError reports an object that a tree needs and the repository lacks, as a partial clone does. Nothing is
// fetched for an agent: fetch the object into the repository first.
type MissingError struct {
	// Object is its full id; Path is where the tree has it, empty if that is not known.
	Object, Path string
}

func (e *MissingError) Error() string {
	if e.Path != "" {
		return fmt.Sprintf("repository lacks object %s of %q", e.Object, e.Path)
	}
	return "repository lacks object " + e.Object
}

// SpaceError reports that there is no room for another tree. Trying again helps once there is.
type SpaceError struct {
	// Free and Min are bytes of the disk: what is free and what must be. Both are zero if it is the other bound.
	Free, Min int64
	// Used, Want and Max are bytes of trees: what the Trees that are there take, what another one is expected to, and
	// what all may take together.
	Used, Want, Max int64
	Trees           int
}

func (e *SpaceError) Error() string {
	if e.Max > 0 {
		return fmt.Sprintf("no room for a worktree: %d that are there take %d bytes, another takes %d, and maxBytes is %d",
			e.Trees, e.Used, e.Want, e.Max)
	}
	return fmt.Sprintf("no room for a worktree: %d bytes are free on the disk, and minFree is %d", e.Free, e.Min)
}

// Sweeper is a Provider that has something to look after. A worker calls Sweep when it starts and hourly.
type Sweeper interface {
	// Sweep finishes what crashed workers left and returns the ids of the trees it finished. A tree that was given out is
	// not touched.
	Sweep(ctx context.Context) ([]string, error)
}

// ChangingError reports a collect that was given up because something goes on writing to the tree.
type ChangingError struct {
	// Path is the file or folder that did not hold still.
	Path string
}

func (e *ChangingError) Error() string {
	return fmt.Sprintf("%q keeps changing while it is read", e.Path)
}
