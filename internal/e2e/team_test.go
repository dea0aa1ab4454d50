package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// order is what the team's guarded activity takes.
type order struct {
	Service string `json:"service"`
	Token   string `json:"token,omitempty"`
}

// shipping is the input of the team's workflow.
type shipping struct {
	Orders []order `json:"orders"`
	// Parallel deploys all at once instead of one after another.
	Parallel bool `json:"parallel,omitempty"`
	// Fail returns the first refusal as the workflow's own error.
	Fail bool `json:"fail,omitempty"`
}

// ship is a workflow of the team's own: it deploys what it is told and says what became of each.
func ship(ctx workflow.Context, in shipping) ([]string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, MaximumAttempts: 20}})
	futures := make([]workflow.Future, len(in.Orders))
	out := make([]string, len(in.Orders))
	for i, o := range in.Orders {
		futures[i] = workflow.ExecuteActivity(ctx, "Deploy", o)
		if !in.Parallel {
			_ = futures[i].Get(ctx, nil) // read below
		}
	}
	for i, f := range futures {
		err := f.Get(ctx, &out[i])
		if err != nil && in.Fail {
			return nil, err
		}
		if err != nil {
			out[i] = refusal(err)
		}
	}
	return out, nil
}

// refusal says in one word why a call did not run.
func refusal(err error) string {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		return "error: " + err.Error()
	}
	var r tool.Result
	if app.Type() != protocol.ErrorDenied || app.Details(&r) != nil || r.Failure == nil {
		return app.Type() + ": " + app.Message()
	}
	return string(r.Code) + "/" + string(r.Failure.Reason)
}

// team is a team with a worker, a workflow and an activity of its own, of which the activity is guarded.
type team struct {
	*world
	guard worker.GuardConfig
	// client and worker are what the team itself sets.
	client client.Options
	worker sdkworker.Options
	// register adds to what the team's worker knows.
	register func(sdkworker.Worker)
	// onClient gives the guard to the client too.
	onClient bool
	lines    *lines
}

func newTeam(t *testing.T) *team {
	w := newWorld(t)
	log := &lines{}
	return &team{world: w, lines: log,
		guard: worker.GuardConfig{Tools: map[string]tool.Options{"Deploy": {Risk: tool.Execute}}, Enforce: activities.On,
			Permissions: permission.Layer{Preset: permission.Standard}, GrantKeys: []protocol.GrantKey{grantKey}, DecideTimeout: 20 * time.Second, Log: log.logger()},
		client: client.Options{HostPort: devservertest.Server(t).Address(), RPCTimeout: rpcPatience, Identity: "team", Logger: sdklog.NewStructuredLogger(logger())},
		worker: sdkworker.Options{DeadlockDetectionTimeout: deadlock},
	}
}

// work dials as the team does and starts its worker with the guard.
func (m *team) work() sdkworker.Worker {
	m.t.Helper()
	g, err := worker.NewGuard(m.guard)
	require.NoError(m.t, err)
	copts := m.client
	if m.onClient {
		copts.Plugins = append(slices.Clone(copts.Plugins), g)
	}
	c, err := client.Dial(copts)
	require.NoError(m.t, err)
	m.t.Cleanup(c.Close)
	m.c = c
	if m.converter = m.guard.DataConverter; m.converter == nil {
		m.converter = m.client.DataConverter
	}
	wopts := m.worker
	wopts.Plugins = append(slices.Clone(wopts.Plugins), g)
	wk := sdkworker.New(c, m.queue, wopts)
	wk.RegisterWorkflowWithOptions(ship, workflow.RegisterOptions{Name: "Ship"})
	wk.RegisterActivityWithOptions(m.deploy, activity.RegisterOptions{Name: "Deploy"})
	if m.register != nil {
		m.register(wk)
	}
	require.NoError(m.t, wk.Start())
	m.t.Cleanup(wk.Stop)
	return wk
}

func (m *team) deploy(_ context.Context, o order) (string, error) {
	return "deployed " + o.Service, appendLine(m.effects, "deploy "+o.Service+" "+o.Token)
}

func (m *team) begin(workflowType string, args ...any) client.WorkflowRun {
	m.t.Helper()
	run, err := m.c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: m.id, TaskQueue: m.queue}, workflowType, args...)
	require.NoError(m.t, err)
	return run
}

func (m *team) ship(orders ...order) client.WorkflowRun {
	m.t.Helper()
	return m.begin("Ship", shipping{Orders: orders})
}

// shipped is the result of the team's workflow.
func (m *team) shipped() []string {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out []string
	require.NoError(m.t, m.c.GetWorkflow(ctx, m.id, "").Get(ctx, &out))
	return out
}

func (m *team) list() (approval.List, error) { return m.listOf(m.id, protocol.GuardQueryApprovals) }

func (m *team) lists() approval.List {
	m.t.Helper()
	return m.until(func(approval.List) bool { return true })
}

// until waits for the list of questions to be as told.
func (m *team) until(ok func(approval.List) bool) approval.List {
	m.t.Helper()
	var l approval.List
	require.Eventually(m.t, func() bool {
		var err error
		l, err = m.list()
		return err == nil && ok(l)
	}, patience, tick)
	return l
}

func (m *team) pending(n int) []approval.Approval {
	m.t.Helper()
	return m.until(func(l approval.List) bool { return len(l.Pending) == n }).Pending
}

// plainly signals raw JSON past the team's converter, as the temporal command does.
func plainly(raw string) converter.RawValue {
	return converter.NewRawValue(&commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(raw)})
}

// outsider is a client without the team's converter: the temporal command, the UI.
func (m *team) outsider() client.Client { return dial(m.t, m.client.HostPort) }

// send signals as the temporal command does.
func (m *team) send(raw string) {
	m.t.Helper()
	require.NoError(m.t, m.outsider().SignalWorkflow(context.Background(), m.id, "", protocol.GuardSignalApproval, plainly(raw)))
}

func (m *team) allow(key string) {
	m.t.Helper()
	m.send(`{"key":"` + key + `","decision":"allow"}`)
}

// resolve answers by update, with a client of the caller's choice.
func (m *team) resolve(c client.Client, arg any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h, err := c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: m.id, UpdateName: protocol.GuardUpdateResolve,
		Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err != nil {
		return err
	}
	return h.Get(ctx, nil)
}

// about is the question on a service.
func about(t testing.TB, list []approval.Approval, service string) approval.Approval {
	for _, q := range list {
		var o order
		require.NoError(t, json.Unmarshal(q.Input, &o))
		if o.Service == service {
			return q
		}
	}
	require.Fail(t, "no question about "+service)
	return approval.Approval{}
}

func resolution(key string, choice approval.Choice, reason string) approval.Resolution {
	return approval.Resolution{Key: key, Decision: choice, Reason: reason}
}

// answer signals with the team's own client.
func (m *team) answer(r approval.Resolution) {
	m.t.Helper()
	require.NoError(m.t, m.c.SignalWorkflow(context.Background(), m.id, "", protocol.GuardSignalApproval, r))
}

// failedTasks are the causes and texts of failed workflow tasks. Those that lose a race with a signal are none.
func (w *world) failedTasks() []string {
	w.t.Helper()
	var out []string
	for _, e := range w.history() {
		a := e.GetWorkflowTaskFailedEventAttributes()
		switch {
		case a == nil, a.GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND:
		case a.GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND:
			// The server's own: more than a hundred signals came while one task ran, and the next task takes them.
		default:
			out = append(out, a.GetCause().String()+": "+a.GetFailure().GetMessage())
		}
	}
	return out
}

// markers counts the local activities of a type that history records. Their data is read with dc.
func (w *world) markers(dc converter.DataConverter, name string) int {
	w.t.Helper()
	n := 0
	for _, e := range w.history() {
		for _, p := range e.GetMarkerRecordedEventAttributes().GetDetails()["data"].GetPayloads() {
			var data struct{ ActivityType string }
			if dc.FromPayload(p, &data) == nil && data.ActivityType == name {
				n++
			}
		}
	}
	return n
}

func count(h []*historypb.HistoryEvent, kind enumspb.EventType) int {
	n := 0
	for _, e := range h {
		if e.GetEventType() == kind {
			n++
		}
	}
	return n
}

// asJSON is a value as JSON, for messages and searches.
func asJSON(t testing.TB, v any) string {
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

func deployed(services ...string) []string {
	out := make([]string, len(services))
	for i, s := range services {
		out[i] = fmt.Sprintf("deployed %s", s)
	}
	return out
}

// address is where the shared server listens.
func address(t testing.TB) string { return devservertest.Server(t).Address() }

// slowly is a workflow of the team with one activity that takes its time.
func slowly(ctx workflow.Context, o order) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Minute})
	var out string
	return out, workflow.ExecuteActivity(ctx, "Build", o).Get(ctx, &out)
}

func workflowNamed(name string) workflow.RegisterOptions { return workflow.RegisterOptions{Name: name} }
