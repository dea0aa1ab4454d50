package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"unicode/utf8"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/endpoint"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/transcript"
)

// Generate asks the model for one turn and appends it to the transcript. A retried attempt asks again: a turn
// counts when history has it.
func (e *Engine) Generate(ctx context.Context, req protocol.GenerateRequest) (resp protocol.GenerateResponse, err error) {
	purse, err := openPurse(ctx, req.LeftUSD)
	if err != nil {
		return resp, temporal.NewApplicationError(cut(err.Error(), mostError), "")
	}
	g := &generation{Engine: e, req: req, purse: purse}
	defer func() {
		if p := recover(); p != nil {
			e.log.Error("assent: a turn of the model panicked", "panic", p, "stack", string(debug.Stack()))
			resp, err = protocol.GenerateResponse{}, g.purse.owing(errors.New(cut(fmt.Sprintf("panic: %v", p), mostError)))
		}
	}()
	resp, err = g.generate(ctx)
	return resp, g.purse.owing(wire(err))
}

// generation is one execution of Generate.
type generation struct {
	*Engine
	req    protocol.GenerateRequest
	frozen Frozen
	view   transcript.View
	// before are the messages of the view.
	before []model.Message
	// added are the messages that this turn adds before the model speaks.
	added []model.Message
	purse *purse
	// speech is what the model says while it says it.
	speech speech
	// found is about the number of tokens that were found to be too many.
	found int64
}

func (g *generation) generate(ctx context.Context) (protocol.GenerateResponse, error) {
	if err := g.sameStore(g.req.Store); err != nil {
		return protocol.GenerateResponse{}, err
	}
	g.speech.now.Turn, g.speech.now.Attempt = g.req.Turn, int(activity.GetInfo(ctx).Attempt)
	defer heartbeatsWith(ctx, func() { g.beat(ctx) })()
	ctx, quiet := g.tell(ctx)
	defer quiet()
	resp, err := g.run(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errUnwanted) {
		err = errUnwanted
	}
	return resp, err
}

func (g *generation) run(ctx context.Context) (protocol.GenerateResponse, error) {
	if err := g.read(ctx); err != nil {
		return protocol.GenerateResponse{}, err
	}
	if g.req.Close {
		var resp protocol.GenerateResponse
		var err error
		resp.Transcript, err = transcript.Append(ctx, g.cfg.Blobs, transcript.Node{Prev: g.req.Transcript, Messages: g.added})
		return resp, err
	}
	request, err := g.request(ctx)
	if err != nil {
		return protocol.GenerateResponse{}, err
	}
	if g.full(request) {
		return g.compact(ctx)
	}
	if w := g.window(); w > 0 {
		if request, err = fit(request, w); err != nil {
			return protocol.GenerateResponse{}, err
		}
	}
	turn, err := g.ask(ctx, request)
	if tooLong(err) && !g.req.Compacted && g.compactable() {
		// The window is smaller than we know.
		g.found = likely(request)
		return g.compact(ctx)
	}
	if tooLong(err) {
		turn, err = g.squeeze(ctx, request, err)
	}
	var poor *poorError
	if errors.As(err, &poor) {
		return g.notBegun(poor), nil
	}
	if err != nil {
		return protocol.GenerateResponse{}, err
	}
	return g.keep(ctx, turn)
}

// read gets everything that the request only refers to.
func (g *generation) read(ctx context.Context) (err error) {
	if g.frozen, err = g.thaw(ctx, g.req.Frozen); err != nil {
		return err
	}
	if g.view, err = transcript.Live(ctx, g.cfg.Blobs, g.req.Transcript); err != nil {
		return err
	}
	if g.req.PromptRef != nil {
		raw, err := g.cfg.Blobs.Get(ctx, *g.req.PromptRef)
		if err != nil {
			return err
		}
		g.req.Prompt = string(raw)
	}
	g.before = g.view.Messages()
	g.added = addedMessages(g.req, g.before)
	return nil
}

// request is what the model is asked, whole.
func (g *generation) request(ctx context.Context) (model.Request, error) {
	r := model.Request{System: g.frozen.System, MaxOutputTokens: g.req.MaxOutputTokens, OutputSchema: g.frozen.Output}
	if !g.req.NoTools {
		r.Tools = g.frozen.Tools
	}
	var err error
	r.Messages, err = g.resolved(ctx, g.before, g.added)
	return r, err
}

// sane makes a turn that can be stored and sent back: arguments that are not JSON in UTF-8 become raw text, and
// provider data that is not JSON is dropped. What a model writes never fails a run.
func sane(r model.Response) model.Response {
	r.Calls = slices.Clone(r.Calls)
	for i, c := range r.Calls {
		if len(c.Input) > 0 && !(json.Valid(c.Input) && utf8.Valid(c.Input) && !deep(c.Input)) {
			c.Raw, c.Input = c.Raw+string(c.Input), nil
		}
		c.Raw = strings.ToValidUTF8(c.Raw, "\ufffd")
		r.Calls[i] = c
	}
	if len(r.Opaque) > 0 && !json.Valid(r.Opaque) {
		r.Opaque = nil
	}
	// Nothing that a provider says gives money back, and a sum over turns does not overflow.
	u := &r.Usage
	u.InputTokens, u.OutputTokens = min(max(u.InputTokens, 0), mostTokens), min(max(u.OutputTokens, 0), mostTokens)
	u.CachedInputTokens = min(max(u.CachedInputTokens, 0), u.InputTokens)
	u.CacheWriteTokens = min(max(u.CacheWriteTokens, 0), u.InputTokens-u.CachedInputTokens)
	return r
}

// mostTokens is far beyond what a turn can use.
const mostTokens = 1 << 40

// deep reports arguments that no canonical form takes. Near encoding/json's own limit they could be stored and never
// read again.
func deep(raw json.RawMessage) bool {
	_, err := canonjson.Canonical(raw)
	return errors.Is(err, canonjson.ErrTooDeep)
}

// answer is what a model said and what it cost.
type answer struct {
	model.Response
	// model is the one that answered, with its provider.
	model string
	usd   float64
	// unpriced says that usd is unknown.
	unpriced bool
	// most is the bound of the output that the budget set, or zero.
	most int
}

// ask tries the models in order and returns the first answer. If all fail, the error says whether trying again
// can help with any of them, or that no model's turn can be paid for.
func (g *generation) ask(ctx context.Context, r model.Request) (answer, error) {
	var errs []error
	var poor *poorError
	for _, full := range g.req.Models {
		m, name, err := g.model(full)
		if err != nil {
			return answer{}, err
		}
		price := g.frozen.Prices[full]
		one := r
		one.Model = name
		most, err := g.purse.clamp(full, price, &one)
		if errors.As(err, &poor) {
			continue
		}
		if err != nil {
			return answer{}, err
		}
		if err := g.risk(ctx, price, one); err != nil {
			return answer{}, err
		}
		g.speech.begin(full, r.Summary != nil)
		resp, err := model.Stream(ctx, m, one, g.speech.hear)
		if err == nil {
			a := answer{Response: sane(resp), model: full, most: most}
			g.paid(ctx, price, one, &a)
			return a, nil
		}
		if ctx.Err() != nil {
			return answer{}, context.Cause(ctx)
		}
		g.purse.failed(ctx, g.speech.spoke() || begun(err))
		g.log.Warn("assent: model failed", "model", full, "error", err)
		errs = append(errs, err)
	}
	if len(errs) == 0 && poor != nil {
		return answer{}, poor
	}
	if len(errs) == 0 {
		return answer{}, fault.Configf("model", "there is none to ask")
	}
	// A failure that can pass is the one to report: the activity is then tried again with all models.
	slices.SortStableFunc(errs, func(a, b error) int { return rank(a) - rank(b) })
	return answer{}, errs[0]
}

// begun reports a failure that comes after an answer had begun, also where nothing of it was told.
func begun(err error) bool {
	var m *model.Error
	return errors.As(err, &m) && (m.Begun || m.Kind == endpoint.KindCut || m.Kind == endpoint.KindEndless)
}

func rank(err error) int {
	var m *model.Error
	if errors.As(err, &m) && m.Retry {
		return 0
	}
	return 1
}

// addedMessages are those that this turn adds before the model speaks: the prompt, or one result for each call of
// the turn before, whatever happened to it, and a note of the engine.
func addedMessages(req protocol.GenerateRequest, before []model.Message) []model.Message {
	var added []model.Message
	if len(before) == 0 {
		added = append(added, model.Message{Role: model.User, Text: req.Prompt})
	} else if calls := before[len(before)-1].Calls; len(calls) > 0 {
		results := make([]model.ToolResult, len(calls))
		for i, c := range calls {
			results[i] = model.ToolResult{CallID: c.ID, Name: c.Name,
				Result: tool.Fail(tool.Skipped, "the call was not looked at: there were too many in one turn")}
			if i < len(req.Results) {
				results[i].Result = req.Results[i].Result
			}
		}
		added = append(added, model.Message{Role: model.Tool, Results: results})
	}
	if req.Note != "" {
		added = append(added, model.Message{Role: model.User, Text: req.Note})
	}
	return added
}

// mostResult bounds what a model is shown of one stored result, in bytes.
const mostResult = 256 << 10

// shortened is a JSON value as text of so many bytes, and says what it leaves out.
func shortened(raw json.RawMessage, most int) json.RawMessage {
	// A string has a JSON form.
	out, _ := json.Marshal(cut(string(raw), most) + fmt.Sprintf(" [the result has %d bytes, %d are shown]", len(raw), most))
	return out
}

// resolved joins messages, with the text of stored results in their place for the driver. The transcript keeps the references.
func (e *Engine) resolved(ctx context.Context, messages ...[]model.Message) ([]model.Message, error) {
	out := slices.Concat(messages...)
	for i, m := range out {
		out[i].Results = slices.Clone(m.Results)
		for j, r := range m.Results {
			out[i].Results[j].Result.Images = slices.Clone(r.Result.Images)
			ref := r.Result.ValueRef
			if ref == nil {
				continue
			}
			raw, err := e.cfg.Blobs.Get(ctx, *ref)
			if err != nil {
				return nil, err
			}
			if len(raw) > mostResult {
				raw = shortened(raw, mostResult)
			}
			out[i].Results[j].Result.Value, out[i].Results[j].Result.ValueRef = raw, nil
			out[i].Results[j].Result.Preview = ""
		}
	}
	return out, e.illustrate(ctx, out)
}

// Transcript returns the messages up to and including the node behind ref, oldest first.
func (e *Engine) Transcript(ctx context.Context, ref *blob.Ref) ([]model.Message, error) {
	return transcript.Read(ctx, e.cfg.Blobs, ref)
}

// keep stores the turn and returns what history keeps of it.
func (g *generation) keep(ctx context.Context, turn answer) (protocol.GenerateResponse, error) {
	resp := protocol.GenerateResponse{Model: turn.model, Text: cut(turn.Text, protocol.InlineText), Stop: turn.Stop, Usage: turn.Usage,
		CostUSD: turn.usd, Unpriced: turn.unpriced, LostUSD: g.purse.lost, MaxOutputTokens: turn.most}
	said := model.Message{Role: model.Assistant, Text: turn.Text, Calls: turn.Calls, Opaque: turn.Opaque}
	total := 0
	for i, c := range turn.Calls {
		if i == protocol.MaxCallsPerTurn {
			resp.Dropped = len(turn.Calls) - i
			break
		}
		r, err := g.requested(ctx, c, &total)
		if err != nil {
			return resp, err
		}
		resp.Calls = append(resp.Calls, r)
	}
	if len(turn.Calls) == 0 {
		if err := g.output(ctx, turn, &resp); err != nil {
			return resp, err
		}
	}
	var err error
	resp.Transcript, err = transcript.Append(ctx, g.cfg.Blobs, transcript.Node{Prev: g.req.Transcript, Earlier: g.req.Earlier,
		Messages: append(g.added, said)})
	return resp, err
}

// requested is what history keeps of one call. Arguments that do not fit are stored; those that are not JSON are
// shown in part, so that the model is told.
func (e *Engine) requested(ctx context.Context, c model.ToolCall, total *int) (protocol.Requested, error) {
	const mostName, mostRaw = 200, 1 << 10
	// The transcript has the whole id and name; these are for people.
	r := protocol.Requested{ModelID: cut(c.ID, mostName), Name: cut(c.Name, mostName)}
	if c.Raw != "" || len(c.Input) == 0 {
		r.Raw = cut(c.Raw+string(c.Input), mostRaw)
		return r, nil
	}
	// Compact and escaped as history will have it, so that what is measured is what is sent.
	var err error
	if r.Input, err = json.Marshal(c.Input); err != nil {
		return r, err
	}
	if *total += len(r.Input); len(r.Input) <= protocol.InlineInput && *total <= protocol.InlineTurn {
		return r, nil
	}
	*total -= len(r.Input)
	ref, err := e.cfg.Blobs.Put(ctx, r.Input)
	r.Input, r.InputRef = nil, &ref
	return r, err
}

// ReadTranscript is transcript.Read.
func ReadTranscript(ctx context.Context, store blob.Store, ref *blob.Ref) ([]model.Message, error) {
	return transcript.Read(ctx, store, ref)
}
