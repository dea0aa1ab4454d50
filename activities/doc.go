// Package activities is the side-effect half of Assent: it decides, admits, generates, runs tools and handles trees.
//
// An Engine is everything a worker knows: models, profiles, policy, pipeline, blobs, worktrees. Its inbound
// interceptor is the other end of the gate: a tool runs only with a grant that the server's own facts confirm.
// Everything here may run more than once; what counts is what history recorded.
package activities
