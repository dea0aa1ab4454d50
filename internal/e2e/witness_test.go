package e2e

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/e2e/replaytest"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// effect is one line that a tool of a build wrote.
type effect struct{ call, tool, text, key string }

// written returns the effects of one run, by call id.
func (w *world) written(runID string) map[string][]effect {
	w.t.Helper()
	b, err := os.ReadFile(w.effects)
	if !os.IsNotExist(err) {
		require.NoError(w.t, err)
	}
	out := map[string][]effect{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) == 5 && f[0] == runID {
			out[f[1]] = append(out[f[1]], effect{f[1], f[2], f[3], f[4]})
		}
	}
	return out
}

// witness is what history says of the decisions of one run.
type witness struct {
	history []*historypb.HistoryEvent
	// decided are the recorded decisions by call id, drifted ones among them; admitted are the answers by key.
	decided  map[string][]protocol.DecideResponse
	admitted map[string][]protocol.AdmitResponse
}

func (w *world) witness() witness {
	w.t.Helper()
	out := witness{history: w.history(), decided: map[string][]protocol.DecideResponse{}, admitted: map[string][]protocol.AdmitResponse{}}
	slow := map[int64]string{}
	for _, e := range out.history {
		switch name := e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName(); name {
		case protocol.ActivityDecideSlow, protocol.ActivityAdmitSlow:
			slow[e.EventId] = name
		}
		if a := e.GetActivityTaskCompletedEventAttributes(); slow[a.GetScheduledEventId()] != "" {
			out.note(w.t, slow[a.GetScheduledEventId()], a.Result.Payloads[0].Data)
		}
		a := e.GetMarkerRecordedEventAttributes()
		if a == nil || len(a.GetDetails()["result"].GetPayloads()) == 0 {
			continue
		}
		var of struct{ ActivityType string }
		require.NoError(w.t, json.Unmarshal(a.Details["data"].Payloads[0].Data, &of))
		out.note(w.t, of.ActivityType, a.Details["result"].Payloads[0].Data)
	}
	return out
}

// note keeps one recorded decision or admission.
func (v witness) note(t testing.TB, activityType string, result []byte) {
	switch activityType {
	case protocol.ActivityDecide, protocol.ActivityDecideSlow:
		var d protocol.DecideResponse
		require.NoError(t, json.Unmarshal(result, &d))
		if !d.Slow {
			v.decided[d.CallID] = append(v.decided[d.CallID], d)
		}
	case protocol.ActivityDecideTurn:
		var turn protocol.DecideTurnResponse
		require.NoError(t, json.Unmarshal(result, &turn))
		for _, d := range turn.Decisions {
			if !d.Slow {
				v.decided[d.CallID] = append(v.decided[d.CallID], d)
			}
		}
	case protocol.ActivityAdmit, protocol.ActivityAdmitSlow:
		var d protocol.AdmitResponse
		require.NoError(t, json.Unmarshal(result, &d))
		if !d.Slow {
			v.admitted[d.Key] = append(v.admitted[d.Key], d)
		}
	}
}

// timeouts counts the workflow tasks and activities that were lost with a worker.
func (v witness) timeouts() (tasks, activities int) {
	for _, e := range v.history {
		switch e.EventType {
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
			tasks++
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
			activities++
		}
	}
	return tasks, activities
}

// answered returns one result for each call of the transcript, by our call id, and checks that the model was given
// exactly one for each of its calls, in its order.
func (w *world) answered(res protocol.AgentResult) (order []string, results map[string]model.ToolResult) {
	w.t.Helper()
	msgs, err := activities.ReadTranscript(context.Background(), w.blobs, res.Transcript)
	require.NoError(w.t, err)
	results = map[string]model.ToolResult{}
	turn := 0
	for i, m := range msgs {
		if m.Role != model.Assistant {
			continue
		}
		turn++
		if len(m.Calls) == 0 {
			continue
		}
		require.Greater(w.t, len(msgs), i+1, "the calls of turn %d were not answered", turn)
		require.Len(w.t, msgs[i+1].Results, len(m.Calls), "turn %d", turn)
		for n, c := range m.Calls {
			got := msgs[i+1].Results[n]
			require.Equal(w.t, []string{c.ID, c.Name}, []string{got.CallID, got.Name}, "turn %d, call %d", turn, n+1)
			id := callID(turn, n+1)
			order, results[id] = append(order, id), got
		}
	}
	return order, results
}

// honest checks a run that has ended against its history and its effects: nothing ran that was not allowed, nothing
// that cannot be repeated ran twice, and the model was told the truth about each call. drifted names the tools that
// another build has otherwise, or not at all.
func (w *world) honest(res protocol.AgentResult, runID string, drifted ...string) (told map[tool.Code]int) {
	w.t.Helper()
	v, effects := w.witness(), w.written(runID)
	order, results := w.answered(res)
	told = map[tool.Code]int{}
	for key, a := range v.admitted {
		require.Len(w.t, a, 1, "question %s was closed once", key)
	}
	for id := range effects {
		require.Contains(w.t, results, id, "an effect of a call that nobody made")
	}
	for _, id := range order {
		r := results[id]
		told[r.Result.Code]++
		w.decidedOnce(v, id, r, slices.Contains(drifted, r.Name))
		n := len(effects[id])
		if n > 0 {
			require.True(w.t, v.allowed(id), "call %s had its effect, and nothing in history allows it", id)
		}
		if !repeatable(r.Name) {
			require.LessOrEqual(w.t, n, 1, "call %s (%s) had its effect %d times", id, r.Name, n)
		}
		for _, e := range effects[id] {
			require.Equal(w.t, r.Name, e.tool, id)
			require.Equal(w.t, effects[id][0].key, e.key, "one call has one idempotency key")
		}
		w.toldTheTruth(id, r, n)
	}
	w.soundly(v)
	return told
}

// decidedOnce checks that history has one decision on a call, beside those of workers that could not serve it, and
// that every question was answered.
func (w *world) decidedOnce(v witness, id string, r model.ToolResult, drifted bool) {
	w.t.Helper()
	var real []protocol.DecideResponse
	for _, d := range v.decided[id] {
		if d.Drift == "" {
			real = append(real, d)
			continue
		}
		require.True(w.t, drifted, "call %s of %s drifted: %s", id, r.Name, d.Drift)
	}
	switch r.Result.Code {
	case tool.ContractDrift:
		require.True(w.t, drifted, "call %s of %s was told CONTRACT_DRIFT", id, r.Name)
		require.LessOrEqual(w.t, len(real), 1, id)
	case tool.UnknownTool:
		require.Empty(w.t, real, id)
	default:
		require.Len(w.t, real, 1, "call %s was decided once", id)
	}
	if len(real) == 1 && real[0].Decision.Verdict == permission.Ask {
		require.NotEmpty(w.t, v.how(askKey(real[0])), "the question of call %s was closed", id)
	}
}

// toldTheTruth compares what the model was told of a call with how often its effect is in the file.
func (w *world) toldTheTruth(id string, r model.ToolResult, effects int) {
	w.t.Helper()
	switch r.Result.Code {
	case tool.OK:
		require.Positive(w.t, effects, "call %s was told OK and had no effect", id)
	case tool.EffectUnknown:
		require.NotEqual(w.t, "probe", r.Name, "nothing is unknown about a call that only reads")
	case tool.ToolError:
		if r.Name != "probe" { // it may be lost on its way more often than it is tried again
			require.Equal(w.t, "no worker started the call in time", r.Result.Failure.Message, "call %s", id)
			require.Zero(w.t, effects, id)
		}
	case tool.Denied, tool.ContractDrift:
		require.Zero(w.t, effects, "call %s was told %s and had its effect", id, r.Result.Code)
	case tool.UnknownTool:
		require.Equal(w.t, "extra", r.Name, "call %s", id)
		require.Zero(w.t, effects, id)
	default:
		require.Failf(w.t, "unexpected result", "call %s (%s): %+v", id, r.Name, r.Result)
	}
}

// soundly is sound for a run whose workers were killed: a task that was lost with one is no failure.
func (w *world) soundly(v witness) {
	w.t.Helper()
	for _, e := range v.history {
		if a := e.GetWorkflowTaskFailedEventAttributes(); a != nil {
			require.Equal(w.t, enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND, a.Cause, a.Failure.GetMessage())
		}
	}
	replaytest.Replay(w.t, &historypb.History{Events: v.history})
}

// repeatable are the tools of a build that may run again.
func repeatable(name string) bool { return name == "probe" || name == "put" }

// allowed reports whether history lets a call run: by its decision, or by an answer to its question.
func (v witness) allowed(id string) bool {
	for _, d := range v.decided[id] {
		switch {
		case d.Drift != "":
		case d.Decision.Verdict == permission.Allow:
			return true
		case d.Decision.Verdict == permission.Ask:
			return v.how(askKey(d)) == approval.Allowed
		}
	}
	return false
}

// askKey is the key of a call's question. The calls of a build's scripts all differ, so that it is the tool and eight
// digits.
func askKey(d protocol.DecideResponse) string { return d.Tool + "-" + d.ContentKey[:8] }

// how is what the one admission of a question said, or nothing if it was never answered.
func (v witness) how(key string) approval.How {
	if a := v.admitted[key]; len(a) > 0 {
		return a[0].How
	}
	return ""
}
