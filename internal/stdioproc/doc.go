// Package stdioproc starts a program that is spoken to by its stdin and stdout and cannot outlive the worker.
//
// The program gets a closed environment (a few variables that programs need to run at all, those that were named, and
// those that were given), no descriptor but its three, and a session of its own. What it says on stderr is read always,
// so that it never blocks, and the end of it is kept for errors. When its head has ended, or at Close, everything that
// it started ends too.
//
// What each system guarantees when the worker ends without a word, by SIGKILL for instance:
//
//   - Linux: every process of the tree gets SIGKILL, also those that ignore signals, have forked twice or left the
//     session. A keeper does that: a small /bin/sh beside the program, which reads a pipe that only the worker can
//     write to and acts when it closes. It finds the tree by its session and by a mark in the environment of each process.
//     The kernel ends the head as well (a parent death signal), for machines that have no /bin/sh, or when the
//     keeper was killed. Out of reach is a process that has left the session and removed the mark from its environment,
//     or runs as another user; Close finds the first still, as long as its parent lives.
//   - macOS and other Unix: the keeper kills the process group of the head. A process that has left it stays.
//   - Windows: a job object, which ends its members when its last handle closes; what the program
//     starts in the first moment, before it is a member, stays.
//   - Other systems start nothing: [fault.NotBuiltError].
//
// Descriptors that the host program itself opened without close-on-exec, which Go never does, are inherited all the
// same: Go has no safe way to close them for one child.
//
// Called by mcp for servers that are programs.
package stdioproc
