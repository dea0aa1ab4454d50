package workflows

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/protocol"
)

// Child is an agent that a workflow has spawned. It is a child workflow: it is cancelled with its parent, and gives its
// worktree back then.
type Child struct {
	id     string
	future workflow.Future
	cancel func()
}

// ID is the agent's workflow id. It follows from what the agent is asked for, and is another one once it is known that
// somebody else had the id before.
func (c *Child) ID() string { return c.id }

// Get waits for the agent and returns what it returned. That also says how an agent ended that was cancelled, or never
// started because a budget or a bound leaves no room (status limit). An error is one of three: an *temporal.ApplicationError
// of type protocol.ErrorConfig for input that cannot be used, the *temporal.ChildWorkflowExecutionError of a child that was
// terminated or timed out, or an agent that ended in a way that no agent does. A cancellation of ctx does not end the wait:
// it cancels the child if it is the context of Spawn, and the child then ends.
func (c *Child) Get(ctx workflow.Context) (protocol.AgentResult, error) {
	var res protocol.AgentResult
	err := c.future.Get(ctx, &res)
	return res, err
}

// Future is what Get waits for, for a workflow.Selector. Its value is a protocol.AgentResult.
func (c *Child) Future() workflow.Future { return c.future }

// Cancel asks the agent to stop. Get then returns what it made, with status cancelled.
func (c *Child) Cancel() { c.cancel() }

// SpawnOption says how an agent is spawned.
type SpawnOption func(*spawning)

// OnTaskQueue names the queue whose workers run the agent. Without it that is the queue of the workflow, where its worker
// runs agents, and protocol.DefaultTaskQueue where it has only the guard.
func OnTaskQueue(name string) SpawnOption { return func(s *spawning) { s.queue = name } }

// Reuse takes the result of an agent of the namespace that was asked for the same before and ended ok, waits for one that is
// at work, and only else starts one. What has changed in a profile or a tool since then is not seen: put the task and a
// version into the Key of the input, which stands for its prompt. Nobody pays twice, and a child that somebody else has
// started is not cancelled with this workflow.
func Reuse() SpawnOption { return func(s *spawning) { s.reuse = true } }

// ParentProfile names the profile whose policy an agent takes that says inheritPermissions, in a workflow that no agent runs.
// Where one does, the parent is that agent, and nothing else can be said.
func ParentProfile(name string) SpawnOption { return func(s *spawning) { s.parent = &name } }

// WithBudget returns a context in which all agents that are spawned may spend so much together, in US dollars, and no more
// than the context around it allows. Each takes its part before it starts: its BudgetUSD, or all that is left if it has none,
// so that it is the only one at work. What it did not use goes back when it ends.
func WithBudget(ctx workflow.Context, usd float64) workflow.Context {
	p := &pool{outer: poolOf(ctx), cap: usd}
	// The negation refuses NaN too.
	if !(usd >= 0 && usd <= protocol.MostBudget) {
		p.cap, p.bad = 0, fault.Configf("budget", "%v is out of range; 0 to %v USD", usd, float64(protocol.MostBudget))
	}
	return workflow.WithValue(ctx, poolKey{}, p)
}

// WithBounds returns a context in which other bounds than the defaults hold. They never go over those of the agents above.
func WithBounds(ctx workflow.Context, b protocol.Bounds) workflow.Context {
	if outer, ok := ctx.Value(boundsKey{}).(protocol.Bounds); ok {
		b = b.Over(outer)
	}
	return workflow.WithValue(ctx, boundsKey{}, b)
}

// Spent is what the agents of this run have cost so far, in US dollars, with those of the runs that it continues.
func Spent(ctx workflow.Context) float64 {
	if g := gateFrom(ctx); g != nil {
		return g.family().pool.spent
	}
	return 0
}

type poolKey struct{}

func poolOf(ctx workflow.Context) *pool {
	if p, ok := ctx.Value(poolKey{}).(*pool); ok {
		return p
	}
	if g := gateFrom(ctx); g != nil {
		return g.family().pool
	}
	return nil
}

// Spawn starts an agent as a child and returns at once. It waits behind others for its turn and for money where bounds and
// budgets say so. Whatever is wrong is the error of Get.
func Spawn(ctx workflow.Context, in protocol.AgentInput, opts ...SpawnOption) *Child {
	ctx, cancel := workflow.WithCancel(ctx)
	future, settable := workflow.NewFuture(ctx)
	c := &Child{future: future, cancel: cancel}
	g := gateFrom(ctx)
	if g == nil || g.own {
		settable.SetError(configError(fault.Configf("spawn", "this run has no plugin of Assent that could spawn; a run that began without it stays so")))
		return c
	}
	s := &spawning{child: c, gate: g, family: g.family(), pool: poolOf(ctx), in: in}
	for _, o := range opts {
		o(s)
	}
	if err := s.prepare(ctx); err != nil {
		settable.SetError(configError(err))
		return c
	}
	if why := s.family.count(s.bounds, s.lineage.Depth); why != "" {
		settable.Set(unstarted(protocol.LimitHit, why), nil)
		return c
	}
	s.family.waiting++
	workflow.GoNamed(ctx, "assent spawn "+short(c.id, mostSummary), func(ctx workflow.Context) {
		defer cancel()
		res, err := s.run(ctx)
		s.family.waiting--
		settable.Set(res, err)
	})
	return c
}

// unstarted is the result of an agent that never began.
func unstarted(status protocol.Status, why string) protocol.AgentResult {
	return protocol.AgentResult{Status: status, Error: why, Artifacts: []protocol.Artifact{}}
}

// spawning is one agent on its way.
type spawning struct {
	child   *Child
	gate    *gate
	family  *family
	pool    *pool
	in      protocol.AgentInput
	queue   string
	reuse   bool
	parent  *string
	hash    string
	bounds  protocol.Bounds
	lineage protocol.Lineage
}

// prepare checks everything that can be known now and gives the child its id.
func (s *spawning) prepare(ctx workflow.Context) error {
	if err := s.valid(ctx); err != nil {
		return err
	}
	s.lineage = s.gate.descent(ctx, 1)
	if s.parent != nil {
		s.lineage.Parents = append(s.lineage.Parents, protocol.Above{Profile: *s.parent})
	}
	var err error
	if s.hash, err = s.in.ContentHash(s.lineage.Parents); err != nil {
		return err
	}
	s.child.id, err = s.id(ctx)
	return err
}

func (s *spawning) valid(ctx workflow.Context) error {
	if err := s.pool.wrong(); err != nil {
		return err
	}
	said, _ := ctx.Value(boundsKey{}).(protocol.Bounds)
	if err := said.Validate("bounds"); err != nil {
		return err
	}
	s.bounds = s.gate.bounds(ctx)
	if err := s.in.Validate(); err != nil {
		return err
	}
	if s.parent != nil {
		switch {
		case *s.parent == "" || len(*s.parent) > protocol.MaxName:
			return fault.Configf("parentProfile", "has %d bytes; want 1 to %d", len(*s.parent), protocol.MaxName)
		case len(s.gate.parents()) > 0:
			return fault.Configf("parentProfile", "the parent is the agent %q, which runs this workflow", s.gate.parents()[len(s.gate.parents())-1].Profile)
		}
	}
	if s.queue == "" {
		s.queue = s.gate.cfg.AgentQueue
	}
	if s.queue == "" {
		s.queue = workflow.GetInfo(ctx).TaskQueueName
	}
	if !queueName(s.queue, mostQueue) {
		return fault.Configf("taskQueue", "%q is no name of a task queue", short(s.queue, mostQueue))
	}
	return nil
}

// queueName reports whether the server takes a name of a task queue; what it refuses it refuses in every workflow task.
func queueName(name string, most int) bool {
	return name != "" && len(name) <= most && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl) && !strings.HasPrefix(name, "/_sys/")
}

const (
	mostQueue = 200
	// mostHostQueue is what the server takes: the name of a host stands behind that of the workers' queue.
	mostHostQueue = 1000
	// mostParentID is what of its parent's id goes into that of a child: the server takes 1,000 bytes in all.
	mostParentID = 800
	mostSlug     = 64
)

var unsluggish = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// id is the workflow id that the content of an agent gives it: of the namespace if it is to be used again, else of the run,
// with the number of the agents of this content.
func (s *spawning) id(ctx workflow.Context) (string, error) {
	slug := unsluggish.ReplaceAllString(s.in.AgentType[:min(len(s.in.AgentType), mostSlug)], "_")
	if s.reuse {
		return reused + slug + "-" + s.hash[:32], nil
	}
	home, err := s.family.named(ctx)
	if err != nil {
		return "", err
	}
	stem := slug + "-" + s.hash[:8]
	n := s.family.ordinal(stem)
	if n > 1 {
		stem += fmt.Sprintf(".%d", n)
	}
	return home + "/" + stem, nil
}

// reused begins the ids of agents that may be used again.
const reused = "reuse/"
