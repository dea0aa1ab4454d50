// Package blob stores bytes by their content, so that history carries references and not payloads.
//
// A Ref names exactly one sequence of bytes. Transcripts, large tool results and patches live here. The
// interface is small enough for a team to bring its own store, and package blobtest checks it; the directory driver is the
// default, the one in memory is for tests. A store that also is an Inventory can be cleaned of what no run needs.
package blob
