package protocol

import (
	"strings"

	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

// IdempotencyKey is that of a call of an agent: unique among all runs of all workflows, and the same after a reset.
// agentRun is tool.Agent.RunID, digest that of the arguments.
func IdempotencyKey(agentRun, callID, digest string) string {
	return agentRun + "/" + callID + "-" + digest
}

// Sent is a call as it travels to a worker of ours: without what the worker knows from its activity, and with the beginning of
// its contract. The worker makes it whole again with Received, the contract of the tool that it serves and IdempotencyKey.
func Sent(c tool.Call, activityType string) tool.Call {
	c.ID, c.IdempotencyKey = "", ""
	if activityType != ActivityCallTool {
		c.Name = ""
	}
	c.ContractHash = c.ContractHash[:min(len(c.ContractHash), sentContract)]
	if c.Isolation == string(worktree.None) {
		c.Isolation = ""
	}
	return c
}

// sentContract is how much of a contract's digest travels with a call, in characters.
const sentContract = 16

// SameContract reports whether sent, of a call, can be the contract whose digest is whole. It tells drift, and nothing else: the
// call's grant is for the whole digest.
func SameContract(sent, whole string) bool {
	return sent == whole || len(sent) == sentContract && strings.HasPrefix(whole, sent)
}

// Received is a call with what its activity says of it: its id, and of `tool.<name>` the name. What the call says itself stays.
func Received(c tool.Call, activityType, activityID string) tool.Call {
	if c.ID == "" {
		// A later try of a call has a suffix.
		c.ID, _, _ = strings.Cut(activityID, "~")
	}
	if c.Name == "" && activityType != ActivityCallTool {
		c.Name = strings.TrimPrefix(activityType, ToolPrefix)
	}
	if c.Isolation == "" {
		c.Isolation = string(worktree.None)
	}
	return c
}
