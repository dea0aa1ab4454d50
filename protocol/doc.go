// Package protocol is every name and every payload that Assent puts on the Temporal wire.
//
// A service that starts agents and answers their questions needs the Temporal SDK and this package, nothing
// else. Whatever is in history is a type here and a golden file in testdata.
package protocol
