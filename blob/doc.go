// Package blob stores bytes by their content, so that history carries references and not payloads.
//
// A Ref names exactly one sequence of bytes. Transcripts, large tool results and patches live here. The
// interface is small enough for a team to bring its own store; the directory driver is the default.
package blob
