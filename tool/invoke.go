package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/canonjson"
)

// maxMessage bounds the text of a failure in bytes; history is no place for a tool's whole output.
const maxMessage = 16 << 10

// ModelRetry is an error with which a tool asks the model to try again with other arguments. Data is any JSON
// value that helps it.
type ModelRetry struct {
	Message string
	Data    any
}

func (e ModelRetry) Error() string { return e.Message }

// Refused is an error that says policy refused something while the tool ran, such as a command that a shell was about
// to execute. Its Result is DENIED, with Started set: what came before it has happened.
type Refused interface {
	error
	// RefusedBy names who refused, for example a rule.
	RefusedBy() string
}

// Unsure is an error with which a tool says that it cannot know whether its effect has happened, such as a connection that
// broke before the answer came. Its Result is EFFECT_UNKNOWN, with Started set.
type Unsure struct{ Message string }

func (e Unsure) Error() string { return e.Message }

// invalidArguments carries issues from the decoding inside a body to the Result.
type invalidArguments []Issue

func (invalidArguments) Error() string { return "arguments do not fit the schema" }

// Invoke runs the tool once and returns its one Result; it never panics and never runs fn on arguments that do
// not pass Validate. call may be nil. Cancellation of ctx is ABORTED, with Started set once fn has begun; the
// expiry of a deadline is the caller's to name, here it is the TOOL_ERROR that fn makes of it.
func (d *Def) Invoke(ctx context.Context, call *Context, input json.RawMessage) Result {
	canonical, issues := d.accept(input)
	if issues != nil {
		return invalid(issues)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return Fail(Aborted, "the call was cancelled before the tool started")
	}
	own := Context{}
	if call != nil {
		own = *call
		own.images = nil
	}
	if own.Log == nil {
		own.Log = slog.New(slog.DiscardHandler)
	}
	value, err := d.execute(ctx, &own, input, canonical)
	if err != nil {
		return failure(ctx, err)
	}
	r := encode(value)
	if r.IsOK() {
		r.Images = own.images
	}
	return r
}

// execute runs the body where the tool's executor says and turns a panic into an error.
func (d *Def) execute(ctx context.Context, call *Context, input, canonical json.RawMessage) (value any, err error) {
	defer func() {
		if p := recover(); p != nil {
			// The stack is for the operator. The text is for the result alone, which listeners may redact: no log is.
			call.Log.Error("tool panicked", "tool", d.info.Name, "panic", fault.PanicKind(p), "stack", string(debug.Stack()))
			value, err = nil, fmt.Errorf("the tool panicked: %v", p)
		}
	}()
	body := func(ctx context.Context) (any, error) { return d.run(ctx, call, input, canonical) }
	if runner, _ := runnerOf(d.info.Executor); runner != nil {
		return runner.Run(ctx, d.info.clone(), call, input, body)
	}
	return body(ctx)
}

// failure makes the Result of an error that the body returned, whatever the methods of the error do.
func failure(ctx context.Context, err error) (r Result) {
	defer func() {
		if p := recover(); p != nil {
			r = Fail(ToolError, fmt.Sprintf("an error of type %T that cannot be read", err))
		}
	}()
	if issues := (invalidArguments)(nil); errors.As(err, &issues) {
		return invalid(issues)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		r := Fail(Aborted, "the call was cancelled while the tool ran: "+message(err))
		r.Failure.Started = true
		return r
	}
	if refused := (Refused)(nil); errors.As(err, &refused) {
		r := Deny(ByRule, refused.RefusedBy(), message(err))
		r.Failure.Started = true
		return r
	}
	if unsure := (Unsure{}); errors.As(err, &unsure) {
		r := Fail(EffectUnknown, message(err))
		r.Failure.Started = true
		return r
	}
	r = Fail(ToolError, message(err))
	retry, ok := asModelRetry(err)
	if !ok {
		return r
	}
	r.Failure.Retry = true
	if retry.Data != nil {
		data := encode(retry.Data)
		if !data.IsOK() {
			r.Failure.Message += " (its data is not serialisable)"
		}
		r.Failure.Data = data.Value
	}
	return r
}

// asModelRetry finds a ModelRetry in err, by value or by pointer.
func asModelRetry(err error) (ModelRetry, bool) {
	var byValue ModelRetry
	if errors.As(err, &byValue) {
		return byValue, true
	}
	var byPointer *ModelRetry
	if errors.As(err, &byPointer) && byPointer != nil {
		return *byPointer, true
	}
	return ModelRetry{}, false
}

// message returns the text of an error, bounded and valid; an Error method that panics is itself the message.
func message(err error) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("an error of type %T whose text cannot be read", err)
		}
	}()
	return bounded(err.Error())
}

func bounded(text string) string {
	if len(text) > maxMessage {
		text = text[:maxMessage] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// encode makes the OK Result of a value, or NON_SERIALIZABLE. As encoding/json does, it writes U+FFFD for what is not
// UTF-8 in a Go string; JSON that the value brings along has to be right.
func encode(value any) (r Result) {
	defer func() {
		if p := recover(); p != nil {
			r = unwritable("%v", p)
		}
	}()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return unwritable("%s", message(err))
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	switch {
	case !utf8.Valid(text):
		return unwritable("its JSON is not UTF-8")
	case depthOf(text) > canonjson.MaxDepth:
		// encoding/json writes what it does not read any more.
		return unwritable("it is nested more than %d levels deep", canonjson.MaxDepth)
	}
	return Result{Code: OK, Value: text}
}

func unwritable(format string, args ...any) Result {
	return Fail(NonSerializable, "the result cannot be written as JSON: "+bounded(fmt.Sprintf(format, args...)))
}

// depthOf counts the levels of objects and lists in a JSON text.
func depthOf(text []byte) int {
	depth, deepest, quoted := 0, 0, false
	for n := 0; n < len(text); n++ {
		switch c := text[n]; {
		case quoted && c == '\\':
			n++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

func invalid(issues []Issue) Result {
	r := Fail(InvalidArguments, invalidArguments(issues).Error())
	r.Failure.Issues = issues
	return r
}
