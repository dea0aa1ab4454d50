// Package garbage finds the blobs that no run needs. It asks the server for the runs that are open or closed a short while
// ago, reads what their histories refer to, and what those blobs refer to in turn.
//
// It errs on the side of keeping: any text that could be the hash of a blob counts as a reference, so it knows no format of
// a payload or a transcript and no new one can escape it. What cannot be read, listed or asked is an error, after which
// nothing is known, and nothing may be deleted.
package garbage
