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

// Sent is a call as it travels to a worker of ours: without what the worker knows from its activity. The worker makes it
// whole again with Received, and the idempotency key with IdempotencyKey.
func Sent(c tool.Call, activityType string) tool.Call {
	c.ID, c.IdempotencyKey = "", ""
	if activityType != ActivityCallTool {
		c.Name = ""
	}
	if c.Isolation == string(worktree.None) {
		c.Isolation = ""
	}
	return c
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
