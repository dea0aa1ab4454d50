package tool

import (
	"encoding/json"

	"github.com/assent-dev/assent/blob"
)

// Code says how a call ended. The list is closed.
type Code string

// The codes of a Result.
const (
	OK               Code = "OK"
	UnknownTool      Code = "UNKNOWN_TOOL"
	InvalidArguments Code = "INVALID_ARGUMENTS"
	Denied           Code = "DENIED"
	Blocked          Code = "BLOCKED"
	ToolError        Code = "TOOL_ERROR"
	ToolTimeout      Code = "TOOL_TIMEOUT"
	Aborted          Code = "ABORTED"
	NonSerializable  Code = "NON_SERIALIZABLE"
	ContractDrift    Code = "CONTRACT_DRIFT"
	Skipped          Code = "SKIPPED"
	EffectUnknown    Code = "EFFECT_UNKNOWN"
	EnvironmentLost  Code = "ENVIRONMENT_LOST"
)

// Reason tells refusals apart that share a code.
type Reason string

// The reasons of a DENIED result.
const (
	ByRule     Reason = "rule"
	ByGuard    Reason = "guard"
	ByPerson   Reason = "person"
	ByExpiry   Reason = "expired"
	ByCancel   Reason = "cancelled"
	ByRevoke   Reason = "revoked"
	ByAbandon  Reason = "abandoned"
	ByGrant    Reason = "grant"
	ByFailure  Reason = "failure"
	ByListener Reason = "listener"
)

// Result is the one way out of a call. Failures that a model can act on are codes here, never Go errors.
type Result struct {
	Code Code `json:"code"`
	// Value is the JSON value of an OK result; ValueRef holds it instead when it is too large for history.
	Value    json.RawMessage `json:"value,omitempty"`
	ValueRef *blob.Ref       `json:"valueRef,omitempty"`
	// Preview is the beginning of a value that is not inline, for people who read history.
	Preview string `json:"preview,omitempty"`
	// Images belong to an OK result beside its value.
	Images []Image `json:"images,omitempty"`
	// Failure is set unless Code is OK.
	Failure *Failure `json:"failure,omitempty"`
	// FinalInput is what really ran when the model's arguments were changed by a hook or a person.
	FinalInput json.RawMessage `json:"finalInput,omitempty"`
}

// Failure says what the model, or a person reading history, can do about a call that did not succeed.
type Failure struct {
	Message string `json:"message"`
	Reason  Reason `json:"reason,omitempty"`
	// By names the rule, guard or person that refused.
	By     string          `json:"by,omitempty"`
	Issues []Issue         `json:"issues,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
	// Retry is true when a tool asked the model to try again with other arguments (ModelRetry).
	Retry bool `json:"retry,omitempty"`
	// Started is true when the body had begun before the call was aborted.
	Started bool `json:"started,omitempty"`
}

// Issue is one place where arguments do not fit the schema.
type Issue struct {
	// Pointer is the JSON pointer of the offending value; empty is the whole argument.
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}

// Fail returns a Result with a code other than OK.
func Fail(code Code, message string) Result {
	return Result{Code: code, Failure: &Failure{Message: message}}
}

// Deny returns a DENIED Result.
func Deny(reason Reason, by, message string) Result {
	return Result{Code: Denied, Failure: &Failure{Message: message, Reason: reason, By: by}}
}

// IsOK reports whether the call succeeded.
func (r Result) IsOK() bool { return r.Code == OK }
