package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	querypb "go.temporal.io/api/query/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
)

// literal is a JSON document that stands in a program, on one line that says its name.
var literal = regexp.MustCompile(`(?m)= (\{.*\});? +(?://|#) json: (\w+)$`)

// snippet returns the program that docs/services.md has in a language, and the literals in it.
func snippet(t *testing.T, language string) (program string, literals map[string]string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(docs, "services.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "\n```"+language+"\n")
	require.True(t, found)
	program, _, found = strings.Cut(rest, "\n```\n")
	require.True(t, found)
	literals = map[string]string{}
	for _, m := range literal.FindAllStringSubmatch(program, -1) {
		require.True(t, json.Valid([]byte(m[1])), m[1])
		literals[m[2]] = m[1]
	}
	return program, literals
}

// strictly decodes a document, which may say nothing that we do not know.
func strictly(t *testing.T, text string, into any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(into), text)
}

// What the TypeScript and the Python program of the page send is what an agent understands, and what they get is what
// the Go client gets.
func TestServicesInOtherLanguages(t *testing.T) {
	t.Parallel()
	for language, byUpdate := range map[string]bool{"ts": false, "python": true} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			program, literals := snippet(t, language)
			for _, name := range []string{protocol.WorkflowAgent, protocol.QueryApprovals, protocol.SignalApproval, protocol.UpdateResolve} {
				require.Regexp(t, `['"]`+regexp.QuoteMeta(name)+`['"]`, program)
			}
			strictly(t, literals["input"], &protocol.AgentInput{})
			strictly(t, literals["answer"], &protocol.Resolution{})

			w := newWorld(t)
			w.work(askingWith(oneAsk))
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			execution := &commonpb.WorkflowExecution{WorkflowId: w.id}
			_, err := w.c.WorkflowService().StartWorkflowExecution(ctx, &workflowservice.StartWorkflowExecutionRequest{
				Namespace: "default", WorkflowId: w.id, RequestId: uuid.NewString(),
				WorkflowType: &commonpb.WorkflowType{Name: protocol.WorkflowAgent},
				TaskQueue:    &taskqueuepb.TaskQueue{Name: w.queue},
				Input:        raw("json/plain", strings.Replace(literals["input"], "fixer", "p", 1)),
			})
			require.NoError(t, err)
			q := w.pending(1)[0]

			got, err := w.c.WorkflowService().QueryWorkflow(ctx, &workflowservice.QueryWorkflowRequest{Namespace: "default", Execution: execution,
				Query: &querypb.WorkflowQuery{QueryType: protocol.QueryApprovals}})
			require.NoError(t, err)
			l := w.lists()
			require.Equal(t, q.Key, l.Pending[0].Key)
			samePayload(t, l, got.QueryResult)

			yes := strings.Replace(literals["answer"], "KEY", q.Key, 1)
			if byUpdate {
				done, err := w.c.WorkflowService().UpdateWorkflowExecution(ctx, &workflowservice.UpdateWorkflowExecutionRequest{
					Namespace: "default", WorkflowExecution: execution,
					WaitPolicy: &updatepb.WaitPolicy{LifecycleStage: enumspb.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED},
					Request: &updatepb.Request{Meta: &updatepb.Meta{UpdateId: uuid.NewString()},
						Input: &updatepb.Input{Name: protocol.UpdateResolve, Args: raw("json/plain", yes)}},
				})
				require.NoError(t, err)
				samePayload(t, protocol.Accepted{Key: q.Key, Decision: approval.Allow}, done.GetOutcome().GetSuccess())
			} else {
				w.wire(protocol.SignalApproval, raw("json/plain", yes))
			}
			res := w.result()
			require.Equal(t, protocol.OK, res.Status)
			history := w.history()
			samePayload(t, res, history[len(history)-1].GetWorkflowExecutionCompletedEventAttributes().GetResult())
			require.Equal(t, []string{"run a"}, w.ran())
			l = w.lists()
			require.Equal(t, "deploy-bot", l.Closed[0].By)
		})
	}
}

// samePayload says that a client without our types reads what a Go client has.
func samePayload(t *testing.T, value any, got *commonpb.Payloads) {
	t.Helper()
	want, err := json.Marshal(value)
	require.NoError(t, err)
	require.Len(t, got.GetPayloads(), 1)
	require.Equal(t, "json/plain", string(got.Payloads[0].Metadata["encoding"]))
	require.JSONEq(t, string(want), string(got.Payloads[0].Data))
}

// The documents of docs/payloads say nothing that the protocol does not have.
func TestServicePayloadsAreOurs(t *testing.T) {
	t.Parallel()
	read := func(name string, path ...any) string {
		text, err := os.ReadFile(filepath.Join(docs, "payloads", name))
		require.NoError(t, err)
		var doc any
		require.NoError(t, json.NewDecoder(bytes.NewReader(text)).Decode(&doc), name)
		inner, err := json.Marshal(at(doc, path...))
		require.NoError(t, err)
		return string(inner)
	}
	var in protocol.AgentInput
	strictly(t, read("start-agent.json", "input", 0), &in)
	require.NoError(t, in.Validate())
	for name, want := range map[string]approval.Choice{"approve.json": approval.Allow, "deny.json": approval.Deny} {
		var r protocol.Resolution
		strictly(t, read(name, "input", 0), &r)
		require.Equal(t, want, r.Decision)
	}
	var r protocol.Resolution
	strictly(t, read("resolve.json", "request", "input", "args", 0), &r)
	require.Equal(t, approval.Allow, r.Decision)
}
