package activities

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
)

// leastOutput is the number of output tokens below which a turn is not worth its input.
const leastOutput = 256

// checkPrices reports entries and a share that cannot be used.
func (e *Engine) checkPrices() error {
	for name, p := range e.cfg.Prices {
		if err := p.Validate("Prices." + name); err != nil {
			return err
		}
	}
	if c := e.cfg.CompactAt; c != 0 && !(c >= model.LeastShare && c <= model.MostShare) {
		return fault.Configf("CompactAt", "%v is out of range; %v to %v, or 0 for %v", c, model.LeastShare, model.MostShare, model.DefaultShare)
	}
	return nil
}

// pricesOf returns what is known of models.
func (e *Engine) pricesOf(names []string) model.Prices {
	out := model.Prices{}
	for _, n := range names {
		if p := e.price(n); p != (model.Price{}) {
			out[n] = p
		}
	}
	return out
}

// price is what the worker's table says of a model, then its driver, then the list of public prices. What a driver says that no
// table could hold is nothing: a rate below zero would give money back.
func (e *Engine) price(full string) model.Price {
	p := e.cfg.Prices[full]
	if m, name, err := e.model(full); err == nil {
		if d, ok := m.(model.Priced); ok {
			said := d.Price(name)
			if err := said.Validate(full); err != nil {
				e.log.Warn("assent: a model driver says what is no price", "model", full, "error", err)
				said = model.Price{}
			}
			p = p.Over(said)
		}
	}
	return p.Over(e.prices[full])
}

// priced refuses a budget over models of which one has no price: it would be no bound.
func (e *Engine) priced(key string, names []string) error {
	for _, n := range names {
		if !e.price(n).Known() {
			return fault.Configf(key, "no price is known for model %q, so that a budget cannot hold; give one in models.prices", n)
		}
	}
	return nil
}

// budget is the smaller one of the input's and the profile's.
func (e *Engine) budget(in protocol.AgentInput, p config.Profile, names []string) (*float64, error) {
	usd := in.BudgetUSD
	if p.BudgetUSD != nil && (usd == nil || *p.BudgetUSD < *usd) {
		usd = p.BudgetUSD
	}
	if err := protocol.CheckBudget("budgetUSD", usd); err != nil || usd == nil {
		return nil, err
	}
	return usd, e.priced("budgetUSD", names)
}

// poorError says that what is left of the budget does not pay for a turn.
type poorError struct{ why string }

func (e *poorError) Error() string { return e.why }

// purse is the money of one execution of Generate. What a provider was asked for by an attempt that was lost before it
// could say so is known from heartbeats: it may have been paid, so that a budget counts all of it.
type purse struct {
	left *float64
	// lost bounds what earlier attempts may have cost.
	lost float64

	// sending holds back a report with an older sum while one with a newer is on its way, held says that the SDK was given one.
	sending sync.Mutex
	held    atomic.Bool
	mu      sync.Mutex
	// atRisk is lost and the most that the request on its way can cost.
	atRisk float64
}

// openPurse fails while the codec cannot say what earlier attempts may have cost: asked then, a model could be paid twice of a budget
// that has room for once, and the next report would take the older sum away. Details that are no money are nothing.
func openPurse(ctx context.Context, left *float64) (*purse, error) {
	p := &purse{left: left}
	if activity.HasHeartbeatDetails(ctx) {
		var usd float64
		err := activity.GetHeartbeatDetails(ctx, &usd)
		if err != nil && !errors.Is(err, converter.ErrUnableToDecode) {
			return nil, fmt.Errorf("read what earlier attempts may have cost: %w", err)
		}
		if err == nil && usd > 0 && !math.IsInf(usd, 0) {
			p.lost = usd
		}
	}
	p.atRisk = p.lost
	return p, nil
}

// details are those of a heartbeat.
func (p *purse) details() []any {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.atRisk == 0 {
		return nil
	}
	return []any{p.atRisk}
}

// set reports another sum when the SDK comes to it, which holds back what follows another report.
func (p *purse) set(ctx context.Context, usd float64) {
	p.sending.Lock()
	defer p.sending.Unlock()
	p.bears(usd)
	p.held.Store(true)
	activity.RecordHeartbeat(ctx, usd)
}

// bears is what is at risk from now on.
func (p *purse) bears(usd float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.atRisk = usd
}

// risk tells the server at once what a request can cost before it is sent. Of what cannot be put down a model is not asked.
func (g *generation) risk(ctx context.Context, price model.Price, r model.Request) error {
	if !price.Known() || price.Free {
		return nil
	}
	p := g.purse
	p.bears(p.lost + price.Most(r.InputTokens(), int64(r.MaxOutputTokens)))
	if err := g.report(ctx); err != nil {
		p.bears(p.lost)
		return fmt.Errorf("put down what the turn may cost: %w", err)
	}
	if p.held.Load() {
		// The SDK may hold a report from before, which would take this one away.
		g.beat(ctx)
	}
	return nil
}

// failed says that a provider gave no answer. One that had begun to speak may charge for it; a request that it refused costs
// nothing.
func (p *purse) failed(ctx context.Context, spoke bool) {
	if spoke {
		p.lost = p.atRisk
		return
	}
	if p.atRisk != p.lost {
		p.set(ctx, p.lost)
	}
}

// owing puts into the error of an attempt what it and those before it may have cost: if no other follows, nothing else says so. It is
// there also if it is nothing, because an error without it comes from somebody who does not know. What a driver's own error has
// there would be taken for money.
func (p *purse) owing(err error) error {
	if err == nil {
		return nil
	}
	p.mu.Lock()
	usd := p.atRisk
	p.mu.Unlock()
	var app *temporal.ApplicationError
	cancelled := errors.Is(err, context.Canceled) || temporal.IsCanceledError(err)
	o := temporal.ApplicationErrorOptions{Details: []any{usd}}
	switch {
	case errors.As(err, &app):
		o.NonRetryable, o.NextRetryDelay, o.Category = app.NonRetryable(), app.NextRetryDelay(), app.Category()
		// The SDK sends the details of a cancellation that it finds below, and not these.
		if !cancelled {
			o.Cause = app.Unwrap()
		}
		return temporal.NewApplicationErrorWithOptions(app.Message(), app.Type(), o)
	case cancelled:
		// Where nobody cancelled the activity, the SDK makes a failure of it that is tried again.
		return temporal.NewCanceledError(usd)
	case errors.Is(err, context.DeadlineExceeded):
		// Spans and numbers tell it from others.
		o.Cause = context.DeadlineExceeded
	}
	return temporal.NewApplicationErrorWithOptions(cut(err.Error(), mostError), "", o)
}

// clamp bounds the output of a request by the model and by the budget. most is the bound if it is the budget's.
func (p *purse) clamp(name string, price model.Price, r *model.Request) (most int, err error) {
	if price.MaxOutput > 0 {
		r.MaxOutputTokens = int(min(int64(r.MaxOutputTokens), price.MaxOutput))
	}
	if p.left == nil || price.Free {
		return 0, nil
	}
	if !price.Known() {
		return 0, fault.Configf("budgetUSD", "no price is known for model %q", name)
	}
	left, input := *p.left-p.lost, r.InputTokens()
	switch n := price.Affords(left, input); {
	case n < int64(min(leastOutput, r.MaxOutputTokens)):
		return 0, &poorError{fmt.Sprintf("%.6f USD are left, and a turn of %s with about %d tokens of input and %d of output can cost %.6f",
			max(left, 0), name, input, leastOutput, price.Most(input, leastOutput))}
	case n < int64(r.MaxOutputTokens):
		r.MaxOutputTokens = int(n)
		return int(n), nil
	}
	return 0, nil
}

// paid is pay, and puts down what is more than the request could cost: the answer may be lost yet, and each attempt costs it again.
func (g *generation) paid(ctx context.Context, price model.Price, r model.Request, a *answer) {
	p := g.purse
	a.usd, a.unpriced = p.pay(price, r, a.Response)
	p.mu.Lock()
	more := p.lost+a.usd > p.atRisk
	p.atRisk = max(p.atRisk, p.lost+a.usd)
	p.mu.Unlock()
	if more {
		g.beat(ctx)
	}
}

// pay says what a turn cost. If its provider did not say what it used, the cost is unknown, and a budget counts the most
// that it can have been.
func (p *purse) pay(price model.Price, r model.Request, resp model.Response) (usd float64, unpriced bool) {
	usd, known := price.Cost(resp.Usage)
	if !known {
		return 0, true
	}
	if !price.Free && resp.Usage.InputTokens == 0 && resp.Usage.OutputTokens == 0 {
		said := model.Message{Text: resp.Text, Calls: resp.Calls, Opaque: resp.Opaque}
		p.lost += price.Most(r.InputTokens(), model.Tokens(said.Bytes()))
		return 0, true
	}
	return usd, false
}

// notBegun is the answer when no model's turn can be paid for.
func (g *generation) notBegun(poor *poorError) protocol.GenerateResponse {
	resp := protocol.GenerateResponse{OverBudget: cut(poor.why, 500), LostUSD: g.purse.lost}
	if g.req.Transcript != nil {
		resp.Transcript = *g.req.Transcript
	}
	return resp
}
