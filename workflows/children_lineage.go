package workflows

import (
	"errors"
	"fmt"
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/protocol"
)

// inherited reads where the run stands in a tree of agents; nil is at its root. Any starter can send the header, so it
// counts only in a child, of the very parent that it names, and lowers bounds only.
func inherited(ctx workflow.Context) *protocol.Lineage {
	parent := workflow.GetInfo(ctx).ParentWorkflowExecution
	payload := interceptor.WorkflowHeader(ctx)[protocol.HeaderLineage]
	if parent == nil || payload == nil {
		return nil
	}
	var l protocol.Lineage
	if err := converter.GetDefaultDataConverter().FromPayload(payload, &l); err != nil || l.Parent != parent.ID || l.Root == "" || len(l.Root) > mostRoot {
		workflow.GetLogger(ctx).Warn("assent: a lineage was sent that is not this run's, and does not count", "parent", parent.ID, "error", err)
		return nil
	}
	l = tame(l)
	return &l
}

// tame takes what no engine writes out of a lineage: with a negative bound nothing would ever have its turn.
func tame(l protocol.Lineage) protocol.Lineage {
	b := l.Bounds
	b = protocol.Bounds{Depth: max(b.Depth, 0), Concurrent: max(b.Concurrent, 0), Total: max(b.Total, 0)}
	l.Bounds = b.Over(protocol.DefaultBounds()).Within(protocol.Bounds{Depth: protocol.MostDepth, Concurrent: protocol.MostConcurrent, Total: protocol.MostTotal})
	l.Depth = min(max(l.Depth, 0), protocol.MostDepth)
	if usd := l.BudgetUSD; usd != nil && !(*usd > 0 && *usd <= protocol.MostBudget) {
		l.BudgetUSD = new(float64)
	}
	return l
}

// mostRoot bounds the id of a root in bytes, as the server does: it ends a run that shows a longer one.
const mostRoot = 1000

// resolving is the request to freeze an agent, with what its worker needs to look at the lineage.
func (g *gate) resolving(ctx workflow.Context, in protocol.AgentInput) protocol.ResolveRequest {
	req := protocol.ResolveRequest{Input: in}
	if g.board.lineage != nil && len(g.board.lineage.Parents) > 0 {
		req.Lineage, req.ParentRun = g.board.lineage, workflow.GetInfo(ctx).ParentWorkflowExecution.RunID
	}
	return req
}

// vouch looks whether the agents above a workflow are proved, before it passes them on under its own worker's signature. It
// is recorded, because keys change.
func (g *gate) vouch(ctx workflow.Context) {
	if g.own || g.board.lineage == nil || len(g.board.lineage.Parents) == 0 {
		return
	}
	var proved bool
	err := workflow.SideEffect(ctx, func(ctx workflow.Context) any {
		info := workflow.GetInfo(ctx)
		return g.cfg.Keys.VerifyLineage(*g.board.lineage, info.Namespace, info.ParentWorkflowExecution.RunID)
	}).Get(&proved)
	g.dubious = err != nil || !proved
}

// root is the workflow id of the first of the tree.
func (g *gate) root(ctx workflow.Context) string {
	if g.board.lineage != nil {
		return g.board.lineage.Root
	}
	return workflow.GetInfo(ctx).WorkflowExecution.ID
}

// depth counts the agents from the root to here.
func (g *gate) depth() int {
	switch {
	case g.board.lineage != nil:
		return g.board.lineage.Depth
	case g.own:
		return 1
	}
	return 0
}

// parents are those above a child of this run, whose policy the child may inherit.
func (g *gate) parents() []protocol.Above {
	if g.board.lineage != nil && !g.own {
		return slices.Clone(g.board.lineage.Parents)
	}
	var list []protocol.Above
	for _, p := range g.line {
		one := protocol.Above{Profile: p.Profile}
		if p.Tighten != nil {
			// It came out of JSON.
			one.Digest, _ = p.Tighten.Digest()
		}
		list = append(list, one)
	}
	return list
}

// seal puts the rules of an agent's line into a lineage, encoded like everything else that is the team's.
func (g *gate) seal(parents []protocol.Above) error {
	for i, p := range g.line {
		if p.Tighten == nil || i >= len(parents) {
			continue
		}
		payload, err := g.cfg.Converter.ToPayload(p.Tighten)
		if err != nil && !lasting(err) {
			panic(err)
		}
		if err == nil {
			parents[i].Rules, err = payload.Marshal()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// descent is the lineage of what this run starts.
func (g *gate) descent(ctx workflow.Context, deeper int) protocol.Lineage {
	l := protocol.Lineage{Root: g.root(ctx), Parent: workflow.GetInfo(ctx).WorkflowExecution.ID, Depth: g.depth() + deeper,
		Bounds: g.bounds(ctx), Parents: g.parents()}
	return l
}

type lineageKey struct{}

// begets gives a child workflow its lineage. An agent that was started past Spawn is one of the tree too, and cannot be
// where a budget holds: nobody would count what it spends.
func (g *gate) begets(ctx workflow.Context, workflowType string) error {
	spawned, _ := ctx.Value(lineageKey{}).(*protocol.Lineage)
	switch {
	case !g.open:
		return nil
	case spawned != nil:
		return g.write(ctx, *spawned)
	case workflowType == protocol.WorkflowAgent:
		l := g.descent(ctx, 1)
		if poolOf(ctx).bounded() {
			return configError(fault.Configf("spawn", "a budget holds here; start the agent with workflows.Spawn, which takes its part of it"))
		}
		if l.Depth > l.Bounds.Depth {
			return configError(fault.Configf("spawn", "%d agents stand under one another already, which is the bound", l.Bounds.Depth))
		}
		return g.write(ctx, l)
	case g.own || g.board.lineage != nil || poolOf(ctx).bounded():
		l := g.descent(ctx, 0)
		if l.BudgetUSD, _ = ctx.Value(lentKey{}).(*float64); l.BudgetUSD == nil && poolOf(ctx).bounded() {
			// It could spend the whole a second time.
			l.BudgetUSD = new(float64)
		}
		return g.write(ctx, l)
	}
	return nil
}

// write puts a lineage into the header of what ctx starts.
func (g *gate) write(ctx workflow.Context, l protocol.Lineage) error {
	if workflow.IsReplaying(ctx) {
		// The child is in history with the one that it got then.
		return nil
	}
	err := g.seal(l.Parents)
	if info := workflow.GetInfo(ctx); err == nil && !g.dubious {
		l, err = g.cfg.Keys.SignLineage(l, info.Namespace, info.WorkflowExecution.RunID)
	}
	if err != nil {
		return fmt.Errorf("encode lineage: %w", err)
	}
	payload, err := converter.GetDefaultDataConverter().ToPayload(l)
	if err != nil {
		return fmt.Errorf("encode lineage: %w", err)
	}
	header := interceptor.WorkflowHeader(ctx)
	if header == nil {
		return errors.New("encode lineage: the child has no header")
	}
	header[protocol.HeaderLineage] = payload
	return nil
}

// handOn gives the next run of a workflow the place in the tree that this one had.
func (g *gate) handOn(ctx workflow.Context, next *workflow.ContinueAsNewError) {
	payload := interceptor.WorkflowHeader(ctx)[protocol.HeaderLineage]
	if g.board.lineage == nil || payload == nil {
		return
	}
	if next.Header == nil {
		next.Header = &commonpb.Header{}
	}
	if next.Header.Fields == nil {
		next.Header.Fields = map[string]*commonpb.Payload{}
	}
	next.Header.Fields[protocol.HeaderLineage] = payload
}

// ending looks at how a run ends. One that continues as new keeps its place in the tree, and may not leave agents behind.
func (g *gate) ending(ctx workflow.Context, err error) error {
	var next *workflow.ContinueAsNewError
	if !errors.As(err, &next) {
		return err
	}
	if why := g.orphans(); why != "" {
		return temporal.NewNonRetryableApplicationError(why, protocol.ErrorConfig, nil)
	}
	g.handOn(ctx, next)
	return err
}

type boundsKey struct{}

// bounds are those that hold for what ctx starts.
func (g *gate) bounds(ctx workflow.Context) protocol.Bounds {
	b, _ := ctx.Value(boundsKey{}).(protocol.Bounds)
	b = b.Over(protocol.DefaultBounds())
	if g.board.lineage != nil {
		b = b.Within(g.board.lineage.Bounds)
	}
	return b
}
