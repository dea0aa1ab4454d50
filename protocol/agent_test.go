package protocol_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worktree"
)

func TestAgentInputValidate(t *testing.T) {
	usd := func(f float64) *float64 { return &f }
	for name, tc := range map[string]struct {
		change func(*protocol.AgentInput)
		want   string
	}{
		"as it is":         {func(*protocol.AgentInput) {}, ""},
		"no agent type":    {func(in *protocol.AgentInput) { in.AgentType = "" }, "agentType: is missing; it names a profile"},
		"no prompt":        {func(in *protocol.AgentInput) { in.Prompt = "" }, "prompt: is empty"},
		"largest prompt":   {func(in *protocol.AgentInput) { in.Prompt = strings.Repeat("x", 1<<20) }, ""},
		"too large prompt": {func(in *protocol.AgentInput) { in.Prompt = strings.Repeat("x", 1<<20+1) }, "prompt: has 1.0 MiB, at most 1.0 MiB fit; put long material into a file that the agent reads"},
		"grows when sent":  {func(in *protocol.AgentInput) { in.Prompt = strings.Repeat("<", 300<<10) }, "input: has 1.8 MiB as JSON, at most 1.5 MiB fit; put long material into a file that the agent reads"},
		"too large at all": {func(in *protocol.AgentInput) { in.Key = strings.Repeat("x", 2<<20) }, "input: has 2.0 MiB as JSON, at most 1.5 MiB fit; put long material into a file that the agent reads"},
		"budget":           {func(in *protocol.AgentInput) { in.BudgetUSD = usd(0.5) }, ""},
		"no budget at all": {func(in *protocol.AgentInput) { in.BudgetUSD = usd(0) }, "budgetUSD: 0 is out of range; more than 0 and at most 1e+06 USD, or leave it out for no budget"},
		"negative budget":  {func(in *protocol.AgentInput) { in.BudgetUSD = usd(-1) }, "budgetUSD: -1 is out of range"},
		"NaN budget":       {func(in *protocol.AgentInput) { in.BudgetUSD = usd(math.NaN()) }, "budgetUSD: NaN is out of range"},
		"infinite budget":  {func(in *protocol.AgentInput) { in.BudgetUSD = usd(math.Inf(1)) }, "budgetUSD: +Inf is out of range"},
		"absurd budget":    {func(in *protocol.AgentInput) { in.BudgetUSD = usd(1e9) }, "budgetUSD: 1e+09 is out of range"},
		"output schema":    {func(in *protocol.AgentInput) { in.OutputSchema = json.RawMessage(`{}`) }, ""},
		"large schema": {func(in *protocol.AgentInput) {
			in.OutputSchema = json.RawMessage(strings.Repeat(" ", protocol.MaxOutputSchema+1))
		}, "outputSchema: has 131073 bytes, at most 131072 fit"},
		"null schema":        {func(in *protocol.AgentInput) { in.OutputSchema = json.RawMessage(`null`) }, ""},
		"isolation none":     {func(in *protocol.AgentInput) { in.Isolation = &worktree.Isolation{} }, ""},
		"isolation readonly": {func(in *protocol.AgentInput) { in.Isolation = &worktree.Isolation{Kind: worktree.Readonly} }, ""},
		"isolation tree":     {func(in *protocol.AgentInput) { in.Isolation = &worktree.Isolation{Kind: worktree.Tree} }, ""},
		"isolation private": {func(in *protocol.AgentInput) {
			in.Isolation = &worktree.Isolation{Kind: worktree.Tree, Private: true}
		}, ""},
		"private and no tree": {func(in *protocol.AgentInput) {
			in.Isolation = &worktree.Isolation{Kind: worktree.Readonly, Private: true}
		}, "isolation.private: goes with kind worktree only"},
		"unknown isolation": {func(in *protocol.AgentInput) { in.Isolation = &worktree.Isolation{Kind: "vm"} }, `isolation.kind: unknown kind "vm"; one of none, readonly, worktree`},
		"limits":            {func(in *protocol.AgentInput) { in.Limits = &protocol.Limits{MaxTurns: -1} }, "limits.maxTurns: -1 is out of range; 1 to 1000, or 0 for the default"},
		"no tools at all":   {func(in *protocol.AgentInput) { in.Tools = &[]string{} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := protocol.AgentInput{Prompt: "go", AgentType: "fixer"}
			tc.change(&in)
			err := in.Validate()
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
			require.True(t, fault.IsConfig(err))
		})
	}
}

// An absent list of tools is the profile's; an explicit empty one removes all. The difference survives the wire.
func TestToolsAbsentAndEmptyDiffer(t *testing.T) {
	for _, text := range []string{`{"prompt":"go","agentType":"p"}`, `{"prompt":"go","agentType":"p","tools":[]}`} {
		var in protocol.AgentInput
		require.NoError(t, json.Unmarshal([]byte(text), &in))
		back, err := json.Marshal(in)
		require.NoError(t, err)
		require.Equal(t, text, string(back))
	}
}

func TestLimitsValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		limits protocol.Limits
		want   string
	}{
		"zero":       {protocol.Limits{}, ""},
		"default":    {protocol.DefaultLimits(), ""},
		"ceilings":   {protocol.Limits{MaxTurns: 1000, MaxToolCalls: 2000, MaxOutputTokens: 1 << 20, MaxIdleTurns: 1000, WallClock: time.Hour}, ""},
		"turns":      {protocol.Limits{MaxTurns: 1001}, "p.maxTurns: 1001 is out of range; 1 to 1000, or 0 for the default"},
		"calls":      {protocol.Limits{MaxToolCalls: 2001}, "p.maxToolCalls: 2001 is out of range; 1 to 2000, or 0 for the default"},
		"tokens":     {protocol.Limits{MaxOutputTokens: -1}, "p.maxOutputTokens: -1 is out of range; 1 to 1048576, or 0 for the default"},
		"idle":       {protocol.Limits{MaxIdleTurns: 1001}, "p.maxIdleTurns: 1001 is out of range; 1 to 1000, or 0 for the default"},
		"wall clock": {protocol.Limits{WallClock: -1}, "p.wallClock: must not be negative"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.limits.Validate("p")
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tc.want)
			require.True(t, fault.IsConfig(err))
		})
	}
}

func TestLimitsOver(t *testing.T) {
	base := protocol.Limits{MaxTurns: 1, MaxToolCalls: 2, MaxOutputTokens: 3, MaxIdleTurns: 4, WallClock: 5}
	require.Equal(t, base, protocol.Limits{}.Over(base))
	full := protocol.Limits{MaxTurns: 6, MaxToolCalls: 7, MaxOutputTokens: 8, MaxIdleTurns: 9, WallClock: 10}
	require.Equal(t, full, full.Over(base))
	require.Equal(t, protocol.Limits{MaxTurns: 6, MaxToolCalls: 2, MaxOutputTokens: 3, MaxIdleTurns: 4, WallClock: 5},
		protocol.Limits{MaxTurns: 6}.Over(base))
}

func TestRepeatable(t *testing.T) {
	require.True(t, protocol.ToolFacts{Risk: "read"}.Repeatable())
	require.True(t, protocol.ToolFacts{Risk: "write", Idempotent: true}.Repeatable())
	require.False(t, protocol.ToolFacts{Risk: "write"}.Repeatable())
	require.False(t, protocol.ToolFacts{}.Repeatable(), "undeclared is not read")
}
