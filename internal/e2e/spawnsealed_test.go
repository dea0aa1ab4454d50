package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/history"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
	"github.com/assent-dev/assent/workflows"
)

// A tree of agents under the team's encryption: budgets, inherited rules, answers from above and reuse work, and nobody without
// the key sees a prompt, a rule or a reason.
func TestSpawnUnderTheirEncryption(t *testing.T) {
	t.Parallel()
	for name, bound := range map[string]bool{"one key": false, "bound to a workflow": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(t), newSealer()
			s.bound = bound
			c, err := client.Dial(client.Options{HostPort: address(t), RPCTimeout: rpcPatience, DataConverter: s.converter(), Identity: "team", Logger: sdklog.NewStructuredLogger(logger())})
			require.NoError(t, err)
			t.Cleanup(c.Close)
			w.c, w.converter = c, s.converter()
			cost := ", usage: {outputTokens: 1000}"
			lead := "turns:\n  - {calls: [{tool: delegate, args: {prompt: " + secretPrompt + "}}]" + cost + "}\n  - {say: done" + cost + "}\n"
			heir := "turns:\n  - {calls: [{tool: run, args: {text: a}}, {tool: note, args: {text: b}}]" + cost + "}\n  - {say: done}\n"
			w.planning(setup{Script: speaks, Keys: true}, map[string]string{"lead": lead, "heir": heir}, map[string]any{
				"Delegate": func(ctx workflow.Context, in map[string]string) (string, error) {
					c := workflows.Spawn(ctx, task("heir", in["prompt"]))
					_, err := c.Get(ctx)
					return c.ID(), err
				}}, pricing("lead", "heir"), func(cfg *worker.Config) {
				cfg.DataConverter = s.converter()
				d, err := tool.FromWorkflow("delegate", "Plans.", json.RawMessage(`{"type":"object","properties":{"prompt":{"type":"string"}}}`), "Delegate", w.queue, tool.Read)
				require.NoError(t, err)
				cfg.Tools = append(cfg.Tools, d)
				l, h := cfg.Profiles["lead"], cfg.Profiles["heir"]
				l.Tools, h.Permissions = []string{"delegate"}, permission.Layer{Preset: permission.Standard, InheritPermissions: true}
				cfg.Profiles["lead"], cfg.Profiles["heir"] = l, h
			})
			in, usd := task("lead", "go"), 2.0
			in.BudgetUSD, in.Permissions = &usd, &protocol.Tighten{Deny: []permission.Rule{{Tool: permission.One("note"), Reason: secretReason}}}
			run := w.plans(w.id, protocol.WorkflowAgent, in)
			var ids []string
			var key string
			require.Eventually(t, func() bool {
				ids = nil
				id, query := w.id, protocol.QueryApprovals
				for range 2 {
					l, err := w.listOf(id, query)
					if err != nil || len(l.Children) != 1 {
						return false
					}
					id, query = l.Children[0].WorkflowID, protocol.GuardQueryApprovals
					ids = append(ids, id)
				}
				l, err := w.listOf(id, protocol.QueryApprovals)
				if err == nil && len(l.Pending) == 1 {
					key = l.Pending[0].Key
				}
				return key != ""
			}, patience, tick)
			b, err := json.Marshal(approval.Resolution{Key: key, Decision: approval.Allow, Reason: secretReason})
			require.NoError(t, err)
			require.NoError(t, c.SignalWorkflow(context.Background(), w.id, "", protocol.SignalApproval, json.RawMessage(b)))
			var res protocol.AgentResult
			w.got(run, &res)
			require.Equal(t, protocol.OK, res.Status, res.Error)
			require.InDelta(t, 0.1, res.BelowUSD, 0.01)
			require.Equal(t, []string{"run a"}, w.ran(), "note was denied by the rule of the lead's own input")
			seen := map[string]string{}
			for i, id := range append(ids, w.id) {
				h := &historypb.History{}
				for e, err := range history.Read(context.Background(), w.c, id, "") {
					require.NoError(t, err)
					h.Events = append(h.Events, e)
				}
				text, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(h)
				require.NoError(t, err)
				seen[fmt.Sprint("history ", i)] = string(text)
			}
			hides(t, seen, secretPrompt, secretReason)

			var first, second protocol.AgentResult
			again := task("p", "once "+w.id)
			w.got(w.plans(w.id+"-1", "Again", again), &first)
			w.got(w.plans(w.id+"-2", "Again", again), &second)
			require.Equal(t, first, second)
			require.Empty(t, w.begot(w.id+"-2"))
		})
	}
}
