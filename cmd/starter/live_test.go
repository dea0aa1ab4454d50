package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/history"
	"github.com/assent-dev/assent/protocol"
)

// asks is a script that runs one shell command, which has to be asked about.
func asks(command string) string {
	return fmt.Sprintf(`
turns:
  - say: Let me see.
    calls: [{tool: shell, args: {command: %q}}]
    usage: {inputTokens: 100, outputTokens: 20}
  - say: Done with it.
`, command)
}

const inTree = "    isolation: {kind: worktree, repo: main}\n"

// The operator's journey: run, see what waits, approve by key, get the patch and apply it.
func TestFromTaskToPatch(t *testing.T) {
	t.Parallel()
	command := "printf '%s\\n' two >> a.txt; echo " + unique(t)
	w := newWorld(t, asks(command), inTree)
	w.work()
	id := unique(t)
	running := w.begin("run", "--profile", "p", "--task", "append a line", "--id", id)
	q := w.pending(id, 1)[0]
	require.Equal(t, "p", q.Agent)
	require.Equal(t, fromQuery, q.Source)
	require.JSONEq(t, fmt.Sprintf(`{"command":%q}`, command), string(q.Input))

	text := w.ok(w.starter("approvals")).out.String()
	require.Contains(t, text, q.Key+"   "+id+" (p)   asked ")
	require.Contains(t, text, "  shell   "+command+"\n")
	require.Contains(t, text, "  why     ask-rule {risk: [network, execute, destructive]} (preset standard)\n")
	require.Regexp(t, id+` +waiting +p .* `+q.Key, w.ok(w.starter("list", "--running", "--limit", "1000")).out.String())
	require.Contains(t, w.ok(w.starter("show", id)).out.String(), id+"   waiting   p   started ")
	w.exits(w.starter("watch", id, "--no-wait"), exit.Suspended)
	early := w.exits(w.starter("patch", id), exit.Failed)
	require.Contains(t, early.err.String(), "has no patch yet")

	answered := w.ok(w.starter("approve", q.Key, "--by", "alice", "--reason", "harmless"))
	require.Equal(t, fmt.Sprintf("allowed %s in %s as alice (self-asserted)\n", q.Key, id), answered.out.String())
	w.ok(running)
	require.Contains(t, running.out.String(), "⏸ approval needed   "+q.Key+"\n  shell   "+command+"\n  why     ask-rule ")
	require.Contains(t, running.out.String(), "-w "+id+" --name approval --input '{\"key\":\""+q.Key+"\",\"decision\":\"allow\"}'")
	require.Contains(t, running.out.String(), "allowed  "+q.Key+" by alice (self-asserted): harmless")
	require.Contains(t, running.out.String(), "ok   2 turns · 1 call · 1 approval · $0.00")

	// A later watch shows the same, and show the sum of it.
	require.Equal(t, running.out.String(), w.ok(w.starter("watch", id)).out.String())
	require.Contains(t, w.ok(w.starter("show", id)).out.String(), "Done with it.")

	missing := w.exits(w.starter("patch", id, "--blobs", w.path("elsewhere")), exit.Failed)
	require.Contains(t, missing.err.String(), "no blob store at "+w.path("elsewhere"))
	require.NoDirExists(t, w.path("elsewhere"))
	w.otherStore("other")
	missing = w.exits(w.starter("patch", id, "--blobs", w.path("other")), exit.Failed)
	require.Contains(t, missing.err.String(), "the agent used")
	require.Empty(t, missing.out.String())

	patch := w.ok(w.starter("patch", id, "--config", w.path("assent.yaml"))).out.String()
	w.write("fix.patch", patch)
	w.git("repo", "apply", "--check", w.path("fix.patch"))
	w.ok(w.starter("patch", id, "--blobs", w.path("blobs"), "--to", w.path("again.patch")))
	w.git("repo", "apply", w.path("again.patch"))
	text2, err := os.ReadFile(w.path("repo/a.txt"))
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\n", string(text2))

	over := w.exits(w.starter("approve", q.Key, "-w", id), exit.Failed)
	require.Contains(t, over.err.String(), "has ended (completed) and takes no answers")
}

func TestDenyReachesTheAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fmt.Sprintf(`
turns:
  - calls: [{tool: shell, args: {command: "echo %s"}}]
  - say: Then not.
    expect: {lastResult: {code: DENIED, contains: not on a Friday}}
`, unique(t)), "")
	w.work()
	id := unique(t)
	running := w.begin("run", "--profile", "p", "--task", "x", "--id", id, "-o", "json")
	q := w.pending(id, 1)[0]
	out := w.ok(w.starter("deny", q.Key, "--reason", "not on a Friday", "-o", "json")).out.String()
	got := lines[map[string]any](t, out)[0]
	require.Equal(t, "deny", got["decision"])
	require.Equal(t, "update", got["via"])
	w.ok(running)

	events := lines[follow.Event](t, running.out.String())
	seen := map[string]bool{}
	for _, e := range events {
		key := fmt.Sprint(e.RunID, e.EventID, e.Kind)
		require.False(t, seen[key], "%s is told twice", key)
		seen[key] = true
		require.NotEqual(t, follow.ToolStart, e.Kind)
	}
	end := events[len(events)-1]
	require.Equal(t, follow.AgentEnd, end.Kind)
	require.Equal(t, protocol.OK, end.End.Result.Status)
}

func TestAKeyThatIsUnknownOrMeansSeveral(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asks("echo "+unique(t)), "")
	w.work()
	one, two := unique(t), unique(t)
	for _, id := range []string{one, two} {
		require.Equal(t, id+"\n", w.ok(w.starter("run", "--profile", "p", "--task", "x", "--id", id, "--no-wait")).out.String())
	}
	key := w.pending(one, 1)[0].Key
	require.Equal(t, key, w.pending(two, 1)[0].Key)

	unknown := w.exits(w.starter("approve", "shell-00000000"), exit.Failed)
	require.Contains(t, unknown.err.String(), `error: no approval "shell-00000000" waits`)
	if text := unknown.err.String(); !strings.Contains(text, "\n  … and ") {
		// A longer list is cut, and other tests ask in the same namespace.
		require.Contains(t, text, key+"   "+one)
	}
	unknown = w.exits(w.starter("approve", "shell-00000000", "-w", one), exit.Failed)
	require.Contains(t, unknown.err.String(), key+"   "+one)
	require.NotContains(t, unknown.err.String(), two)

	several := w.exits(w.starter("deny", key, "--reason", "x"), exit.Usage)
	require.Contains(t, several.err.String(), "waits in 2 agents")
	require.Contains(t, several.err.String(), one)
	require.Contains(t, several.err.String(), two)
	require.Contains(t, several.err.String(), "hint: name one: ")

	w.ok(w.starter("approve", key, "-w", two))
	w.ok(w.starter("watch", two))
	w.ok(w.starter("approve", key))
	w.ok(w.starter("watch", one))

	nobody := w.exits(w.starter("approve", key, "-w", "nobody-"+one), exit.Failed)
	require.Contains(t, nobody.err.String(), "no agent \"nobody-"+one+"\"")
	again := w.exits(w.starter("watch", "nobody-"+one), exit.Failed)
	require.Contains(t, again.err.String(), "no agent")
}

// Without a worker nothing is lost: what waits is read from history, and the answer is a signal.
func TestAnAnswerWithoutAWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asks("echo "+unique(t)), "")
	id := unique(t)
	running := w.begin("run", "--profile", "p", "--task", "x", "--id", id)
	w.until(running, func() bool { return strings.Contains(running.err.String(), "no worker polls queue \""+w.queue+"\"") })
	running.cancel()
	w.exits(running, exit.Interrupted)
	require.Contains(t, running.err.String(), "the agent goes on; come back with: ")

	twice := w.exits(w.starter("run", "--profile", "p", "--task", "x", "--id", id), exit.Usage)
	require.Contains(t, twice.err.String(), "is already at work")

	stop := w.work()
	key := w.pending(id, 1)[0].Key
	stop()
	q := w.pending(id, 1)[0]
	require.Equal(t, key, q.Key)
	require.Equal(t, fromHistory, q.Source)
	require.NotEmpty(t, q.Input)
	require.Contains(t, w.ok(w.starter("approvals")).out.String(), "no worker answers on queue "+w.queue)
	sent := w.ok(w.starter("approve", key))
	require.Contains(t, sent.out.String(), "by signal")
	require.Contains(t, sent.err.String(), "takes effect when one runs")
	w.work()
	w.ok(w.starter("watch", id))
}

func TestHowAgentsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asks("echo "+unique(t)), "")
	w.work()
	unknown := w.exits(w.starter("run", "--profile", "nobody", "--task", "x"), exit.Usage)
	require.Contains(t, unknown.err.String(), "unknown profile \"nobody\"; one of p\n")
	model := w.exits(w.starter("run", "--profile", "p", "--task", "x", "--model", "scripted:none"), exit.Usage)
	require.Contains(t, model.err.String(), "unknown script")

	id := unique(t)
	running := w.begin("run", "--profile", "p", "--task", "x", "--id", id)
	w.pending(id, 1)
	require.NoError(t, w.server().CancelWorkflow(context.Background(), id, ""))
	w.exits(running, exit.Failed)
	require.Contains(t, running.out.String(), "cancelled   ")
	require.Contains(t, w.ok(w.starter("show", id)).out.String(), "cancelled")

	id = unique(t)
	running = w.begin("run", "--profile", "p", "--task", "x", "--id", id)
	w.pending(id, 1)
	require.NoError(t, w.server().TerminateWorkflow(context.Background(), id, "", "enough"))
	w.exits(running, exit.Failed)
	require.Contains(t, running.out.String(), "terminated")
	require.Contains(t, running.out.String(), "enough")
}

// A person sees a command as it is written; what it becomes when it runs is held against the deny rules once more.
func TestAnApprovalDoesNotBeatADenyRuleAtRunTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fmt.Sprintf(`
turns:
  - calls: [{tool: shell, args: {command: "c=$(echo rm); $c keep.txt; echo %s"}}]
  - say: It was not allowed.
    expect: {lastResult: {code: DENIED, contains: nothing is deleted here}}
`, unique(t)), "")
	w.write("keep.txt", "precious")
	w.work()
	id := unique(t)
	running := w.begin("run", "--profile", "p", "--task", "x", "--id", id)
	w.ok(w.starter("approve", w.pending(id, 1)[0].Key))
	w.ok(running)
	require.FileExists(t, w.path("keep.txt"))
}

func TestALimitIsExitCode4(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "turns: [{calls: [{tool: list_files, args: {dir: .}}]}, {say: that is all}]\n", "    limits: {maxTurns: 1}\n")
	w.work()
	limited := w.exits(w.starter("run", "--profile", "p", "--task", "x"), exit.Limited)
	require.Contains(t, limited.out.String(), "maxTurns (1) was reached")
}

// A reset ends the run that is watched; the watching goes on with the new one and repeats nothing. The old answer is
// void there, and the question is put again under another key.
func TestWatchFollowsAReset(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fmt.Sprintf(`
turns:
  - calls: [{tool: shell, args: {command: "echo %[1]s first"}}]
  - calls: [{tool: shell, args: {command: "echo %[1]s second"}}]
  - say: done
`, unique(t)), "")
	w.work()
	id := unique(t)
	watching := w.begin("run", "--profile", "p", "--task", "x", "--id", id, "-o", "json")
	first := w.pending(id, 1)[0]
	w.ok(w.starter("approve", first.Key))
	require.Eventually(t, func() bool { return w.pending(id, 1)[0].Key != first.Key }, patience, tick)

	// The task that put the first question had this event.
	var asked int64
	for _, e := range lines[follow.Event](t, whole(watching.out.String())) {
		if e.Kind == follow.ApprovalPending && e.Question.Key == first.Key {
			asked = e.EventID
		}
	}
	require.Positive(t, asked)
	s := w.server()
	_, err := s.ResetWorkflowExecution(context.Background(), &workflowservice.ResetWorkflowExecutionRequest{Namespace: s.Namespace,
		WorkflowExecution: executionOf(id, first.RunID), Reason: "look again", RequestId: unique(t), WorkflowTaskFinishEventId: nextTask(t, s, id, first.RunID, asked)})
	require.NoError(t, err)
	var again listed
	require.Eventually(t, func() bool {
		found := w.pending(id, 1)
		again = found[0]
		return again.Key == first.Key+".2"
	}, patience, tick)
	require.NotEqual(t, first.RunID, again.RunID)
	w.ok(w.starter("approve", again.Key))
	require.Eventually(t, func() bool { return w.pending(id, 1)[0].Key != again.Key }, patience, tick)
	w.ok(w.starter("approve", w.pending(id, 1)[0].Key))
	w.ok(watching)

	count := map[follow.Kind]int{}
	var closed []approval.How
	for _, e := range lines[follow.Event](t, watching.out.String()) {
		count[e.Kind]++
		if e.Kind == follow.ApprovalClosed {
			closed = append(closed, e.Closed.How)
		}
	}
	require.Equal(t, 1, count[follow.AgentStart])
	require.Equal(t, 1, count[follow.Reset])
	require.Equal(t, 1, count[follow.AgentEnd])
	require.Contains(t, closed, approval.Void)
}

func executionOf(id, run string) *commonpb.WorkflowExecution {
	return &commonpb.WorkflowExecution{WorkflowId: id, RunId: run}
}

// nextTask is the end of the first workflow task after an event: a run can be reset to it.
func nextTask(t *testing.T, s *connect.Server, id, run string, after int64) int64 {
	t.Helper()
	for e, err := range history.Read(context.Background(), s, id, run) {
		require.NoError(t, err)
		if e.GetEventId() > after && e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			return e.GetEventId()
		}
	}
	require.Fail(t, "no workflow task after the event")
	return 0
}

// whole leaves out a last line that is still being written.
func whole(text string) string {
	for i := len(text) - 1; i >= 0; i-- {
		if text[i] == '\n' {
			return text[:i]
		}
	}
	return ""
}

func TestATaskThatIsTooLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "turns: [{say: done}]\n", "")
	w.write("task.md", string(make([]byte, protocol.MaxPrompt+1)))
	long := w.exits(w.starter("run", "--profile", "p", "--task-file", w.path("task.md")), exit.Usage)
	require.Contains(t, long.err.String(), "at most 1.0 MiB fit")
}

func TestShowAsJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "turns: [{calls: [{tool: list_files, args: {dir: .}}, {tool: shell, args: {command: rm -rf x}}]}, {say: that is all}]\n", "")
	w.work()
	id := unique(t)
	w.ok(w.starter("run", "--profile", "p", "--task", "x", "--id", id))
	var got shown
	require.NoError(t, json.Unmarshal([]byte(w.ok(w.starter("show", id, "-o", "json")).out.String()), &got))
	require.Equal(t, "ok", got.Status)
	require.Len(t, got.Calls, 2)
	require.Equal(t, "OK", got.Calls[0].State)
	require.Equal(t, "denied", got.Calls[1].State)
	require.Contains(t, got.Calls[1].Reason, "nothing is deleted here")
	none := w.exits(w.starter("patch", id), exit.Failed)
	require.Contains(t, none.err.String(), "it did not run in a worktree")
	found := false
	for _, r := range lines[row](t, w.ok(w.starter("list", "-o", "json", "--limit", "1000")).out.String()) {
		found = found || r.WorkflowID == id && r.Status == "completed"
	}
	require.True(t, found)
}
