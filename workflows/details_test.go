package workflows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
)

// details is the Markdown that the Temporal UI shows on the workflow's page.
func (b *bench) details() string {
	b.t.Helper()
	v, err := b.env.QueryWorkflow("__temporal_workflow_metadata")
	require.NoError(b.t, err)
	var m sdkpb.WorkflowMetadata
	require.NoError(b.t, v.Get(&m))
	return m.GetCurrentDetails()
}

func TestDetailsShowTheQuestion(t *testing.T) {
	b := newBench(t, asking("turns:\n  - calls: [{tool: run, args: {path: \"a\\n```\\n# not a heading\\u202e\"}}]\n  - say: done\n"))
	b.env.RegisterDelayedCallback(func() {
		q := b.list().Pending[0]
		d := b.details()
		require.Contains(t, d, "### Approval needed: `"+q.Key+"`")
		require.Contains(t, d, "**tool** `run` · **agent** `p`")
		require.Contains(t, d, "ask-rule")
		require.Contains(t, d, `\u202e`)
		require.NotContains(t, d, "\u202e")
		require.NotContains(t, d, "\n# not a heading")
		require.Contains(t, d, "starter approve "+q.Key)
		require.Contains(t, d, `--name approval --input '{"decision":"allow","key":"`+q.Key+`"}'`)
		// The arguments stand in a fence that they cannot close.
		open := strings.Index(d, "````\n{")
		require.Positive(t, open, d)
	}, time.Hour)
	b.answer(2*time.Hour, 0, approval.Deny)
	b.run(protocol.AgentInput{})
	d := b.details()
	require.Contains(t, d, "Nothing waits for an answer.")
	require.Contains(t, d, "denied by `alice` (`because`)")
}

func TestDetailsShowIgnoredAnswersAndOnlyTheFirstQuestions(t *testing.T) {
	b := newBench(t, asking(many(25, "{tool: run, args: {path: a}}")))
	b.signal(time.Hour, "`maybe`\n# heading")
	b.env.RegisterDelayedCallback(func() {
		require.Len(t, b.list().Pending, 25)
		d := b.details()
		require.Equal(t, 20, strings.Count(d, "### Approval needed"))
		require.Contains(t, d, "… and 5 more; see the query.")
		require.Contains(t, d, "**Ignored answers**")
		require.NotContains(t, d, "\n# heading")
		require.NotContains(t, d, "`maybe`")
	}, 2*time.Hour)
	b.signal(3*time.Hour, "deny")
	res := b.run(protocol.AgentInput{})
	require.Equal(t, 25, res.Asked)
	require.Len(t, b.list().Closed, 25)
}
