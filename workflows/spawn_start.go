package workflows

import (
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/protocol"
)

var (
	// errTaken says that the id of a child belongs to somebody else.
	errTaken = errors.New("the id is taken")
	// errPoor says that nothing is left of the budget.
	errPoor = errors.New("nothing is left of the budget")
)

// run takes an agent from its turn to its end.
func (s *spawning) run(ctx workflow.Context) (protocol.AgentResult, error) {
	res, err := s.inTurn(ctx)
	if errors.Is(err, errPoor) {
		return unstarted(protocol.LimitHit, "the agent was not started: "+errPoor.Error()), nil
	}
	return res, err
}

func (s *spawning) inTurn(ctx workflow.Context) (protocol.AgentResult, error) {
	f := s.family
	if workflow.Await(ctx, func() bool { return f.active < s.bounds.Concurrent }) != nil {
		return unstarted(protocol.Cancelled, notBegun), nil
	}
	f.active++
	defer func() { f.active-- }()
	if s.reuse {
		return s.shared(ctx)
	}
	res, err := s.paid(ctx, enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE)
	if !errors.Is(err, errTaken) {
		return res, err
	}
	return s.renamed(ctx)
}

const notBegun = "the agent was cancelled before it began"

// renamed starts an agent under an id that nobody has had: another run of the parent's id, or the one before a reset, has
// used the one that its content gives it.
func (s *spawning) renamed(ctx workflow.Context) (protocol.AgentResult, error) {
	stem := s.child.id
	for n := range mostTries {
		var salt string
		// Recorded where it is true: while a history replays, the run's id is that of the last one.
		if err := workflow.SideEffect(ctx, func(ctx workflow.Context) any { return workflow.GetInfo(ctx).WorkflowExecution.RunID }).Get(&salt); err != nil {
			return protocol.AgentResult{}, err
		}
		s.child.id = stem + "~" + canonjson.SHA256([]byte(salt))[:8]
		if n > 0 {
			s.child.id += fmt.Sprintf(".%d", n+1)
		}
		res, err := s.paid(ctx, enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE)
		if !errors.Is(err, errTaken) {
			return res, err
		}
	}
	return protocol.AgentResult{}, configError(fault.Configf("spawn", "every id of the agent is taken: %q", stem))
}

// mostTries bounds the ids that are tried for one child.
const mostTries = 5

// paid starts the agent with its part of the money and waits for its end.
func (s *spawning) paid(ctx workflow.Context, policy enumspb.WorkflowIdReusePolicy) (protocol.AgentResult, error) {
	part, ok := s.pool.take(s.in.BudgetUSD)
	for !ok {
		if !s.pool.hopeful() {
			return protocol.AgentResult{}, errPoor
		}
		// Those who have it may give some back.
		if workflow.Await(ctx, func() bool { return s.pool.left() > dust || !s.pool.hopeful() }) != nil {
			return unstarted(protocol.Cancelled, notBegun), nil
		}
		part, ok = s.pool.take(s.in.BudgetUSD)
	}
	in := s.in
	in.BudgetUSD = part
	res, err := s.start(ctx, in, policy)
	s.pool.settle(part, spentBy(res, err, part))
	return res, err
}

// spentBy is what an agent cost. One that left no result counts for all that it had, unless it cannot have begun.
func spentBy(res protocol.AgentResult, err error, part *float64) float64 {
	switch {
	case err == nil:
		// What was lost on its way may have cost that.
		return protocol.Dollars(protocol.Dollars(res.CostUSD) + protocol.Dollars(res.LostUSD) + protocol.Dollars(res.BelowUSD))
	case errors.Is(err, errTaken), isConfig(err), part == nil:
		return 0
	}
	return *part
}

// mostStarting bounds the inputs that are on their way to the server at once: a message of 4 MiB is the most that it takes.
const mostStarting = 2 << 20

// start starts the child and waits for its end.
func (s *spawning) start(ctx workflow.Context, in protocol.AgentInput, policy enumspb.WorkflowIdReusePolicy) (protocol.AgentResult, error) {
	load, err := s.load(ctx, in)
	if err != nil {
		return protocol.AgentResult{}, configError(err)
	}
	if s.family.starting == nil {
		s.family.starting = workflow.NewSemaphore(ctx, mostStarting)
	}
	if s.family.starting.Acquire(ctx, load) != nil {
		return unstarted(protocol.Cancelled, notBegun), nil
	}
	ctx = workflow.WithValue(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: s.child.id, TaskQueue: s.queue, StaticSummary: s.summary(), WaitForCancellation: true,
		WorkflowIDReusePolicy: policy, ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
	}), lineageKey{}, &s.lineage)
	f := workflow.ExecuteChildWorkflow(ctx, protocol.WorkflowAgent, in)
	after, stop := workflow.NewDisconnectedContext(ctx)
	defer stop()
	begun := f.GetChildWorkflowExecution()
	// The first alone is not told of every failure.
	_ = workflow.Await(after, func() bool { return begun.IsReady() || f.IsReady() })
	s.family.starting.Release(load)
	me := protocol.Started{WorkflowID: s.child.id, WorkflowType: protocol.WorkflowAgent}
	if begun.IsReady() && begun.Get(after, nil) == nil {
		s.family.has(me)
		defer s.family.lost(me)
	}
	var res protocol.AgentResult
	err = recorded(after, f, &res)
	var taken *temporal.ChildWorkflowExecutionAlreadyStartedError
	var child *temporal.ChildWorkflowExecutionError
	switch {
	case errors.As(err, &taken):
		return protocol.AgentResult{}, errTaken
	case temporal.IsCanceledError(err) && !errors.As(err, &child):
		return unstarted(protocol.Cancelled, notBegun), nil
	case err == nil && res.Status == "":
		// An operator can end a workflow with any value.
		return res, fmt.Errorf("spawn %q: the agent ended with a value that is no result of an agent", s.child.id)
	}
	return res, err
}

func (s *spawning) summary() string {
	if s.in.Label != "" {
		return label(s.in.AgentType) + " · " + label(s.in.Label)
	}
	return label(s.in.AgentType)
}

// load is what an input weighs on its way; one that the server would refuse is an error.
func (s *spawning) load(ctx workflow.Context, in protocol.AgentInput) (int64, error) {
	n := weight(in)
	payloads, err := s.gate.converter(ctx).ToPayloads(in)
	switch {
	case err != nil && lasting(err):
		return 0, &fault.ConfigError{Key: "input", Msg: "cannot be encoded", Cause: err}
	case err != nil:
		// A codec that is away stops the task until it is back.
		panic(err)
	case n > mostStarting/4 && payloads.Size() > mostReceived:
		return 0, fault.Configf("input", "has %d bytes as it is encoded, at most %d fit", payloads.Size(), mostReceived)
	}
	return min(int64(n), mostStarting), nil
}
