package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worker"
)

type attributes map[string]enumspb.IndexedValueType

// ours are the search attributes that a namespace should have.
func ours() attributes {
	return attributes{protocol.AttrStatus: enumspb.INDEXED_VALUE_TYPE_KEYWORD, protocol.AttrAgent: enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		protocol.AttrPendingTool: enumspb.INDEXED_VALUE_TYPE_KEYWORD_LIST, protocol.AttrRoot: enumspb.INDEXED_VALUE_TYPE_KEYWORD}
}

// place is a namespace of its own, and an agent and a team in it.
type place struct {
	t     *testing.T
	name  string
	agent *world
	team  *team
	lines *lines
	// decideTimeout is the product's own unless set.
	decideTimeout time.Duration
}

// newPlace registers a namespace with search attributes.
func newPlace(t *testing.T, have attributes) *place {
	t.Helper()
	p := &place{t: t, name: fmt.Sprintf("place-%d", time.Now().UnixNano()), lines: &lines{}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := dial(t, address(t))
	_, err := c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{Namespace: p.name,
		WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour)})
	require.NoError(t, err)
	if len(have) > 0 {
		// The server takes its time to know a new namespace.
		require.Eventually(t, func() bool {
			_, err := c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: p.name, SearchAttributes: have})
			return err == nil
		}, patience, tick)
	}
	require.Eventually(t, func() bool {
		_, err := c.WorkflowService().ListWorkflowExecutions(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: p.name})
		return err == nil
	}, patience, tick)
	return p
}

// open starts a worker with the engine and one with the guard. dialed adds to what connects them. It returns what stops
// both.
func (p *place) open(script string, dialed ...grpc.DialOption) (stop func()) {
	p.t.Helper()
	opts := client.Options{HostPort: address(p.t), RPCTimeout: rpcPatience, Namespace: p.name, Identity: "team", Logger: sdklog.NewStructuredLogger(p.lines.logger()),
		ConnectionOptions: client.ConnectionOptions{DialOptions: dialed}}
	c, err := client.Dial(opts)
	require.NoError(p.t, err)
	p.t.Cleanup(c.Close)
	if p.agent == nil {
		p.agent, p.team = newWorldAt(p.t, c, p.t.TempDir()), newTeam(p.t)
	}
	p.agent.c = c
	cfg, done, err := engine(askingWith(script), c, p.agent.effects, p.agent.blobs)
	require.NoError(p.t, err)
	p.t.Cleanup(done)
	cfg.Log, cfg.DecideTimeout = p.lines.logger(), p.decideTimeout
	plug, err := worker.New(cfg)
	require.NoError(p.t, err)
	agents := p.agent.workWith(plug)

	p.team.client = opts
	p.team.guard.Log, p.team.guard.DecideTimeout = p.lines.logger(), p.decideTimeout
	guarded := p.team.work()
	return func() {
		agents.Stop()
		guarded.Stop()
		sdkworker.PurgeStickyWorkflowCache()
	}
}

// park starts an agent and a team's workflow that both wait for an answer, and returns the keys.
func (p *place) park() (agent, team string) {
	p.t.Helper()
	p.agent.start(protocol.AgentInput{})
	p.team.ship(order{Service: "api"})
	return p.agent.pending(1)[0].Key, p.team.pending(1)[0].Key
}

// play asks and answers a question of an agent and one of a team's workflow, and looks on while both wait.
func (p *place) play(waiting func()) {
	p.t.Helper()
	agent, team := p.park()
	if waiting != nil {
		waiting()
	}
	p.agent.answer(agent, approval.Allow)
	p.team.answer(resolution(team, approval.Allow, ""))
	p.ended()
	for _, w := range []*world{p.agent, p.team.world} {
		require.Empty(p.t, w.failedTasks())
	}
}

// ended waits for both to have done what was allowed.
func (p *place) ended() {
	p.t.Helper()
	res := p.agent.result()
	require.Equal(p.t, protocol.OK, res.Status, res.Error)
	require.Equal(p.t, []string{"run a"}, p.agent.ran())
	require.Equal(p.t, deployed("api"), p.team.shipped())
}

// upserts counts the writes of our search attributes in both runs. The SDK writes one of its own for each version.
func (p *place) upserts() int { return p.agent.upserts() + p.team.upserts() }

func (w *world) upserts() int {
	w.t.Helper()
	n := 0
	for _, e := range w.history() {
		fields := e.GetUpsertWorkflowSearchAttributesEventAttributes().GetSearchAttributes().GetIndexedFields()
		for name := range ours() {
			if fields[name] != nil {
				n++
				break
			}
		}
	}
	return n
}

// said are the lines of the log about search attributes, those of the SDK aside.
func (p *place) said() []string { return p.lines.with("assent: search attributes") }

const attributesLine = "will not be written"

// remove takes a search attribute away from the namespace.
func (p *place) remove(names ...string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := p.agent.c.OperatorService().RemoveSearchAttributes(ctx, &operatorservice.RemoveSearchAttributesRequest{Namespace: p.name, SearchAttributes: names})
	require.NoError(p.t, err)
}

// A namespace that has all search attributes is written to, and waiting runs are found.
func TestNamespaceWithTheSearchAttributes(t *testing.T) {
	t.Parallel()
	p := newPlace(t, ours())
	p.open(oneAsk)
	p.play(func() {
		require.Eventually(t, func() bool {
			resp, err := p.agent.c.ListWorkflow(context.Background(), &workflowservice.ListWorkflowExecutionsRequest{Namespace: p.name,
				Query: "AssentStatus='waiting' AND ExecutionStatus='Running'"})
			return err == nil && len(resp.GetExecutions()) == 2
		}, patience, tick)
	})
	require.GreaterOrEqual(t, p.upserts(), 6)
	require.Empty(t, p.said())
}

// A namespace without the search attributes, or with other ones of their names: agents and guarded workflows work,
// nothing is written, and each worker says so once.
func TestNamespaceWithoutTheSearchAttributes(t *testing.T) {
	t.Parallel()
	other := ours()
	other[protocol.AttrStatus] = enumspb.INDEXED_VALUE_TYPE_INT
	some := ours()
	delete(some, protocol.AttrRoot)
	text := ours()
	text[protocol.AttrPendingTool] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	for name, have := range map[string]attributes{"none": nil, "a status that is a number": other, "only some": some, "a pending tool that is no list": text} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, have)
			p.open(oneAsk)
			p.play(nil)
			require.Zero(t, p.upserts())
			require.Len(t, p.said(), 2, "once for each of the two workers")
			require.Contains(t, p.said()[0], attributesLine)
		})
	}
}

// forbidding answers calls to list search attributes by itself.
func forbidding(answer func(context.Context) error, asked *atomic.Int64) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if strings.HasSuffix(method, "/ListSearchAttributes") {
			asked.Add(1)
			if err := answer(ctx); err != nil {
				return err
			}
		}
		return invoker(ctx, method, req, reply, cc, opts...)
	})
}

// A worker that may not list search attributes, or whose question is never answered: everything works, nothing is written,
// it is said once, and it is not asked again for each call.
func TestSearchAttributesCannotBeListed(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(context.Context) error{
		"no permission": func(context.Context) error { return status.Error(codes.PermissionDenied, "request unauthorized") },
		"no answer":     func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"unavailable":   func(context.Context) error { return status.Error(codes.Unavailable, "try later") },
		"unimplemented": func(context.Context) error { return status.Error(codes.Unimplemented, "no operator service here") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, ours())
			// Shorter than the server is waited for: even then no decision is missed.
			p.decideTimeout = 4 * time.Second
			var asked atomic.Int64
			p.open(oneAsk, forbidding(answer, &asked))
			p.play(nil)
			require.Zero(t, p.upserts())
			require.Len(t, p.said(), 2, "once for each of the two workers")
			require.Contains(t, p.said()[0], attributesLine)
			require.Positive(t, asked.Load())
		})
	}
}

// A server that is slow for a moment, as one that has just started is, is waited for: a no would hold for a minute, and what waits
// would not be found.
func TestSearchAttributesOfASlowServer(t *testing.T) {
	t.Parallel()
	p := newPlace(t, ours())
	p.decideTimeout = 20 * time.Second
	var asked atomic.Int64
	p.open(oneAsk, forbidding(func(ctx context.Context) error {
		select {
		case <-time.After(1500 * time.Millisecond):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, &asked))
	p.play(nil)
	require.Positive(t, p.agent.upserts())
	require.Positive(t, p.team.upserts())
	require.Empty(t, p.said())
}

// Search attributes are removed while runs are parked. The server refuses what would be written, and the task is tried
// again; soon the runs notice, write no more, and go on.
func TestSearchAttributesRemovedWhileParked(t *testing.T) {
	t.Parallel()
	p := newPlace(t, ours())
	p.open(oneAsk)
	agent, team := p.park()
	p.remove(protocol.AttrStatus, protocol.AttrRoot)
	p.agent.answer(agent, approval.Allow)
	p.team.answer(resolution(team, approval.Allow, ""))
	p.ended()
	for _, w := range []*world{p.agent, p.team.world} {
		require.LessOrEqual(t, len(w.failedTasks()), 3)
		for _, f := range w.failedTasks() {
			require.Contains(t, f, "BadSearchAttributes")
		}
	}
	require.Len(t, p.said(), 2, "once for each of the two workers")
	later := newWorldAt(t, p.agent.c, t.TempDir())
	later.queue = p.agent.queue
	later.start(protocol.AgentInput{})
	later.pending(1)
	require.Zero(t, later.upserts())
	require.Empty(t, later.failedTasks())
}

// The same while no worker runs, and the runs end without an answer that could bring the news: cancelled, and abandoned.
func TestSearchAttributesRemovedWithoutAWorker(t *testing.T) {
	t.Parallel()
	p := newPlace(t, ours())
	stop := p.open(oneAsk)
	p.park()
	stop()
	p.remove(protocol.AttrStatus, protocol.AttrRoot, protocol.AttrAgent, protocol.AttrPendingTool)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, p.agent.c.CancelWorkflow(ctx, p.agent.id, ""))
	require.NoError(t, p.agent.c.CancelWorkflow(ctx, p.team.id, ""))
	p.open(oneAsk)
	require.Equal(t, protocol.Cancelled, p.agent.result().Status)
	require.Equal(t, []string{"DENIED/cancelled"}, p.team.shipped())
	for _, w := range []*world{p.agent, p.team.world} {
		require.LessOrEqual(t, len(w.failedTasks()), 3)
	}
}

// Attributes that are added while runs are parked are used from the next answer on, also by agents that began without.
func TestSearchAttributesAddedWhileParked(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	stop := p.open(oneAsk)
	agent, team := p.park()
	stop()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := p.agent.c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: p.name, SearchAttributes: ours()})
	require.NoError(t, err)
	p.open(oneAsk)
	p.agent.answer(agent, approval.Allow)
	p.team.answer(resolution(team, approval.Allow, ""))
	p.ended()
	require.Positive(t, p.agent.upserts())
	require.Positive(t, p.team.upserts())
	require.Eventually(t, func() bool {
		resp, err := p.agent.c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: p.name,
			Query: "AssentStatus='done' AND AssentAgent='p' AND AssentRoot='" + p.agent.id + "'"})
		return err == nil && len(resp.GetExecutions()) == 1
	}, patience, tick)
}
