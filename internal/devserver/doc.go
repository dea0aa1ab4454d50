// Package devserver finds a Temporal development server, builds it if there is none, and runs it as a child process.
//
// The demo, the tests and every developer's machine need a Temporal server that is nobody else's: on free ports, with
// a database of its own, gone when its owner is. [Locate] finds the program and [Start] runs it. The program is the
// real Temporal command if it is on PATH, else the nested module devserver of this repository, compiled once per
// machine. Both take the same arguments, and a [Server] behaves the same with either.
//
// ASSENT_DEVSERVER decides otherwise: `build` ignores PATH, and a path names the program.
//
// A server never outlives the process that started it where the system can promise that (Linux), unless it was
// started with Detach. It never touches a server, a port or a profile that the user has.
//
// Callers are cmd/starter and, through package devservertest, the tests.
package devserver
