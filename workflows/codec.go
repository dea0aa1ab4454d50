package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// A codec may fail now and work at the next replay. What a workflow makes of such a failure is therefore recorded, or
// the workflow task fails and the server tries it again; it is never decided on unrecorded.

// converter is the team's converter as the SDK binds it to this run.
func (g *gate) converter(ctx workflow.Context) converter.DataConverter {
	info := workflow.GetInfo(ctx)
	dc := converter.WithDataConverterSerializationContext(g.cfg.Converter,
		converter.WorkflowSerializationContext{Namespace: info.Namespace, WorkflowID: info.WorkflowExecution.ID})
	if aware, ok := dc.(converter.ContextAware); ok {
		return aware.WithWorkflowContext(ctx)
	}
	return dc
}

// lasting reports whether a converter's error comes from the value: then it is the same on every replay.
func lasting(err error) bool {
	return slices.ContainsFunc([]error{
		converter.ErrUnableToEncode, converter.ErrUnableToDecode, converter.ErrUnableToSetValue, converter.ErrUnableToFindConverter,
		converter.ErrMetadataIsNotSet, converter.ErrEncodingIsNotSet, converter.ErrEncodingIsNotSupported, converter.ErrValuePtrIsNotPointer,
		converter.ErrTypeNotImplementProtoMessage, converter.ErrValuePtrMustConcreteType, converter.ErrTypeIsNotByteSlice,
	}, func(known error) bool { return errors.Is(err, known) })
}

// asksForRetry reports whether a codec wants the workflow task to be tried again.
func asksForRetry(err error) bool {
	var retry *converter.WorkflowTaskFailureError
	return errors.As(err, &retry)
}

// recorded waits for an activity and reads its result. Its errors are those that history holds, and results of another
// shape.
func recorded(ctx workflow.Context, f workflow.Future, out any) error {
	if err := f.Get(ctx, nil); err != nil {
		return err
	}
	err := f.Get(ctx, out)
	if err != nil && !lasting(err) {
		panic(err)
	}
	return err
}

// rang reports whether a timer fired. One that was not cancelled can only fail because its summary could not be encoded.
func rang(err error) bool {
	if err != nil && !temporal.IsCanceledError(err) {
		panic(err)
	}
	return err == nil
}

// memo is a value that is encoded once. The SDK encodes what a codec fails to encode once more in plain text; that is an
// empty list then, so that the command is the same at each replay.
type memo struct {
	questions []protocol.MemoQuestion
	tried     *bool
}

// MarshalJSON is called by the converters.
func (m memo) MarshalJSON() ([]byte, error) {
	if *m.tried {
		return []byte("[]"), nil
	}
	*m.tried = true
	return json.Marshal(m.questions)
}

// detailsOf reads the details of an error that history holds, and reports whether it could.
func detailsOf(app *temporal.ApplicationError, out any) bool {
	if !app.HasDetails() {
		return false
	}
	err := app.Details(out)
	if err != nil && !lasting(err) {
		panic(err)
	}
	return err == nil
}

// opened is what history holds of an encrypted answer: its text, or why there is none.
type opened struct {
	Data []byte `json:"data,omitempty"`
	Why  string `json:"why,omitempty"`
}

// arrive takes an answer that came as a signal, in the order of the signals.
func (g *gate) arrive(ctx workflow.Context, args *commonpb.Payloads) {
	if g.deaf {
		g.inbox = append(g.inbox, args)
		return
	}
	if len(g.inbox) == 0 && !g.sealed(args) {
		g.signal(ctx, args)
		return
	}
	if g.inbox = append(g.inbox, args); len(g.inbox) == 1 {
		g.spawn(ctx, "assent answers", func(ctx workflow.Context) {
			for ; len(g.inbox) > 0; g.inbox = g.inbox[1:] {
				g.signal(ctx, g.inbox[0])
			}
		})
	}
}

// sealed reports whether an answer must be decoded, and there is somebody whom it could be for.
func (g *gate) sealed(args *commonpb.Payloads) bool {
	return len(args.GetPayloads()) > 0 && len(g.ledger.Asked())+len(g.ledger.Standing())+len(g.children()) > 0 &&
		!plain(args.GetPayloads()[0])
}

// received returns the JSON of an answer that came as a signal; nil if nothing came.
func (g *gate) received(ctx workflow.Context, args *commonpb.Payloads) ([]byte, error) {
	switch {
	case len(args.GetPayloads()) == 0:
		return nil, nil
	case plain(args.GetPayloads()[0]):
		return args.GetPayloads()[0].GetData(), nil
	case !g.sealed(args):
		return nil, &approval.DecodeError{Why: "it is encrypted and nothing is pending"}
	}
	var o opened
	// Recorded, because the codec may give another outcome to the next replay.
	err := workflow.SideEffect(ctx, func(ctx workflow.Context) any { return g.unseal(ctx, args.GetPayloads()[0]) }).Get(&o)
	switch {
	case err != nil:
		panic(err)
	case o.Why != "":
		return nil, &approval.DecodeError{Why: o.Why}
	}
	return o.Data, nil
}

// unseal decodes the payload of an answer.
func (g *gate) unseal(ctx workflow.Context, p *commonpb.Payload) opened {
	var raw converter.RawValue
	if err := g.decode(ctx, p, &raw); err != nil {
		return undecoded(err)
	}
	o := bounded(raw.Payload().GetData())
	if o.Why == "" && raw.Payload() != nil && !plain(raw.Payload()) {
		return g.translate(ctx, p, raw.Payload())
	}
	return o
}

// decode reads what anybody may send: codec and converter may panic of it, at every try.
func (g *gate) decode(ctx workflow.Context, p *commonpb.Payload, out any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("the converter panicked")
		}
	}()
	return g.converter(ctx).FromPayload(p, out)
}

func plain(p *commonpb.Payload) bool {
	return protocol.PlainEncoding(string(p.GetMetadata()[converter.MetadataEncoding]))
}

func undecoded(err error) opened {
	if asksForRetry(err) {
		panic(err)
	}
	return opened{Why: "it cannot be decoded: " + short(err.Error(), 200)}
}

// translate makes JSON of an answer in an encoding that only the team's converter reads. What it does not know either is read as it
// is; bare is p without its codec.
func (g *gate) translate(ctx workflow.Context, p, bare *commonpb.Payload) opened {
	var r approval.Resolution
	err := g.decode(ctx, p, &r)
	switch {
	case err != nil && lasting(err):
		// It has no encoding, or one that is for other things: a client of no SDK may send JSON so.
		return bounded(bare.GetData())
	case err != nil:
		return undecoded(err)
	}
	data, err := json.Marshal(r)
	if err != nil {
		return undecoded(err)
	}
	// A converter may make much of little, and what the server refuses would be tried for ever.
	return bounded(data)
}

func bounded(data []byte) opened {
	if n := len(data); n > approval.MaxAnswer {
		return opened{Why: fmt.Sprintf("it has %d bytes, at most %d are read", n, approval.MaxAnswer)}
	}
	return opened{Data: data}
}

// unpack is translate for what has no codec on it any more. A codec may refuse what it did not encode, so it is put on again.
func (g *gate) unpack(ctx workflow.Context, raw converter.RawValue) opened {
	p, err := g.converter(ctx).ToPayload(raw)
	if err != nil {
		return undecoded(err)
	}
	return g.translate(ctx, p, raw.Payload())
}

// unpackNow is unpack where nothing is tried again. Of a panic the sender is told no more than that.
func (g *gate) unpackNow(ctx workflow.Context, raw converter.RawValue) (o opened) {
	defer func() {
		if p := recover(); p != nil {
			workflow.GetLogger(ctx).Error("assent: an answer could not be decoded", "panic", p)
			o = opened{Why: "it cannot be decoded now"}
		}
	}()
	return g.unpack(ctx, raw)
}

// updated returns the JSON of an answer that came as an update. The SDK has taken the codec off. recorded says that history has to
// hold what the team's converter makes of it.
func (g *gate) updated(ctx workflow.Context, raw converter.RawValue, recorded bool) ([]byte, error) {
	p := raw.Payload()
	if p == nil || plain(p) {
		return p.GetData(), nil
	}
	if len(p.GetData()) > approval.MaxAnswer {
		return p.GetData(), nil // which is refused as too long
	}
	var o opened
	if !recorded {
		o = g.unpackNow(ctx, raw)
	} else if err := workflow.SideEffect(ctx, func(ctx workflow.Context) any { return g.unpack(ctx, raw) }).Get(&o); err != nil {
		panic(err)
	}
	if o.Why != "" {
		return nil, &approval.DecodeError{Why: o.Why}
	}
	return o.Data, nil
}

// unencoded reports that the arguments of a request could not be encoded when it was made.
func unencoded(err error) string {
	return "the arguments could not be encoded: " + short(err.Error(), 500)
}

// consistent fails the workflow task when a call went on in history whose arguments cannot be encoded now.
func consistent(req protocol.DecideRequest, d protocol.DecideResponse) {
	if req.Unencoded != "" && d.Decision.Verdict != permission.Deny {
		panic(errors.New(req.Unencoded))
	}
}
