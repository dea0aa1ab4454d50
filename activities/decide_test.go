package activities_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

var standard = permission.Layer{Preset: permission.Standard}

// judging is a hook that says one thing.
func judging(fn func(permission.Call) permission.Answer) permission.Layer {
	return permission.Layer{Preset: permission.Standard, Hooks: []permission.Hook{{Name: "h",
		Judge: func(_ context.Context, c permission.Call) (permission.Answer, error) { return fn(c), nil }}}}
}

func (b *bench) request(name, input string) protocol.DecideRequest {
	return protocol.DecideRequest{CallID: "t1.1", Tool: b.facts(name), Subject: protocol.Subject{Profile: "p"}, Store: "memory",
		Input: json.RawMessage(input)}
}

func TestDecide(t *testing.T) {
	b := newBench(t, activities.Config{Permissions: standard})
	d, err := b.decide(b.request("look", `{"path":"a"}`))
	require.NoError(t, err)
	require.Equal(t, permission.Allow, d.Decision.Verdict)
	require.Equal(t, runID, d.RunID)
	require.Empty(t, d.Decision.Input, "unchanged arguments are not recorded again")
	require.NotEmpty(t, d.InputDigest)
	require.NotEmpty(t, d.Decision.PolicyDigest)

	d, err = b.decide(b.request("run", `{"path":"a"}`))
	require.NoError(t, err)
	require.Equal(t, permission.Ask, d.Decision.Verdict)
	require.NotNil(t, d.Approval)
	want, err := approval.ContentKey("run", json.RawMessage(`{"path":"a"}`))
	require.NoError(t, err)
	require.Equal(t, want, d.ContentKey)

	d, err = b.decide(b.request("run", `{"path":1}`))
	require.NoError(t, err)
	require.Equal(t, permission.Deny, d.Decision.Verdict)
	require.Equal(t, permission.ByInvalid, d.Decision.DecidedBy)
	require.Empty(t, d.ContentKey)
}

func TestDecideFailsClosed(t *testing.T) {
	b := newBench(t, activities.Config{})
	for name, tc := range map[string]struct {
		change func(*protocol.DecideRequest)
		drift  string
		reason string
	}{
		"unknown profile": {func(r *protocol.DecideRequest) { r.Subject.Profile = "q" }, "", `unknown profile "q"`},
		"bad rule": {func(r *protocol.DecideRequest) {
			r.Subject.Tighten = &protocol.Tighten{Deny: []permission.Rule{{}}}
		}, "", "agent.deny[0]"},
		"missing guard":  {func(r *protocol.DecideRequest) { r.Guards = []string{"g"} }, "", "g"},
		"unknown tool":   {func(r *protocol.DecideRequest) { r.Tool.Name = "fly" }, `does not have the tool "fly"`, ""},
		"other contract": {func(r *protocol.DecideRequest) { r.Tool.ContractHash = "x" }, "differs from the one", ""},
	} {
		t.Run(name, func(t *testing.T) {
			req := b.request("look", `{"path":"a"}`)
			tc.change(&req)
			d, err := b.decide(req)
			require.NoError(t, err)
			require.Equal(t, permission.Deny, d.Decision.Verdict, "the zero verdict denies")
			require.Contains(t, d.Drift, tc.drift)
			require.Contains(t, d.Decision.Reason, tc.reason)
		})
	}
	req := b.request("look", `{"path":"a"}`)
	req.Store = "elsewhere"
	_, err := b.decide(req)
	requireType(t, err, protocol.ErrorStore, false)
	req = b.request("look", "")
	req.InputRef = ptr(refOf("gone"))
	_, err = b.decide(req)
	require.Error(t, err)
}

// A line that was added before a reset does not hold after it.
func TestLinesOfAnotherRun(t *testing.T) {
	sh := tool.MustNew("sh", "Runs a command.", func(context.Context, *tool.Context, struct {
		Command string `json:"command"`
	}) (string, error) {
		return "", nil
	}, tool.Execute)
	b := newBench(t, activities.Config{Permissions: standard}, withTool(sh))
	for run, want := range map[string]permission.Verdict{runID: permission.Allow, "the run before": permission.Ask} {
		req := b.request("sh", `{"command":"ls -l"}`)
		req.Subject.Vetted = []protocol.VettedLine{{RunID: run, Line: permission.Vetted{Tool: permission.One("sh"), Argv: permission.One("ls -l")}}}
		d, err := b.decide(req)
		require.NoError(t, err)
		require.Equal(t, want, d.Decision.Verdict, run)
	}
}

// What the marker keeps is bounded, whatever a command, a hook or a schema makes of a call.
func TestDecisionsFitIntoTheirMarker(t *testing.T) {
	rules := permission.Layer{Preset: permission.Standard,
		Deny: []permission.Rule{{Tool: permission.One("sh"), Argv: permission.One("rm **"), Reason: strings.Repeat("<", 32<<10)}},
		Ask:  []permission.Rule{{Tool: permission.One("sh"), Argv: permission.Many(words(2000)...)}}}
	for name, tc := range map[string]struct {
		layer permission.Layer
		input string
	}{
		"long command":   {rules, string(raw(map[string]string{"command": strings.Repeat("echo <>& ; ", 6<<10)}))},
		"denied command": {rules, string(raw(map[string]string{"command": strings.Repeat("ls & ", 6<<10) + "rm x"}))},
		"long words":     {rules, string(raw(map[string]string{"command": strings.Repeat("w", 60<<10)}))},
		"many issues":    {standard, "{" + strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("<", 900)+`":1,`, 1), ",") + members(3000) + "}"},
		"huge modified": {judging(func(permission.Call) permission.Answer {
			return permission.AnswerModify(raw(map[string]string{"command": strings.Repeat("x", 1<<20)}))
		}), `{"command":"a"}`},
		"escaped modified": {judging(func(permission.Call) permission.Answer {
			return permission.AnswerModify(raw(map[string]string{"command": strings.Repeat("<", 31<<10)}))
		}), `{"command":"a"}`},
		"long reason": {judging(func(permission.Call) permission.Answer { return permission.AnswerDeny(strings.Repeat("\x00", 1<<20)) }), `{"command":"a"}`},
	} {
		t.Run(name, func(t *testing.T) {
			sh := tool.MustNew("sh", "Runs a command.", func(context.Context, *tool.Context, struct {
				Command string `json:"command"`
			}) (string, error) {
				return "", nil
			}, tool.Execute)
			b := newBench(t, activities.Config{Permissions: tc.layer}, withTool(sh))
			d, err := b.decide(b.request("sh", tc.input))
			require.NoError(t, err)
			require.LessOrEqual(t, len(raw(d)), protocol.MaxDecision)
			require.NotEqual(t, permission.Allow, d.Decision.Verdict)
			if d.Decision.Modified {
				require.NotNil(t, d.InputRef)
				stored, err := b.store.Get(context.Background(), *d.InputRef)
				require.NoError(t, err)
				require.Contains(t, string(stored), `"command"`)
			}
		})
	}
}

// How a question is put is in each decision of a turn, and the server takes no marker of 2 MB: what does not fit denies.
func TestQuestionsFitIntoTheMarkerOfATurn(t *testing.T) {
	const calls = protocol.MaxCallsPerTurn
	for name, tc := range map[string]struct {
		groups int
		want   permission.Verdict
	}{"few groups": {10, permission.Ask}, "many groups": {300, permission.Deny}} {
		t.Run(name, func(t *testing.T) {
			groups := words(tc.groups)
			who := approval.Directory{Groups: map[string][]string{}}
			for _, g := range groups {
				who.Groups[g] = []string{"ann"}
			}
			rule := permission.Rule{Tool: permission.One("look"), Reason: strings.Repeat("\x00", 2<<10),
				Approval: &permission.ApprovalPolicy{Approvers: &permission.Approvers{Groups: groups}}}
			b := newBench(t, activities.Config{Approvers: who, Permissions: permission.Layer{Preset: permission.Standard, Ask: []permission.Rule{rule}}})
			reqs := b.numbered("look", calls)
			for i := range reqs {
				reqs[i].Room = protocol.MaxDecisions / calls
			}
			decisions := b.decideTurn(time.Minute, reqs...)
			require.Less(t, len(raw(decisions)), protocol.MaxDecisions+protocol.MaxDecision)
			for _, d := range decisions {
				require.Equal(t, tc.want, d.Decision.Verdict, d.Decision.Reason)
				require.Equal(t, tc.want == permission.Ask, d.Approval != nil)
				require.NotEmpty(t, d.RunID)
				require.NotEmpty(t, d.Decision.PolicyDigest)
			}
		})
	}
}

func members(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"` + strings.Repeat("m", i%50) + string(raw(i)) + `":1`)
	}
	return b.String()
}

func words(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "echo " + strings.Repeat("p", 50) + string(raw(i)) + " **"
	}
	return out
}

func TestSlowHooksAreDecidedElsewhere(t *testing.T) {
	layer := judging(func(permission.Call) permission.Answer { return permission.AnswerAllow() })
	layer.Hooks[0].Slow = true
	b := newBench(t, activities.Config{Permissions: layer})
	d, err := b.decide(b.request("run", `{"path":"a"}`))
	require.NoError(t, err)
	require.True(t, d.Slow)
	require.Equal(t, permission.Deny, d.Decision.Verdict)

	var slow protocol.DecideResponse
	require.NoError(t, b.call(protocol.ActivityDecideSlow, activities.AssentDecideSlow, b.request("run", `{"path":"a"}`), &slow))
	require.False(t, slow.Slow)
	require.Equal(t, permission.Allow, slow.Decision.Verdict)
}

// answerTo asks about a call and returns what admits an answer to it.
func (b *bench) answerTo(name, input string) protocol.AdmitRequest {
	b.t.Helper()
	req := b.request(name, input)
	d, err := b.decide(req)
	require.NoError(b.t, err)
	return protocol.AdmitRequest{Decide: req, Resolution: approval.Resolution{Key: "k", Decision: approval.Allow, By: "alice", Reason: "fine"},
		Question: approval.Approval{Key: "k", Tool: name, Input: json.RawMessage(input), Seal: approval.Seal{RunID: d.RunID,
			ContentKey: d.ContentKey, InputDigest: d.InputDigest, ContractHash: req.Tool.ContractHash, PolicyDigest: d.Decision.PolicyDigest}}}
}

func TestAdmit(t *testing.T) {
	b := newBench(t, activities.Config{Permissions: standard})
	for name, tc := range map[string]struct {
		change func(*protocol.AdmitRequest)
		how    approval.How
		reason string
	}{
		"allowed":          {func(*protocol.AdmitRequest) {}, approval.Allowed, "fine"},
		"denied":           {func(r *protocol.AdmitRequest) { r.Resolution.Decision = approval.Deny }, approval.Denied, "fine"},
		"revoked":          {func(r *protocol.AdmitRequest) { r.Resolution.Decision = approval.Revoke }, approval.Revoked, "fine"},
		"nonsense":         {func(r *protocol.AdmitRequest) { r.Resolution.Decision = "yes" }, approval.Denied, "fine"},
		"another run":      {func(r *protocol.AdmitRequest) { r.Question.Seal.RunID = "before" }, approval.Void, "the question was asked before the run was reset; it is open again under a new key"},
		"a deny of before": {func(r *protocol.AdmitRequest) { r.Question.Seal.RunID, r.Resolution.Decision = "before", approval.Deny }, approval.Void, "reset"},
		"signed":           {func(r *protocol.AdmitRequest) { r.Resolution.Signature = &approval.Signature{KeyID: "k"} }, approval.Denied, "is not known here"},
		"expired":          {func(r *protocol.AdmitRequest) { r.Resolution.ExpiresAt = ptr(long) }, approval.Expired, "after the moment until which it was good"},
		"expired by the server's clock": {func(r *protocol.AdmitRequest) {
			r.Resolution.ExpiresAt, r.Now = ptr(time.Now().Add(time.Minute)), time.Now().Add(time.Hour)
		}, approval.Expired, "after the moment until which it was good"},
		"expired by this worker's clock alone": {func(r *protocol.AdmitRequest) {
			r.Resolution.ExpiresAt, r.Now = ptr(time.Now().Add(-time.Minute)), time.Now().Add(-time.Hour)
		}, approval.Allowed, "fine"},
		"other arguments":  {func(r *protocol.AdmitRequest) { r.Question.Input = raw(pathIn{"b"}) }, approval.Denied, "not those that were asked about"},
		"profile is gone":  {func(r *protocol.AdmitRequest) { r.Decide.Subject.Profile = "q" }, approval.Denied, "policy cannot be read"},
		"edited":           {func(r *protocol.AdmitRequest) { r.Resolution.Input = raw(pathIn{"b"}) }, approval.Allowed, "fine"},
		"edited misfit":    {func(r *protocol.AdmitRequest) { r.Resolution.Input = raw(1) }, approval.Denied, "do not fit the tool's schema"},
		"edited and drift": {func(r *protocol.AdmitRequest) { r.Resolution.Input, r.Decide.Tool.ContractHash = raw(pathIn{"b"}), "x" }, approval.Denied, "cannot be checked"},
		"drift":            {func(r *protocol.AdmitRequest) { r.Decide.Tool.ContractHash = "x" }, approval.Allowed, "fine"},
		"remote and drift": {func(r *protocol.AdmitRequest) {
			r.Decide.Tool.Remote, r.Decide.Tool.ContractHash = &tool.Remote{Kind: tool.RemoteActivity}, "x"
		}, approval.Denied, "cannot be made any more"},
		"guard is gone": {func(r *protocol.AdmitRequest) { r.Decide.Guards = []string{"g"} }, approval.Denied, "second look by guard"},
	} {
		t.Run(name, func(t *testing.T) {
			req := b.answerTo("run", `{"path":"a"}`)
			tc.change(&req)
			resp := b.admit(req)
			require.Equal(t, tc.how, resp.How)
			require.Equal(t, "k", resp.Key)
			require.Equal(t, runID, resp.RunID)
			require.Equal(t, "alice", resp.By)
			require.Contains(t, resp.Reason, tc.reason)
			require.Equal(t, tc.how == approval.Allowed, resp.InputDigest != "", "only an allow names what may run")
			if name == "edited" {
				require.JSONEq(t, `{"path":"b"}`, string(resp.Input))
			} else {
				require.Empty(t, resp.Input)
			}
		})
	}
}

// The policy may be another one when the answer comes: a deny wins, otherwise the answer stands under the new one.
func TestAdmitUnderAnotherPolicy(t *testing.T) {
	req := newBench(t, activities.Config{Permissions: standard}).answerTo("run", `{"path":"a"}`)
	deny := newBench(t, activities.Config{Permissions: permission.Layer{Deny: []permission.Rule{{Tool: permission.One("run")}}}})
	resp := deny.admit(req)
	require.Equal(t, approval.Denied, resp.How)
	require.Equal(t, permission.ByDenyRule, resp.DecidedBy)

	open := newBench(t, activities.Config{Permissions: permission.Layer{Preset: permission.Open}})
	resp = open.admit(req)
	require.Equal(t, approval.Allowed, resp.How)
	require.Empty(t, resp.DecidedBy)
	require.NotEqual(t, req.Question.Seal.PolicyDigest, resp.PolicyDigest)
}

func TestAdmitLargeArguments(t *testing.T) {
	b := newBench(t, activities.Config{Permissions: standard})
	large := string(raw(pathIn{strings.Repeat("x", 40<<10)}))
	req := b.answerTo("run", large)
	ref, err := b.store.Put(context.Background(), []byte(large))
	require.NoError(t, err)
	req.Question.Input, req.Final = raw(map[string]any{"$blob": ref}), &ref
	require.Equal(t, approval.Allowed, b.admit(req).How)

	req.Resolution.Input = raw(pathIn{strings.Repeat("y", 40<<10)})
	resp := b.admit(req)
	require.Equal(t, approval.Allowed, resp.How)
	require.Empty(t, resp.Input)
	require.NotNil(t, resp.InputRef)
}

func TestProfilesThatPromiseTooMuch(t *testing.T) {
	usd, less := 1.0, -1.0
	for name, p := range map[string]config.Profile{
		"budget":    {BudgetUSD: &less},
		"no price":  {BudgetUSD: &usd, Models: []string{"m:x"}},
		"model":     {Models: []string{"acme:x"}},
		"tool":      {Tools: []string{"fly"}},
		"rule":      {Permissions: permission.Layer{Deny: []permission.Rule{{}}}},
		"approvers": {Permissions: permission.Layer{Approval: &permission.ApprovalPolicy{Approvers: &permission.Approvers{Groups: []string{"ops"}}}}},
		"quorum":    {Permissions: permission.Layer{Approval: &permission.ApprovalPolicy{Approvers: &permission.Approvers{Groups: []string{"few"}, Min: 2}}}},
		"escalate": {Permissions: permission.Layer{Ask: []permission.Rule{{Tool: permission.One("run"),
			Approval: &permission.ApprovalPolicy{Escalate: &permission.Escalation{After: 1, Groups: []string{"ops"}}}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			p.Name = "p"
			b := newBench(t, activities.Config{})
			_, err := activities.New(activities.Config{Pipeline: b.pipe, Blobs: b.store, Profiles: map[string]config.Profile{"p": p}, Models: map[string]model.Model{"m": text("hi")},
				Approvers: approval.Directory{Groups: map[string][]string{"few": {"alice"}}}})
			requireConfig(t, err)
		})
	}
}
