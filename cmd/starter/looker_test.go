package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/protocol"
)

// Who waits for a call of a source is told the tool, and not the activity type that it shares with all others.
func TestAPendingCallOfASourceIsNamed(t *testing.T) {
	pending := func(id, activityType string) *workflowpb.PendingActivityInfo {
		return &workflowpb.PendingActivityInfo{ActivityId: id, ActivityType: &commonpb.ActivityType{Name: activityType}}
	}
	l := &looker{id: "w"}
	require.Equal(t, protocol.ActivityCallTool, l.named(pending("t1.1", protocol.ActivityCallTool)))
	e := follow.Event{WorkflowID: "w", Kind: follow.ToolStart, Tool: &follow.Call{Tool: "srv_echo", ActivityID: "t1.1"}}
	l.add(e)
	require.Equal(t, "tool.srv_echo", l.named(pending("t1.1", protocol.ActivityCallTool)))
	require.Equal(t, protocol.ActivityGenerate, l.named(pending("9", protocol.ActivityGenerate)))
	e.Kind = follow.ToolEnd
	l.add(e)
	require.Equal(t, protocol.ActivityCallTool, l.named(pending("t1.1", protocol.ActivityCallTool)))
}
