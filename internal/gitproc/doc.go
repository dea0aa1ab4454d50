// Package gitproc runs one configured git binary, and nothing of the repository with it.
//
// Every process gets a closed environment: none of the caller's variables, an empty HOME, no configuration of the
// machine or the user, no hooks, no fsmonitor, no pager, no prompt, no network. It is the head of a process group
// of its own, its output is bounded, and a call does not return before the whole group is dead.
//
// A worker can be killed, and then git and its children go on writing. A call may therefore name a lock file,
// which every process of the call inherits open: as long as one of them lives, the lock is held. End takes it
// from whoever is left, and the next call on the same lock does that first. The caller makes sure that no two
// living workers use one lock file at the same time.
//
// Called by worktree/git for repositories that its own reader refuses.
package gitproc
