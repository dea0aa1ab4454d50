package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
)

// Watcher hears of a question that has closed. It must not wait, nor change anything that the workflow can see.
type Watcher func(approval.Approval, approval.Closed)

type watchKey struct{}

// Watch lets w hear of every question of the run that closes, and of none that a replay closes again. An interceptor calls it
// before it lets the workflow run, and goes on with the context that it gets: it may stand before the gate or behind it.
func Watch(ctx workflow.Context, w Watcher) workflow.Context {
	if g := gateFrom(ctx); g != nil {
		g.watchers = append(g.watchers, w)
		return ctx
	}
	return workflow.WithValue(ctx, watchKey{}, w)
}

// told tells the watchers.
func (g *gate) told(ctx workflow.Context, q approval.Approval, c approval.Closed) {
	if workflow.IsReplaying(ctx) {
		return
	}
	for _, w := range g.watchers {
		w(q, c)
	}
}

// Permitted says what was decided on the call that is being scheduled, to interceptors that see it on its way out.
func Permitted(ctx workflow.Context) (verdict permission.Verdict, by permission.Decider, ok bool) {
	p, ok := ctx.Value(permitKey{}).(*permit)
	if !ok {
		return permission.Deny, "", false
	}
	return p.verdict, p.decidedBy, true
}
