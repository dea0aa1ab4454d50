// Package transcript is the conversation of an agent as it is stored: a chain of nodes in a blob store.
//
// A node holds the messages that one turn added and the reference of the node before it, so each message is stored once and
// the last reference names the whole conversation: nobody can change a word of it and keep the reference. A compaction is
// a node of its own, which holds a summary and says what it stands for; what it replaces for the model stays in the chain.
//
// The engine appends; commands and a team's own programs read, without the engine and without a worker.
package transcript
