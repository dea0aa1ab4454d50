// Package approval holds the words and the rules of asking: the open question, the answer, and the ledger
// that lets the first answer close a question and nothing open it again.
//
// It is pure and waits for nobody: the workflow that owns a Ledger does the waiting. Everything that is not an
// explicit allow of a pending question denies or changes nothing, and leaves a visible note.
package approval
