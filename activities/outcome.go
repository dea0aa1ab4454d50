package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// executions keeps how the last execution of a team's activity ended. Wrappers may begin several, at once too, and return
// before one of them ends; what it says then is nobody's any more.
type executions struct {
	// judged and local are those of every outcome.
	judged, local bool

	mu   sync.Mutex
	last outcome
	over bool
}

func (x *executions) of(run func() (any, error)) tool.Result {
	o := outcome{judged: x.judged, local: x.local, ran: true}
	x.keep(o)
	told := o.of(run)
	x.keep(o)
	return told
}

func (x *executions) keep(o outcome) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over {
		x.last = o
	}
}

// end returns the outcome that counts. judged says that listeners judge results by now.
func (x *executions) end(judged bool) *outcome {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	o := x.last
	o.judged, o.local = x.judged || judged, x.local
	return &o
}

// outcome is what a team's activity did, beside what the pipeline is told of it.
type outcome struct {
	// judged says that listeners judge the result, local that the activity is a local one.
	judged, local bool

	ran   bool
	out   any
	err   error
	crash any
	told  tool.Result
	// wire is out as a payload.
	wire *commonpb.Payload
	// failure is err as the server gets it, without the team's own encoding.
	failure *failurepb.Failure
	// hidden says that listeners cannot be shown a part of it.
	hidden bool
}

// of runs the activity and says how it ended.
func (o *outcome) of(run func() (any, error)) (told tool.Result) {
	defer func() {
		if o.crash = recover(); o.crash != nil {
			told = tool.Fail(tool.ToolError, fmt.Sprint("panic: ", o.crash))
		}
		o.told = told
	}()
	o.out, o.err = run()
	switch {
	case errors.Is(o.err, activity.ErrResultPending):
		// It began and somebody else completes it.
		return tool.Result{Code: tool.OK, Value: json.RawMessage("null")}
	case o.err != nil:
		return o.failed()
	}
	return tool.Result{Code: tool.OK, Value: o.value()}
}

// value is the result as listeners see it: its JSON, or the text that its bytes are.
func (o *outcome) value() json.RawMessage {
	o.hidden = true
	func() {
		// A team's own types write themselves; one that panics is hidden, as one that fails.
		defer func() { _ = recover() }()
		o.wire, _ = converter.GetDefaultDataConverter().ToPayload(o.out)
	}()
	if o.wire == nil {
		return json.RawMessage("null")
	}
	value, ok := plainly(o.wire)
	o.hidden = !ok
	return value
}

// plainly is a payload as JSON, of bytes the text in them; false if it has a form that nobody can search.
func plainly(p *commonpb.Payload) (json.RawMessage, bool) {
	encoding := string(p.GetMetadata()[converter.MetadataEncoding])
	if encoding == converter.MetadataEncodingBinary {
		// What is no text in them becomes U+FFFD here, and stays as it is if nobody takes anything away.
		text, err := json.Marshal(string(p.GetData()))
		return text, err == nil
	}
	return protocol.Argument(encoding, p.GetData()), encoding == converter.MetadataEncodingNil || json.Valid(p.GetData())
}

// encoded is JSON that a listener put in the place of the payload p.
func encoded(p *commonpb.Payload, value json.RawMessage) any {
	encoding := string(p.GetMetadata()[converter.MetadataEncoding])
	var text string
	switch {
	case encoding == converter.MetadataEncodingBinary && json.Unmarshal(value, &text) == nil:
		return []byte(text)
	case encoding == converter.MetadataEncodingProtoJSON:
		return converter.NewRawValue(&commonpb.Payload{Metadata: p.GetMetadata(), Data: value})
	}
	return value
}

// link is one error of a chain as listeners see it, in the data of a failure.
type link struct {
	Message string            `json:"message"`
	Details []json.RawMessage `json:"details,omitempty"`
}

// mostLinks bounds the causes that listeners are shown.
const mostLinks = 32

// failed tells listeners all that the server would be told of an error: its text, and if there is more to it than that,
// the message and the details of each of its causes in Data.
func (o *outcome) failed() tool.Result {
	told := tool.Fail(tool.ToolError, o.err.Error())
	func() {
		// The SDK panics where details cannot be encoded.
		defer func() {
			if recover() != nil {
				o.failure, o.hidden = bare(o.err), true
			}
		}()
		o.failure = temporal.GetDefaultFailureConverter().ErrorToFailure(o.err)
	}()
	var chain []link
	for f := o.failure; f != nil; f = f.GetCause() {
		if len(chain) == mostLinks {
			o.hidden = true
			break
		}
		o.hidden = o.hidden || f.GetEncodedAttributes() != nil
		l := link{Message: f.GetMessage()}
		for _, p := range details(f) {
			d, ok := plainly(p)
			o.hidden = o.hidden || !ok
			l.Details = append(l.Details, d)
		}
		chain = append(chain, l)
	}
	if len(chain) > 1 || len(chain) == 1 && len(chain[0].Details) > 0 {
		data, err := json.Marshal(chain)
		o.hidden = o.hidden || err != nil
		told.Failure.Data = data
	}
	return told
}

// bare is the failure of an error without its details and causes.
func bare(err error) *failurepb.Failure {
	info := &failurepb.ApplicationFailureInfo{Type: typeOf(err)}
	if app := (*temporal.ApplicationError)(nil); errors.As(err, &app) {
		info.Type, info.NonRetryable = app.Type(), app.NonRetryable()
	}
	return &failurepb.Failure{Message: err.Error(), FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: info}}
}

// typeOf is the name of an error's type, under which a retry policy knows it.
func typeOf(err error) string {
	t := reflect.TypeOf(err)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

// details are the values that a failure carries.
func details(f *failurepb.Failure) []*commonpb.Payload {
	return slices.Concat(f.GetApplicationFailureInfo().GetDetails().GetPayloads(), f.GetCanceledFailureInfo().GetDetails().GetPayloads(),
		f.GetTimeoutFailureInfo().GetLastHeartbeatDetails().GetPayloads())
}

// settle is what the server is told. Whatever the activity did itself stays as it is, so that the team's retry policy,
// cancellation and completion work as without the gate; what listeners replaced is replaced, and what they cannot be shown
// is not told while there are any.
func (o *outcome) settle(ctx context.Context, res tool.Result, w protocol.Words) (any, error) {
	failed := res.Code == tool.ToolError || res.Code == tool.Aborted
	// A cancelled call is told with some words before its own.
	words := failed && o.told.Failure != nil && strings.HasSuffix(res.Failure.Message, o.told.Failure.Message)
	same := words && bytes.Equal(res.Failure.Data, o.told.Failure.Data) && !(o.hidden && o.judged)
	switch {
	case !o.ran && res.Code == tool.Aborted && ctx.Err() != nil:
		return nil, ctx.Err()
	case o.crash != nil && same:
		panic(o.crash)
	case o.crash != nil && failed:
		return nil, temporal.NewApplicationError(res.Failure.Message, "PanicError")
	case o.err != nil && (same || res.IsOK()):
		return o.out, o.err
	case o.err != nil && failed:
		return nil, o.reworded(res.Failure, words)
	case res.IsOK() && o.ran && bytes.Equal(res.Value, o.told.Value):
		if o.hidden && o.judged {
			r := tool.Fail(tool.NonSerializable, "it ran, and returned what the worker's listeners cannot be shown")
			r.Failure.Started = true
			return nil, refused(r, w)
		}
		return o.out, nil
	case res.IsOK():
		return encoded(o.wire, res.Value), nil
	}
	return nil, refused(res, w)
}

// reworded is the error with what listeners left of its words and details, for the same retry policy. words says that
// its text is what it was.
func (o *outcome) reworded(f *tool.Failure, words bool) error {
	var links []*failurepb.Failure
	for at := o.failure; at != nil && len(links) < mostLinks; at = at.GetCause() {
		links = append(links, at)
	}
	var chain []link
	if json.Unmarshal(f.Data, &chain) != nil || len(chain) == 0 || len(chain) > len(links) {
		// There was no more to it than its text, or a listener took it away.
		chain = []link{{Message: f.Message}}
	} else if chain[0].Message == o.failure.GetMessage() && !words {
		chain[0].Message = f.Message
	}
	var err error
	for n := len(chain) - 1; n >= 0; n-- {
		err = again(links[n], chain[n], err)
	}
	if temporal.IsCanceledError(o.err) || errors.Is(o.err, context.Canceled) {
		// The SDK looks for one anywhere in the chain, and so does the server for its details.
		for n, l := range links[:len(chain)] {
			if l.GetCanceledFailureInfo() != nil {
				return temporal.NewCanceledError(values(l, chain[n])...)
			}
		}
		return temporal.NewCanceledError()
	}
	if inner := (*temporal.ApplicationError)(nil); o.local && errors.As(o.err, &inner) {
		// Whether a local activity is tried again is up to what its error wraps, an activity's to the error alone.
		return temporal.NewApplicationErrorWithOptions(chain[0].Message, inner.Type(), temporal.ApplicationErrorOptions{
			NonRetryable: inner.NonRetryable(), NextRetryDelay: o.failure.GetApplicationFailureInfo().GetNextRetryDelay().AsDuration(),
			Category: inner.Category(), Cause: errors.Unwrap(err), Details: values(o.failure, chain[0])})
	}
	return err
}

// again is the error of one link with other words. What is no application error becomes one, as on the wire.
func again(f *failurepb.Failure, l link, cause error) error {
	info := f.GetApplicationFailureInfo() // its getters know nil
	if f.GetCanceledFailureInfo() != nil {
		return temporal.NewCanceledErrorWithOptions(temporal.CanceledErrorOptions{Message: l.Message, Cause: cause, Details: values(f, l)})
	}
	return temporal.NewApplicationErrorWithOptions(l.Message, info.GetType(), temporal.ApplicationErrorOptions{
		NonRetryable: info.GetNonRetryable(), NextRetryDelay: info.GetNextRetryDelay().AsDuration(),
		Category: temporal.ApplicationErrorCategory(info.GetCategory()), Cause: cause, Details: values(f, l)})
}

// values are the details of a link. They are none unless each is one that listeners were shown.
func values(f *failurepb.Failure, l link) []any {
	had := details(f)
	if len(had) != len(l.Details) {
		return nil
	}
	var out []any
	for n, d := range l.Details {
		if _, shown := plainly(had[n]); !shown {
			return nil
		}
		out = append(out, encoded(had[n], d))
	}
	return out
}
