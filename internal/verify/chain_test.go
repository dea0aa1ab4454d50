package verify_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/assent-dev/assent/internal/verify"
	"github.com/assent-dev/assent/protocol"
)

// chain is a recorded agent in three runs.
type chain [3]*tape

func recordChain(t testing.TB) (c chain) {
	for i := range c {
		c[i] = record(t, fmt.Sprintf("continued-%d", i+1))
	}
	return c
}

func (c chain) verify() []verify.Report {
	runs := make([]verify.Run, len(c))
	for i, p := range c {
		runs[i].Events = p.whole()
	}
	return verify.Chain(runs, verify.Options{})
}

func started(p *tape) *historypb.WorkflowExecutionStartedEventAttributes {
	return p.events[0].GetWorkflowExecutionStartedEventAttributes()
}

func left(p *tape) *historypb.WorkflowExecutionContinuedAsNewEventAttributes {
	return p.events[len(p.events)-1].GetWorkflowExecutionContinuedAsNewEventAttributes()
}

// state changes what run i took over, from 1, and what the run before it left. The grant is for what it becomes, unless it
// is what is changed: anybody can count a digest.
func (c chain) state(i int, change func(members)) {
	for _, in := range []*commonpb.Payloads{started(c[i]).Input, left(c[i-1]).Input} {
		var before, after any
		c[i].payload(in.Payloads[1], func(m members) {
			before = fmt.Sprint(m["grant"])
			change(m)
			after = fmt.Sprint(m["grant"])
		})
		if before == after {
			c.seal(in)
		}
	}
}

func (c chain) seal(in *commonpb.Payloads) {
	var input protocol.AgentInput
	var state protocol.AgentState
	require.NoError(c[0].t, json.Unmarshal(in.Payloads[0].Data, &input))
	require.NoError(c[0].t, json.Unmarshal(in.Payloads[1].Data, &state))
	digest, err := state.Digest(input)
	require.NoError(c[0].t, err)
	c[0].payload(in.Payloads[1], func(m members) { m["grant"].(members)["input"] = digest })
}

// into changes a value deep in a JSON object; numbers are places in lists.
func into(m members, change func(members), path ...any) {
	var at any = m
	for _, p := range path {
		if n, ok := p.(int); ok {
			at = at.([]any)[n]
		} else {
			at = at.(members)[p.(string)]
		}
	}
	change(at.(members))
}

// at changes a value deep in the state of the second run.
func deep(change func(members), path ...any) func(chain) {
	return func(c chain) { c.state(1, func(m members) { into(m, change, path...) }) }
}

func append1(name string, value any) func(members) {
	return func(m members) { list, _ := m[name].([]any); m[name] = append(list, value) }
}

var continuing = local(protocol.ActivityContinue)

// answered is an answer that is more than a word.
func answered(e *historypb.HistoryEvent) bool {
	p := e.GetWorkflowExecutionSignaledEventAttributes().GetInput().GetPayloads()
	return len(p) > 0 && strings.HasPrefix(string(p[0].GetData()), "{")
}

// carried are the ways in which what a run took over does not follow from the run before. Calls 2, 4 and 5 of the turn wait.
var carried = map[string]struct {
	tamper func(chain)
	want   verify.Kind
}{
	"another state than was left": {func(c chain) { c[1].payload(started(c[1]).Input.Payloads[1], set("turns", 7)) }, verify.OtherState},
	"no end that says so":         {func(c chain) { left(c[0]).NewExecutionRunId = base }, verify.OtherState},
	"a run of another workflow":   {func(c chain) { started(c[0]).WorkflowType.Name = "Evil" }, verify.OtherState},
	"an end that is none":         {func(c chain) { c[0].drop(len(c[0].events) - 1) }, verify.OtherState},
	"another input": {func(c chain) {
		for _, p := range []*commonpb.Payload{started(c[1]).Input.Payloads[0], left(c[0]).Input.Payloads[0]} {
			c[0].payload(p, set("requestedBy", "nobody"))
		}
		c.seal(started(c[1]).Input)
		c.seal(left(c[0]).Input)
	}, verify.OtherState},
	"another agent":                {deep(set("agentRun", base)), verify.OtherState},
	"more runs":                    {deep(set("runs", 5)), verify.OtherState},
	"an earlier start":             {deep(set("started", "2001-01-01T00:00:00Z")), verify.OtherState},
	"fewer turns":                  {deep(set("turns", 0)), verify.OtherState},
	"another life":                 {deep(set("lifeTurns", 0)), verify.OtherState},
	"fewer calls":                  {deep(set("calls", 0)), verify.OtherState},
	"fewer questions":              {deep(set("asked", 0)), verify.OtherState},
	"more restarts":                {deep(set("restarts", 2)), verify.OtherState},
	"other costs":                  {deep(set("costUSD", 9), "spent"), verify.OtherState},
	"another transcript":           {deep(set("sha256", strings.Repeat("0", 64)), "transcript"), verify.OtherState},
	"another lease":                {deep(set("lease", members{"id": "x", "dir": "/", "resolved": members{}, "nonce": "n"})), verify.OtherState},
	"another host":                 {deep(set("hostQueue", "q@h")), verify.OtherState},
	"other limits":                 {deep(set("maxTurns", 9999), "frozen", "limits"), verify.OtherState},
	"another contract":             {deep(set("contractHash", base), "frozen", "tools", 2), verify.OtherState},
	"a key less":                   {deep(func(m members) { m["issued"] = m["issued"].([]any)[1:] }, "ledger"), verify.OtherState},
	"a key given less":             {deep(set("count", 9), "ledger", "issued", 0), verify.OtherState},
	"a forged line":                {deep(append1("vetted", members{"runId": base, "line": members{"tool": "shell"}})), verify.OtherState},
	"a call with others arguments": {deep(set("input", members{"text": "z"}), "steps", 1, "asked"), verify.OtherState},
	"a call less":                  {deep(func(m members) { m["steps"] = m["steps"].([]any)[:4] }), verify.OtherState},
	"a call more":                  {deep(func(m members) { list := m["steps"].([]any); m["steps"] = append(list, list[0]) }), verify.OtherState},
	"another result":               {deep(set("code", "ABORTED"), "steps", 0, "result"), verify.OtherState},
	"a result that nothing returned": {func(c chain) {
		c.state(1, func(m members) {
			into(m, func(step members) {
				delete(step, "question")
				delete(step, "decision")
				step["result"] = members{"code": "OK", "value": "x"}
			}, "steps", 1)
			into(m, func(l members) { l["open"] = l["open"].([]any)[1:] }, "ledger")
		})
	}, verify.OtherState},
	"another value":   {deep(set("value", "forged"), "steps", 0, "result"), verify.OtherState},
	"agents below":    {deep(set("belowUSD", -5), "spent"), verify.OtherState},
	"an escalation":   {deep(set("escalated", members{"reason": "x"})), verify.OtherState},
	"results as well": {deep(append1("results", members{"callId": "x", "name": "look", "result": members{"code": "OK"}})), verify.OtherState},

	"a call without its question": {deep(func(m members) { delete(m, "question") }, "steps", 1), verify.OtherQuestion},
	"a call without its decision": {deep(func(m members) { delete(m, "decision") }, "steps", 1), verify.OtherQuestion},
	"a permit":                    {deep(set("verdict", "allow"), "steps", 1, "decision", "decision"), verify.OtherQuestion},
	"a question without its call": {deep(func(m members) {
		list := m["open"].([]any)
		other := members{}
		raw, _ := json.Marshal(list[0])
		_ = json.Unmarshal(raw, &other)
		other["callId"], other["key"] = "t1.9", "run-11111111"
		m["open"] = append(list, other)
	}, "ledger"), verify.OtherQuestion},
	"the question of another call":   {deep(set("callId", "t1.4"), "ledger", "open", 0), verify.OtherQuestion},
	"another digest":                 {deep(set("inputDigest", base), "ledger", "open", 0, "seal"), verify.OtherQuestion},
	"another policy":                 {deep(set("policyDigest", base), "ledger", "open", 0, "seal"), verify.OtherQuestion},
	"another contract of it":         {deep(set("contractHash", base), "ledger", "open", 0, "seal"), verify.OtherQuestion},
	"another run that asked":         {deep(set("runId", base), "ledger", "open", 0, "seal"), verify.OtherQuestion},
	"another run in which it stands": {deep(set("run", base), "ledger", "open", 0), verify.OtherQuestion},
	"another digest, decided on": {func(c chain) {
		deep(set("inputDigest", base), "ledger", "open", 0, "seal")(c)
		deep(set("inputDigest", base), "steps", 1, "decision")(c)
	}, verify.OtherQuestion},
	"another key": {func(c chain) {
		deep(set("key", "run-11111111"), "ledger", "open", 0)(c)
		deep(set("question", "run-11111111"), "steps", 1)(c)
	}, verify.OtherQuestion},
	"a vote more":       {deep(append1("votes", members{"by": "alice", "at": "2026-01-01T00:00:00Z", "via": "signal"}), "ledger", "open", 1), verify.OtherQuestion},
	"a signed vote":     {deep(set("signed", true), "ledger", "open", 0, "votes", 0), verify.OtherQuestion},
	"a vote less":       {deep(func(m members) { delete(m, "votes") }, "ledger", "open", 0), verify.OtherQuestion},
	"a deadline":        {deep(set("deadline", "2099-01-01T00:00:00Z"), "ledger", "open", 0), verify.OtherQuestion},
	"no approvers":      {deep(func(m members) { delete(m, "approvers") }, "ledger", "open", 0), verify.OtherQuestion},
	"fewer needed":      {deep(set("min", 1), "ledger", "open", 0, "approvers"), verify.OtherQuestion},
	"other groups":      {deep(set("groups", []string{"leads"}), "ledger", "open", 0, "approvers"), verify.OtherQuestion},
	"any group":         {deep(func(m members) { delete(m, "groups") }, "ledger", "open", 0, "approvers"), verify.OtherQuestion},
	"another requester": {deep(set("requestedBy", "nobody"), "ledger", "open", 0), verify.OtherQuestion},
	"a younger question": {func(c chain) {
		c.state(2, func(m members) { into(m, set("askedAt", "2099-01-01T00:00:00Z"), "ledger", "open", 0) })
	}, verify.OtherQuestion},
	"a question that was answered": {func(c chain) {
		var open, step members
		take := func(m members) {
			into(m, func(l members) { open = l["open"].([]any)[0].(members) }, "ledger")
			step = m["steps"].([]any)[1].(members)
		}
		c[1].payload(started(c[1]).Input.Payloads[1], take)
		open["run"] = started(c[1]).OriginalExecutionRunId
		c.state(2, func(m members) {
			m["steps"].([]any)[1] = step
			into(m, append1("open", open), "ledger")
		})
	}, verify.OtherQuestion},

	"no vote of before":       {deep(set("by", ""), "ledger", "open", 0, "votes", 0), verify.NoAnswer},
	"a vote of the requester": {deep(set("by", "dave"), "ledger", "open", 0, "votes", 0), verify.NoAnswer},
	"named by another run":    {func(c chain) { c[1].result(c[1].at(0, continuing), set("runId", base)) }, verify.OtherRun},
	"never named":             {func(c chain) { c[1].drop(c[1].at(0, continuing)) }, verify.VoidAnswer},
	"named by nobody":         {func(c chain) { c[1].result(c[1].at(0, continuing), set("runId", "")) }, verify.Unreadable},
	"an admission of the run before": {func(c chain) {
		c[1].result(c[1].at(0, allowed), set("runId", started(c[0]).OriginalExecutionRunId))
	}, verify.VoidAnswer},
	"nobody answered in this run": {func(c chain) {
		c[1].payload(c[1].events[c[1].at(0, answered)].GetWorkflowExecutionSignaledEventAttributes().Input.Payloads[0], set("decision", "deny"))
	}, verify.NoAnswer},
	"a grant of the run before": {func(c chain) {
		c[1].grant(c[1].at(0, run), set("run", started(c[0]).OriginalExecutionRunId))
	}, verify.OtherRun},
	"a state without a grant":     {deep(func(m members) { delete(m, "grant") }), verify.NoGrant},
	"the grant of another state":  {deep(set("input", base), "grant"), verify.OtherState},
	"a grant of another run":      {deep(set("run", base), "grant"), verify.OtherRun},
	"the grant of a call":         {deep(set("call", "t1.1"), "grant"), verify.OtherRun},
	"a state that cannot be read": {func(c chain) { started(c[1]).Input.Payloads[1].Data = []byte(`{"turns":"x"}`) }, verify.Unreadable},
}

func kindsOf(reports []verify.Report) (kinds []verify.Kind) {
	for _, r := range reports {
		for _, f := range r.Findings {
			kinds = append(kinds, f.Kind)
		}
	}
	return kinds
}

func TestAChainIsClean(t *testing.T) {
	c := recordChain(t)
	for i, r := range c.verify() {
		require.Empty(t, r.Findings)
		require.False(t, r.Trusted)
		require.Equal(t, i > 0, r.ContinuedFrom != "")
		require.NotContains(t, strings.Join(r.Unchecked, "\n"), "trust")
	}
	for i, p := range c[1:] {
		r := verify.History(p.whole(), verify.Options{Keys: keys(t), Namespace: "default"})
		require.Empty(t, r.Findings, i)
		r = verify.History(p.events, verify.Options{Keys: keys(t), Namespace: "other"})
		require.Equal(t, verify.BadSignature, r.Findings[0].Kind)
		require.EqualValues(t, 1, r.Findings[0].EventID)
	}
	runs := []verify.Run{{Events: c[2].events}, {Events: c[0].events}}
	reports := verify.Chain(runs, verify.Options{})
	require.Empty(t, kindsOf(reports))
	require.True(t, reports[0].Trusted, "the second run is not there")
	require.Equal(t, started(c[1]).OriginalExecutionRunId, reports[0].ContinuedFrom)
	require.Contains(t, strings.Join(reports[0].Unchecked, "\n"), "taken on trust")
	require.False(t, reports[1].Trusted)
}

func TestSeededViolationsOfAChainAreFound(t *testing.T) {
	for name, tc := range carried {
		t.Run(name, func(t *testing.T) {
			c := recordChain(t)
			tc.tamper(c)
			reports := c.verify()
			require.Contains(t, kindsOf(reports), tc.want)
			for _, r := range reports {
				for _, f := range r.Findings {
					require.NotEmpty(t, f.Why)
					t.Log(f)
				}
			}
		})
	}
}

// Who starts an agent can give it a state. It is not looked at, as in the workflow.
func TestAForgedStateIsNotLookedAt(t *testing.T) {
	p := record(t, "allowed")
	in := started(p).Input
	in.Payloads = append(in.Payloads, payloads(`{"turns":9,"ledger":{"open":[{"key":"run-1"}]}}`).Payloads...)
	r := p.verify()
	require.Empty(t, r.Findings)
	require.Empty(t, r.ContinuedFrom)
	require.False(t, r.Trusted)
}

// The calls that another policy is asked about are those of each run, once, with the lines that hold in it.
func TestDecisionsOfAChain(t *testing.T) {
	c := recordChain(t)
	line := members{"tool": "shell", "argv": []string{"echo", "hi"}}
	c.state(1, append1("vetted", members{"runId": started(c[1]).ContinuedExecutionRunId, "line": line}))
	var ids []string
	for i, p := range c {
		for _, d := range verify.Decisions(p.whole(), nil) {
			ids = append(ids, fmt.Sprint(i+1, " ", d.CallID))
			require.True(t, d.Known)
			require.NotEmpty(t, d.Input)
			require.Equal(t, i == 1, len(d.Vetted) == 1)
		}
	}
	require.Len(t, slices.Compact(ids), 6)
	require.Equal(t, "3 t2.1", ids[5])
}
