package protocol_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// What a call leaves out, its activity says; what it says itself stays.
func TestSentCall(t *testing.T) {
	whole := tool.Call{ID: "t1.1", Name: "run", Input: json.RawMessage(`{}`), ContractHash: "c", Isolation: "none",
		IdempotencyKey: protocol.IdempotencyKey("r", "t1.1", "i"), Agent: &tool.Agent{RunID: "r"}}
	sent := protocol.Sent(whole, "tool.run")
	b, err := json.Marshal(sent)
	require.NoError(t, err)
	require.JSONEq(t, `{"input":{},"contractHash":"c","agent":{"runId":"r","type":""}}`, string(b))
	for _, id := range []string{"t1.1", "t1.1~2"} {
		got := protocol.Received(sent, "tool.run", id)
		got.IdempotencyKey = protocol.IdempotencyKey(got.Agent.RunID, got.ID, "i")
		require.Equal(t, whole, got)
	}
	require.Equal(t, "t1.1", protocol.Received(whole, "tool.look", "t9.9").ID)
	require.Equal(t, "run", protocol.Received(whole, "tool.look", "t9.9").Name)
	whole.Isolation = "worktree"
	require.Equal(t, "worktree", protocol.Sent(whole, "tool.run").Isolation)
}

// A call under the shared activity type carries its tool's name, and gets none from the type.
func TestSentToASharedActivity(t *testing.T) {
	whole := tool.Call{ID: "t1.1", Name: "run", Source: "far", Isolation: "none", Agent: &tool.Agent{RunID: "r"}}
	sent := protocol.Sent(whole, protocol.ActivityCallTool)
	require.Equal(t, "run", sent.Name)
	require.Empty(t, sent.ID)
	require.Equal(t, whole, protocol.Received(sent, protocol.ActivityCallTool, "t1.1~2"))
	sent.Name = ""
	require.Empty(t, protocol.Received(sent, protocol.ActivityCallTool, "t1.1").Name)
	for name, f := range map[string]protocol.ToolFacts{"tool.run": {Name: "run", Source: "far"}, protocol.ActivityCallTool: {Name: "run", Source: "far", CallTool: true}} {
		require.Equal(t, name, f.Activity())
		require.True(t, protocol.IsTool(f.Activity()))
	}
	for _, other := range []string{"", "tool", "assent.Agent", "assent.CallTool2", "xassent.CallTool", protocol.ActivityGenerate} {
		require.False(t, protocol.IsTool(other), other)
	}
}

// The beginning of a contract tells whether a worker has another one.
func TestSameContract(t *testing.T) {
	whole := strings.Repeat("0123456789abcdef", 4)
	sent := protocol.Sent(tool.Call{ContractHash: whole}, "tool.run").ContractHash
	require.Equal(t, whole[:16], sent)
	for contract, same := range map[string]bool{sent: true, whole: true, sent[:15]: false, whole[:17]: false, "": false, sent + "x": false, whole + "0": false} {
		require.Equal(t, same, protocol.SameContract(contract, whole), contract)
	}
}

// A policy is named by half of its digest.
func TestNamedPolicy(t *testing.T) {
	require.Equal(t, strings.Repeat("a", 32), protocol.NamedPolicy(strings.Repeat("a", 64)))
	require.Equal(t, "p", protocol.NamedPolicy("p"))
}

// A decision leaves out run and policy only where both are what history has said.
func TestBriefDecision(t *testing.T) {
	said := &protocol.Under{RunID: "r", PolicyDigest: "p"}
	of := func(run, policy string) protocol.DecideResponse {
		return protocol.DecideResponse{CallID: "t1.1", RunID: run, Decision: permission.Decision{PolicyDigest: policy}}
	}
	require.Equal(t, of("", ""), of("r", "p").Brief(said))
	for _, d := range []protocol.DecideResponse{of("r", "p"), of("r", "p2"), of("r2", "p"), of("r2", "p2"), of("r", "")} {
		require.Equal(t, d, d.Brief(said).Whole(said))
		require.Equal(t, d, d.Brief(nil).Whole(nil))
		require.Equal(t, d, d.Brief(&protocol.Under{}).Whole(said))
	}
	require.Equal(t, of("r2", "p"), of("r2", "p").Brief(said), "after a reset it names its run")
}
