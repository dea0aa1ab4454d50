// Package git is the worktree driver: real linked git worktrees, made, read and removed without running git.
//
// No git process starts, so no hook, filter or fsmonitor of the repository can run, and yet git agrees
// with what is on disk: `git worktree list`, `status`, `diff`, `commit`, `fsck` and `worktree remove` work in a
// tree as in one that git made. Package pack reads objects; checkout, index, status and patches are written here,
// because a tree must equal what git makes byte for byte.
//
// The invariants: nothing in the host repository changes but its worktrees/<id> folder, or the pin ref of a private
// tree, whose git directory is its own; collect reads nothing that an agent can write except the files of the tree;
// a folder is removed only if a record beside the trees says that this driver made it; what the driver cannot do
// exactly it refuses with *worktree.NeedsGitError, unless Config.Git names a git. That one then fills such a tree and
// converts what is collected, seeing nothing but a git directory of ours, frozen when the tree is made, the
// repository's objects, and copies of files.
// The configuration of the machine and of the user is not read: a tree depends on the repository alone.
//
// Everything lives below one root, mode 0700, outside every repository:
//
//	host-id          names this root, once and for all
//	state/<id>/      lock, record (the ready marker and, afterwards, the tombstone), frozen base; git and git.lock if git made it
//	trees/<id>/      the working directories
//	home/            empty, the home of git
//	trash/           renamed away, being deleted
package git
