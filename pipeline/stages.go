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
	kind     postKind
	value    json.RawMessage
	feedback string
	// The waterfall fills in which plugin blocked, and whether it did because the call was cancelled.
	owner   string
	stopped bool
}

// Accept keeps the result, or what an inner listener replaced it with.
func Accept() PostAnswer { return PostAnswer{kind: postAccept} }

// Replace puts value, encoded as JSON, in place of the result's value. The replacement of a failed result
// is its message, and its issues and data are dropped; it stays failed, with the same code. An inner Block
// stays a Block. A value that cannot be encoded blocks.
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

// Block drops the result and hands the model feedback instead.
func Block(feedback string) PostAnswer { return PostAnswer{kind: postBlock, feedback: feedback} }

// Replacement returns the value that replaces the result, if one does.
func (a PostAnswer) Replacement() (json.RawMessage, bool) {
	return bytes.Clone(a.value), a.kind == postReplace
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
