package workflows_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
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
	b := newBench(t, asking("turns:\n  - calls: [{tool: run, args: {path: \"a && b > c\\n```\\n# not a heading\\u202e <!-- /assent -->\\n{runId}\"}}]\n  - say: done\n"))
	b.env.RegisterDelayedCallback(func() {
		q := b.list().Pending[0]
		d := b.details()
		require.Contains(t, d, "### Approval needed: `"+q.Key+"`\n")
		require.Contains(t, d, "The agent `p` asks to call the tool `run`.")
		require.Contains(t, d, "- **why** `ask-rule ")
		require.Contains(t, d, "- **answer until** there is no deadline; it waits\n")
		// The same JSON, as people write it; what hides, and what the UI would replace, is an escape.
		require.Contains(t, d, `"a && b > c\n`)
		require.Contains(t, d, `\u202e`)
		require.NotContains(t, d, "\u202e")
		require.Contains(t, d, `\u007brunId}`)
		require.NotContains(t, d, "{runId}")
		require.Equal(t, 1, strings.Count(d, "<!-- /assent -->"))
		require.Contains(t, d, "starter approve "+q.Key+" --workflow ")
		require.Contains(t, d, `--input '{"key":"`+q.Key+`","decision":"allow"}'`)
		require.Contains(t, d, `--input '{"key":"`+q.Key+`",`+"\n    "+`"decision":"deny",`)
		// The text of several lines stands in fences that it cannot close.
		require.Contains(t, d, "`path` in it, as text:\n\n````\na && b > c\n```\n# not a heading")
		require.Contains(t, d, "\n````\n{\n  \"path\"")
	}, time.Hour)
	b.answer(2*time.Hour, 0, approval.Deny)
	b.run(protocol.AgentInput{})
	d := b.details()
	require.Contains(t, d, "Nothing waits for an answer.")
	require.Regexp(t, "- .* UTC · `run-[0-9a-f]{8}` \\*\\*denied\\*\\* by `alice`, by signal: `because`\n", d)
}

func TestDetailsSayWhenAQuestionCloses(t *testing.T) {
	s := asking(many(1, "{tool: run, args: {path: a}}"))
	s.profile.Permissions.Approval = &permission.ApprovalPolicy{Deadline: 3 * time.Hour}
	b := newBench(t, s)
	b.env.RegisterDelayedCallback(func() {
		at := b.list().Pending[0].Deadline.UTC().Format(time.DateTime)
		require.Contains(t, b.details(), "- **answer until** "+at+" UTC; after that it is denied\n")
	}, time.Hour)
	b.run(protocol.AgentInput{})
	require.Contains(t, b.details(), "**expired**, at its deadline\n")
}

func TestDetailsShowIgnoredAnswersAndOnlyTheFirstQuestions(t *testing.T) {
	b := newBench(t, asking(many(25, "{tool: run, args: {path: a}}")))
	b.signal(time.Hour, "`maybe`\n# heading")
	b.env.RegisterDelayedCallback(func() {
		require.Len(t, b.list().Pending, 25)
		d := b.details()
		shown := strings.Count(d, "### Approval needed: ")
		require.Greater(t, shown, 10)
		require.Contains(t, d, fmt.Sprintf("**%d more** are open.", 25-shown))
		require.Contains(t, d, "temporal workflow query")
		require.Less(t, len(d), 32<<10)
		require.Contains(t, d, "**Ignored answers**")
		require.NotContains(t, d, "\n# heading")
		require.NotContains(t, d, "`maybe`")
	}, 2*time.Hour)
	b.signal(3*time.Hour, "deny")
	res := b.run(protocol.AgentInput{})
	require.Equal(t, 25, res.Asked)
	require.Len(t, b.list().Closed, 25)
}

// Arguments without room say so, and where the rest is.
func TestDetailsSayWhatTheyCut(t *testing.T) {
	b := newBench(t, asking("turns:\n  - calls: [{tool: run, args: {path: "+strings.Repeat("é", 5000)+"}}]\n  - say: done\n"))
	b.env.RegisterDelayedCallback(func() {
		d := b.details()
		require.Regexp(t, "\nThese are the first 409[56] bytes of 100[0-9]{2}. All of it is told by:\n", d)
		require.Contains(t, d, "  --type approvals\n")
		for line := range strings.Lines(d) {
			if strings.Contains(line, "é") {
				require.LessOrEqual(t, utf8.RuneCountInString(line), 59, "a line is folded")
			}
		}
	}, time.Hour)
	b.answer(2*time.Hour, 0, approval.Deny)
	b.run(protocol.AgentInput{})
}

// A command is explained part by part: which of them asks, and by which pattern or construct.
func TestDetailsShowThePartsThatAsk(t *testing.T) {
	rule := permission.Rule{Tool: permission.One("sh"), Argv: permission.Many("git push **", "rm **")}
	for name, tc := range map[string]struct {
		command string
		want    []string
		not     string
	}{
		"a pattern":   {"make && git push origin", []string{"- **asks for** `git push origin`, ask pattern `git push **`\n"}, "`make`"},
		"a construct": {"make; echo $(date)", []string{"- **asks for** `echo $(date)`, `command substitution`\n"}, "`make`"},
		"many": {strings.Repeat("rm x;", 9), []string{"- **asks for** `rm x`, ask pattern `rm **`\n",
			"- **asks for** 4 more parts of the command\n"}, "5 more"},
		"foreign text": {"rm '`'; rm {runId}", []string{"- **asks for** `rm '''`, ask pattern"}, "{runId}"},
	} {
		t.Run(name, func(t *testing.T) {
			s := asking(many(1, "{tool: sh, args: {command: "+strconv.Quote(tc.command)+"}}"))
			shown := false
			s.tools = []*tool.Def{shellTool()}
			s.profile.Permissions = permission.Layer{Ask: []permission.Rule{rule}}
			b := newBench(t, s)
			b.env.RegisterDelayedCallback(func() {
				d, _, _ := strings.Cut(b.details(), "With these arguments")
				for _, want := range tc.want {
					require.Contains(t, d, want)
				}
				require.NotContains(t, d, tc.not)
				shown = true
			}, time.Hour)
			b.answer(2*time.Hour, 0, approval.Deny)
			b.run(protocol.AgentInput{})
			require.True(t, shown)
		})
	}
}
