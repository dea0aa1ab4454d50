// Package worktree holds the words and the policy of isolation: what an agent may ask for, what a
// lease on a tree is, what a collected patch says. It knows no git; the driver is worktree/git.
//
// The engine never applies a patch and never resumes an agent into another tree.
package worktree
