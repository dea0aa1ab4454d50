// Package follow turns the history of a workflow into the events of an agent, each exactly once.
//
// It needs the server and nothing else: no worker has to run, because every decision, question, answer and result is
// in history. Start follows a run through a channel, Follow through an iterator; both go on with the run that a run was
// continued as or reset to. A Reader reads a history that somebody has, such as one from a file. The JSON of an Event is
// what `-o json` prints, one line each; members are only ever added.
//
// The key of a question is not in history before its answer. It follows from the questions before it, so a ledger of
// this package, fed in the workflow's order, issues the same one.
package follow
