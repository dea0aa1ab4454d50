// Package fault says what failed and whether trying again can help.
//
// Every class of error that decides something (an exit code, a retry, a refusal) is a type here or in
// the package that owns it; nothing in Assent matches on error text. Every other package may import this one.
package fault
