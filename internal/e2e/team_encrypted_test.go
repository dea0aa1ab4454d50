package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// What must not be seen by who has no key. Each is long enough that its base64 is no accident.
const (
	secretArgument = "s3cret-argument-8c1f"
	secretResult   = "s3cret-result-77ab"
	secretReason   = "s3cret-reason-d41d"
	secretPrompt   = "s3cret-prompt-90ae"
)

// public is everything that the server keeps or hands out of a run to somebody without the team's key.
func (w *world) public(queries ...string) map[string]string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	show := func(m proto.Message) string {
		b, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(m)
		require.NoError(w.t, err)
		return string(b)
	}
	out := map[string]string{"history": show(&historypb.History{Events: w.history()})}
	described, err := w.c.DescribeWorkflow(ctx, w.id, "")
	require.NoError(w.t, err)
	out["description"] = show(described.RawResponse)
	for _, q := range append(queries, "__temporal_workflow_metadata", "__stack_trace") {
		answer, err := w.c.WorkflowService().QueryWorkflow(ctx, &workflowservice.QueryWorkflowRequest{Namespace: "default",
			Execution: &commonpb.WorkflowExecution{WorkflowId: w.id}, Query: &querypb.WorkflowQuery{QueryType: q}})
		require.NoError(w.t, err)
		out[q] = show(answer)
	}
	return out
}

// hides requires that no secret is in any of the texts, as it is or in base64 at any of the three alignments.
func hides(t *testing.T, texts map[string]string, secrets ...string) {
	t.Helper()
	for where, text := range texts {
		for _, s := range secrets {
			forms := []string{s}
			for pad := range 3 {
				for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
					b := enc.EncodeToString([]byte(strings.Repeat("x", pad) + s))
					// The first and last characters hold bits of the neighbours.
					forms = append(forms, b[2+pad:len(b)-3])
				}
			}
			for _, f := range forms {
				if i := strings.Index(text, f); i >= 0 {
					require.Fail(t, "a secret is seen", "%s in the %s: …%s…", s, where, text[max(0, i-200):min(len(text), i+100)])
				}
			}
		}
	}
}

// A search that finds nothing anywhere would prove nothing.
func TestHidesFinds(t *testing.T) {
	t.Parallel()
	for _, text := range []string{secretResult, base64.StdEncoding.EncodeToString([]byte(`{"a":"` + secretResult + `"}`)),
		base64.StdEncoding.EncodeToString([]byte(`{"ab":"` + secretResult + `"}`)), base64.StdEncoding.EncodeToString([]byte(`{"abc":"` + secretResult + `"}`))} {
		found := false
		for pad := range 3 {
			b := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", pad) + secretResult))
			found = found || strings.Contains(text, b[2+pad:len(b)-3])
		}
		require.True(t, found || strings.Contains(text, secretResult), text)
	}
}

// vault is a workflow with secrets: each of its calls is asked, and its last refusal is its own failure.
func vault(ctx workflow.Context, secrets []string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	var out string
	for _, s := range secrets[:len(secrets)-1] {
		if err := workflow.ExecuteActivity(ctx, "Open", order{Service: "vault", Token: s}).Get(ctx, &out); err != nil {
			return "", err
		}
	}
	return out, workflow.ExecuteActivity(ctx, "Open", order{Service: "vault", Token: secrets[len(secrets)-1]}).Get(ctx, &out)
}

// vault adds the workflow with secrets and its activity.
func (m *team) vault() {
	m.guard.Tools["Open"] = tool.Options{Risk: tool.Execute}
	m.register = func(wk sdkworker.Worker) {
		wk.RegisterWorkflowWithOptions(vault, workflow.RegisterOptions{Name: "Vault"})
		wk.RegisterActivityWithOptions(func(_ context.Context, o order) (string, error) {
			return secretResult, appendLine(m.effects, o.Token)
		}, activity.RegisterOptions{Name: "Open"})
	}
}

// A team's encryption: a guarded workflow that is asked, answered by every way there is, refused at last, and whose
// failure says so. Nobody without the key sees any of it, and an answer of somebody without the key arrives.
func TestGuardedWorkflowUnderTheirEncryption(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*team, *sealer){
		"on client and worker": func(m *team, s *sealer) { m.onClient = true },
		"on the worker alone":  func(m *team, s *sealer) { m.guard.DataConverter = s.converter() },
		"strict":               func(m *team, s *sealer) { m.onClient, s.strict = true, true },
		"with a failure converter": func(m *team, s *sealer) {
			m.onClient = true
			m.client.FailureConverter = temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
				DataConverter: s.converter(), EncodeCommonAttributes: true})
		},
		"bound to a workflow": func(m *team, s *sealer) { m.onClient, s.bound = true, true },
		"strict and bound, worker alone": func(m *team, s *sealer) {
			s.bound, s.strict = true, true
			m.guard.DataConverter = s.converter()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newTeam(t)
			s := newSealer()
			set(m, s)
			m.client.DataConverter = s.converter()
			m.vault()
			m.work()
			run := m.begin("Vault", []string{secretArgument + "1", secretArgument + "2", secretArgument + "3", secretArgument + "4", secretArgument + "5"})
			out := m.outsider()

			q := m.pending(1)[0]
			require.Contains(t, string(q.Input), secretArgument+"1", "who has the key sees it")
			require.Contains(t, m.details(), secretArgument+"1")
			hides(t, m.public(protocol.GuardQueryApprovals), secretArgument, secretResult, secretReason)
			m.allow(q.Key)
			q = m.next(1)
			err := m.resolve(out, map[string]any{"key": q.Key, "decision": "allow"})
			if s.strict {
				// The SDK decodes an update before anybody else sees it. Who sent it is told so at once.
				require.ErrorContains(t, err, "not encrypted")
				m.allow(q.Key)
			} else {
				require.NoError(t, err)
			}
			q = m.next(2)
			m.answer(resolution(q.Key, approval.Allow, secretReason))
			q = m.next(3)
			require.NoError(t, m.resolve(m.c, resolution(q.Key, approval.Allow, secretReason)))
			q = m.next(4)
			m.answer(resolution(q.Key, approval.Deny, secretReason))

			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			err = run.Get(ctx, nil)
			var app *temporal.ApplicationError
			require.True(t, errors.As(err, &app), "%v", err)
			require.Equal(t, protocol.ErrorDenied, app.Type())
			var r tool.Result
			require.NoError(t, app.Details(&r))
			require.Equal(t, tool.ByPerson, r.Failure.Reason)
			if m.client.FailureConverter != nil {
				require.Contains(t, r.Failure.Message, secretReason, "who has the key is told why")
			}
			require.Equal(t, []string{secretArgument + "1", secretArgument + "2", secretArgument + "3", secretArgument + "4"}, m.ran())
			require.Empty(t, m.failedTasks())
			hides(t, m.public(protocol.GuardQueryApprovals), secretArgument, secretResult, secretReason)
		})
	}
}

// next is the question after n others have closed.
func (m *team) next(n int) approval.Approval {
	m.t.Helper()
	return m.until(func(l approval.List) bool { return len(l.Closed) == n && len(l.Pending) == 1 }).Pending[0]
}

// An agent under the team's encryption: its prompt, arguments, results and answers are seen by who has the key.
func TestAgentUnderTheirEncryption(t *testing.T) {
	t.Parallel()
	for name, onClient := range map[string]bool{"on client and worker": true, "on the worker alone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := newSealer()
			script := `
turns:
  - say: look first
    calls: [{tool: look, args: {text: ` + secretArgument + `1}}, {tool: hidden, args: {text: ` + secretArgument + `2}}]
  - calls: [{tool: hidden, args: {text: ` + secretArgument + `3}}, {tool: hidden, args: {text: ` + secretArgument + `4}}]
  - say: ` + secretResult + `
`
			setup := askingWith(script)
			cfg, done, err := engine(setup, nil, w.effects, w.blobs)
			require.NoError(t, err)
			t.Cleanup(done)
			cfg.Tools = append(cfg.Tools, tool.MustNew("hidden", "Keeps a secret.", func(_ context.Context, _ *tool.Context, in noteIn) (string, error) {
				return secretResult, appendLine(w.effects, in.Text)
			}, tool.Execute))
			p := cfg.Profiles["p"]
			p.Tools = append(p.Tools, "hidden")
			cfg.Profiles["p"] = p
			if !onClient {
				cfg.DataConverter = s.converter()
			}
			plug, err := worker.New(cfg)
			require.NoError(t, err)
			opts := client.Options{HostPort: address(t), RPCTimeout: rpcPatience, DataConverter: s.converter(), Identity: "team", Logger: sdklog.NewStructuredLogger(logger())}
			if onClient {
				opts.Plugins = []client.Plugin{plug}
			}
			outsider := w.c
			w.c, err = client.Dial(opts)
			require.NoError(t, err)
			t.Cleanup(w.c.Close)
			w.converter = s.converter()
			w.workWith(plug)
			w.start(protocol.AgentInput{Prompt: secretPrompt})

			q := w.pending(1)[0]
			require.Contains(t, w.details(), secretArgument+"2")
			hides(t, w.public(protocol.QueryApprovals), secretArgument, secretResult, secretReason, secretPrompt)
			require.NoError(t, outsider.SignalWorkflow(context.Background(), w.id, "", protocol.SignalApproval, plainly(`{"key":"`+q.Key+`","decision":"allow"}`)))
			require.Eventually(t, func() bool { l, err := w.list(); return err == nil && len(l.Closed) == 1 && len(l.Pending) == 2 }, patience, tick)
			two := w.pending(2)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			h, err := outsider.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: w.id, UpdateName: protocol.UpdateResolve,
				Args: []any{map[string]any{"key": two[0].Key, "decision": "allow"}}, WaitForStage: client.WorkflowUpdateStageCompleted})
			require.NoError(t, err)
			require.NoError(t, err, h)
			require.NoError(t, w.c.SignalWorkflow(ctx, w.id, "", protocol.SignalApproval, resolution(two[1].Key, approval.Deny, secretReason)))

			res := w.result()
			require.Equal(t, protocol.OK, res.Status, res.Error)
			require.Equal(t, secretResult, res.Output)
			require.Equal(t, []string{"OK", "OK", "OK", "DENIED/person"}, w.codes(res))
			require.Empty(t, w.failedTasks())
			require.Equal(t, 2, w.markers(s.converter(), protocol.ActivityDecideTurn))
			hides(t, w.public(protocol.QueryApprovals), secretArgument, secretResult, secretReason, secretPrompt)
		})
	}
}

// A converter that writes members in another order, and one argument that is a protobuf message: what is shown is the
// value, what runs is the value.
func TestOtherConverters(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.client.DataConverter = otherOrder()
	m.onClient = true
	m.guard.Tools["Stop"] = tool.Options{Risk: tool.Destructive}
	m.register = func(wk sdkworker.Worker) {
		wk.RegisterWorkflowWithOptions(func(ctx workflow.Context, o order) (string, error) {
			ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
			var out string
			if err := workflow.ExecuteActivity(ctx, "Deploy", o).Get(ctx, &out); err != nil {
				return "", err
			}
			e := &commonpb.WorkflowExecution{WorkflowId: "fix-1", RunId: "r"}
			f := workflow.ExecuteActivity(ctx, "Stop", e)
			e.WorkflowId = "changed after the call"
			return out, f.Get(ctx, &out)
		}, workflow.RegisterOptions{Name: "Both"})
		wk.RegisterActivityWithOptions(func(_ context.Context, e *commonpb.WorkflowExecution) (string, error) {
			return "stopped " + e.GetWorkflowId() + " " + e.GetRunId(), nil
		}, activity.RegisterOptions{Name: "Stop"})
	}
	m.work()
	run := m.begin("Both", order{Service: "api", Token: "t"})
	q := m.pending(1)[0]
	require.JSONEq(t, `{"service":"api","token":"t"}`, string(q.Input))
	m.allow(q.Key)
	q = m.next(1)
	require.JSONEq(t, `{"workflowId":"fix-1","runId":"r"}`, string(q.Input))
	require.NoError(t, m.resolve(m.c, resolution(q.Key, approval.Allow, "")))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out string
	require.NoError(t, run.Get(ctx, &out))
	require.Equal(t, "stopped fix-1 r", out)
	require.Empty(t, m.failedTasks())
	for _, e := range m.history() {
		if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == "Deploy" {
			require.True(t, strings.HasPrefix(string(a.GetInput().GetPayloads()[0].GetData()), `{ "token" :`), "the team's own encoding is what runs")
		}
	}
}

// An agent under a converter with another order of members: digests are of values, so nothing is refused.
func TestAgentUnderAnotherConverter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plug, done, err := plugin(askingWith(oneAsk), nil, w.effects, w.blobs)
	require.NoError(t, err)
	t.Cleanup(done)
	w.c, err = client.Dial(client.Options{HostPort: address(t), RPCTimeout: rpcPatience, DataConverter: otherOrder(), Plugins: []client.Plugin{plug},
		Logger: sdklog.NewStructuredLogger(logger())})
	require.NoError(t, err)
	t.Cleanup(w.c.Close)
	w.workWith(plug)
	w.start(protocol.AgentInput{Permissions: &protocol.Tighten{Deny: []permission.Rule{{Tool: permission.One("note")}}}})
	w.answer(w.pending(1)[0].Key, approval.Allow)
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"run a"}, w.ran())
	require.Zero(t, count(w.history(), enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED))
}

func strictSealer() *sealer {
	s := newSealer()
	s.strict = true
	return s
}

// Answers in an encoding of the team's own count as those in plain JSON, alone and below a codec: as signals and as updates.
func TestAnswersInAnEncodingOfTheirOwn(t *testing.T) {
	t.Parallel()
	for name, dc := range map[string]converter.DataConverter{
		"alone": renamingConverter(), "below a codec": converter.NewCodecDataConverter(renamingConverter(), newSealer()),
		"below a strict codec": converter.NewCodecDataConverter(renamingConverter(), strictSealer()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			plug, done, err := plugin(askingWith("turns: [{calls: [{tool: run, args: {text: a}}, {tool: run, args: {text: b}}, {tool: run, args: {text: c}}]}, {say: done}]"), nil, w.effects, w.blobs)
			require.NoError(t, err)
			t.Cleanup(done)
			w.c, err = client.Dial(client.Options{HostPort: address(t), RPCTimeout: rpcPatience, DataConverter: dc, Plugins: []client.Plugin{plug}, Logger: sdklog.NewStructuredLogger(logger())})
			require.NoError(t, err)
			t.Cleanup(w.c.Close)
			w.converter = dc
			w.workWith(plug)
			w.start(protocol.AgentInput{})
			q := w.pending(3)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			require.NoError(t, w.c.SignalWorkflow(ctx, w.id, "", protocol.SignalApproval, resolution(q[0].Key, approval.Allow, "")))
			_, err = w.c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: w.id, UpdateName: protocol.UpdateResolve,
				Args: []any{map[string]any{"key": "nobody", "decision": "allow"}}, WaitForStage: client.WorkflowUpdateStageCompleted})
			require.NoError(t, err)
			h, err := w.c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: w.id, UpdateName: protocol.UpdateResolve,
				Args: []any{resolution(q[1].Key, approval.Deny, "not b")}, WaitForStage: client.WorkflowUpdateStageCompleted})
			require.NoError(t, err)
			require.NoError(t, h.Get(ctx, nil))
			w.answer(q[2].Key, approval.Allow) // in plain JSON, as the temporal command does
			res := w.result()
			require.Equal(t, protocol.OK, res.Status, res.Error)
			require.Equal(t, []string{"OK", "DENIED/person", "OK"}, w.codes(res))
			require.Empty(t, w.failedTasks())
			require.Equal(t, []string{"run a", "run c"}, w.ran())
		})
	}
}

// A short answer of which the team's converter makes a long one is refused like a long one, and is not written into history: the
// server refuses what is too large there, and ends the run.
func TestAnswersThatBecomeLong(t *testing.T) {
	t.Parallel()
	dc := converter.NewCompositeDataConverter(converter.NewNilPayloadConverter(), converter.NewByteSlicePayloadConverter(),
		converter.NewProtoJSONPayloadConverter(), packing{})
	w := newWorld(t)
	plug, done, err := plugin(askingWith("turns: [{calls: [{tool: run, args: {text: a}}]}, {say: done}]"), nil, w.effects, w.blobs)
	require.NoError(t, err)
	t.Cleanup(done)
	w.c, err = client.Dial(client.Options{HostPort: address(t), RPCTimeout: rpcPatience, DataConverter: dc, Plugins: []client.Plugin{plug}, Logger: sdklog.NewStructuredLogger(logger())})
	require.NoError(t, err)
	t.Cleanup(w.c.Close)
	w.converter = dc
	w.workWith(plug)
	w.start(protocol.AgentInput{})
	q := w.pending(1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	long := resolution(q[0].Key, approval.Allow, string(zeros))
	require.NoError(t, w.c.SignalWorkflow(ctx, w.id, "", protocol.SignalApproval, long))
	h, err := w.c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: w.id, UpdateName: protocol.UpdateResolve,
		Args: []any{long}, WaitForStage: client.WorkflowUpdateStageCompleted})
	require.NoError(t, err)
	require.ErrorContains(t, h.Get(ctx, nil), "bytes, at most 65536 are read")
	w.answer(q[0].Key, approval.Allow)
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"run a"}, w.ran())
	require.Empty(t, w.failedTasks())
}
