package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

// Answer is what stage 1, and a person asked, say about a call. The zero Answer denies.
type Answer struct {
	Verdict permission.Verdict
	// Reason says why, for people; it reaches the model when the call is refused.
	Reason string
}

// Allow lets the call pass, as far as this listener is concerned.
func Allow() Answer { return Answer{Verdict: permission.Allow} }

// Deny refuses the call.
func Deny(reason string) Answer { return Answer{Verdict: permission.Deny, Reason: reason} }

// Ask puts the call to a person.
func Ask(reason string) Answer { return Answer{Verdict: permission.Ask, Reason: reason} }

// Listener decides in stage 1. Returning next(ctx) passes the question on; returning anything else without
// calling next skips the listeners inside, never the chain: the final verdict is the strictest of what
// listeners returned and what the chain says. An error, a panic or a second call of next denies.
type Listener func(ctx context.Context, call Call, next func(context.Context) Answer) (Answer, error)

// Guard refuses a call by returning an error, whose text is the reason; nil is silence. It cannot allow.
// Guards run before anyone is asked and again at the moment of execution, so they must be free of effects.
type Guard func(ctx context.Context, call Call) error

// Wrapper holds the execution of a call in stage 3. It may call next as often as it likes before it returns,
// and each call runs everything inside again. next never panics and reports failures as codes. An error, a
// panic, or a Result without a code of the closed list is TOOL_ERROR.
type Wrapper func(ctx context.Context, call Call, next func(context.Context) tool.Result) (tool.Result, error)

// Post judges the result of a call in stage 4, error texts included. It gets the result as stage 3 left it;
// next tells what the listeners inside made of it. An error, a panic, the zero PostAnswer or a second call
// of next is BLOCKED and drops the result.
type Post func(ctx context.Context, call Call, result tool.Result, next func(context.Context) PostAnswer) (PostAnswer, error)

// Observer sees the outcome of a call in stage 5. Its failure is logged and changes nothing.
// Its context outlives the cancellation of the call, up to Config.ObserverTimeout.
type Observer func(ctx context.Context, call Call, result tool.Result) error

// Approver answers a call that has to be asked about. Exactly permission.Allow without an error allows;
// ErrUnavailable leaves the question to people, where there are some; everything else denies. An engine asks an
// approver again when its worker was lost, so it must be free of effects.
type Approver func(ctx context.Context, call Call, question permission.Decision) (Answer, error)

type postKind uint8

const (
	postNothing postKind = iota
	postAccept
	postReplace
	postBlock
)

// PostAnswer is what stage 4 says about a result. Only Accept, Replace and Block make one; the zero value
// is no answer and withholds the result.
type PostAnswer struct {
	kind  postKind
	value json.RawMessage
	// result is what ReplaceResult was given; then value is unused.
	result   *tool.Result
	feedback string
	// The waterfall fills in which plugin replaced or blocked, and whether it did because the call was cancelled.
	owner   string
	stopped bool
}

// Accept keeps the result, or what an inner listener replaced it with.
func Accept() PostAnswer { return PostAnswer{kind: postAccept} }

// Replace puts value, encoded as JSON, in place of the result's value. The replacement of a failed result
// is its message, and its issues and data are dropped, for which there is ReplaceResult; it stays failed, with the
// same code. An inner Block stays a Block. A value that cannot be encoded blocks.
func Replace(value any) PostAnswer {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_, err := contain(func() (struct{}, error) { return struct{}{}, enc.Encode(value) })
	if err != nil {
		// The text of err may quote the value, which is what a replacement wants to hide.
		return Block("result withheld: its replacement is not JSON")
	}
	return PostAnswer{kind: postReplace, value: bytes.TrimSuffix(b.Bytes(), []byte("\n"))}
}

// ReplaceResult puts what r says in place of what the result says: the value and preview of one that is OK, else
// message, by, issues and data. What it is stays: its code, reason and whether it started. So r is best made of
// the result by changing texts. An inner Block stays a Block. An r that is OK where the result is not, or the
// other way round, or whose value or data is not JSON, blocks.
func ReplaceResult(r tool.Result) PostAnswer {
	if badValue(r) || r.Failure != nil && len(r.Failure.Data) > 0 && !json.Valid(r.Failure.Data) {
		return Block("result withheld: its replacement is not JSON")
	}
	r = cloneResult(r)
	return PostAnswer{kind: postReplace, result: &r}
}

// Block drops the result and hands the model feedback instead.
func Block(feedback string) PostAnswer { return PostAnswer{kind: postBlock, feedback: feedback} }

// Replacement returns the value that replaces the result, if one does: of a failed result that ReplaceResult
// replaced, its message.
func (a PostAnswer) Replacement() (json.RawMessage, bool) {
	if a.kind != postReplace || a.result == nil {
		return bytes.Clone(a.value), a.kind == postReplace
	}
	if a.result.Code == tool.OK {
		return bytes.Clone(a.result.Value), true
	}
	message := ""
	if a.result.Failure != nil {
		message = a.result.Failure.Message
	}
	text, _ := json.Marshal(message)
	return text, true
}

// Apply returns what the answer makes of the result that its listener was given. It is false if nothing of that
// is left: the result is blocked, or this is no answer.
func (a PostAnswer) Apply(result tool.Result) (tool.Result, bool) {
	switch a.kind {
	case postAccept:
		return cloneResult(result), true
	case postReplace:
		return replaced(cloneResult(result), a)
	}
	return tool.Result{}, false
}

// Blocked returns the feedback, if the result is blocked.
func (a PostAnswer) Blocked() (string, bool) { return a.feedback, a.kind == postBlock }

// Plugin is a set of registrations with one life. Plugins never import each other.
type Plugin interface {
	// Name is for people: it tells in logs and results whose listener acted.
	Name() string
	// Mount registers on the scope. An error or a panic rolls everything back.
	Mount(*Scope) error
}

// PluginFunc makes a Plugin of a function.
func PluginFunc(name string, mount func(*Scope) error) Plugin { return funcPlugin{name, mount} }

type funcPlugin struct {
	name  string
	mount func(*Scope) error
}

func (f funcPlugin) Name() string { return f.name }

func (f funcPlugin) Mount(s *Scope) error {
	if f.mount == nil {
		return errors.New("the mount function is nil")
	}
	return f.mount(s)
}
