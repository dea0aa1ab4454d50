package protocol

import (
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

// Words says where the failure of a refused call may hold the words of a person, a hook or a guard. A server keeps the
// messages of failures in plain text, and their details too unless the team has a failure converter, whatever a codec
// encrypts.
type Words int

// The zero value is for a team that encrypts and of whose failures nothing is known.
const (
	NoWords Words = iota
	// WordsInDetails is for a team with a failure converter.
	WordsInDetails
	// AllWords is for a team that does not encrypt.
	AllWords
)

// Refusal returns the message and the details of an ErrorDenied.
func Refusal(r tool.Result, w Words) (string, tool.Result) {
	full := string(r.Code)
	if r.Failure != nil {
		full = r.Failure.Message
	}
	message := plainly(r)
	switch w {
	case AllWords:
		return full, r
	case WordsInDetails:
		return message, r
	}
	f := tool.Failure{Message: message}
	if r.Failure != nil {
		f.Reason, f.By, f.Retry, f.Started = r.Failure.Reason, r.Failure.By, r.Failure.Retry, r.Failure.Started
	}
	return message, tool.Result{Code: r.Code, Failure: &f}
}

// plainly says why a call was refused in words of ours alone.
func plainly(r tool.Result) string {
	if r.Failure == nil {
		return "the call was refused: " + string(r.Code)
	}
	f := r.Failure
	switch f.Reason {
	case tool.ByGrant, tool.ByExpiry:
		return f.Message
	case tool.ByRule:
		if f.By == string(permission.ByDenyRule) {
			// A rule is the team's own configuration.
			return f.Message
		}
		return "denied by policy: " + f.By
	case tool.ByPerson:
		return "a person denied this call"
	case tool.ByRevoke:
		return "the question was withdrawn"
	case tool.ByCancel:
		return "the run was cancelled before the call started"
	case tool.ByAbandon:
		return "the question was dropped"
	case tool.ByGuard:
		return "denied by a guard"
	case tool.ByListener:
		return "denied by a listener"
	}
	return "the call was refused: " + string(r.Code)
}
