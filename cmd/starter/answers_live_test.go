package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/tool"
)

// engine puts more into the engine section of the world's configuration, before its worker starts.
func (w *world) engine(text string) {
	w.t.Helper()
	old, err := os.ReadFile(w.path("assent.yaml"))
	require.NoError(w.t, err)
	w.write("assent.yaml", strings.Replace(string(old), "engine:\n", "engine:\n"+text, 1))
}

// begun starts an agent and waits until it asks n questions.
func (w *world) begun(n int, args ...string) (id string, asked []listed) {
	w.t.Helper()
	id = unique(w.t)
	w.ok(w.starter(append([]string{"run", "--profile", "p", "--task", "x", "--id", id, "--no-wait"}, args...)...))
	return id, w.pending(id, n)
}

// next waits for the question after the one of a key.
func (w *world) next(id, key string) listed {
	w.t.Helper()
	var q listed
	require.Eventually(w.t, func() bool {
		q = w.pending(id, 1)[0]
		return q.Key != key
	}, patience, tick)
	return q
}

// Arguments can be changed in an editor, on the command line and in a file; the worker looks at them again.
func TestEditedAnswers(t *testing.T) {
	mark := unique(t)
	w := newWorld(t, fmt.Sprintf(`
turns:
  - calls: [{tool: shell, args: {command: "echo %[1]s one"}}]
  - calls: [{tool: shell, args: {command: "echo %[1]s two"}}]
    expect: {lastResult: {code: OK, contains: "%[1]s 1"}}
  - calls: [{tool: shell, args: {command: "echo %[1]s three"}}]
    expect: {lastResult: {code: DENIED, contains: nothing is deleted here}}
  - say: done
    expect: {lastResult: {code: DENIED, contains: do not fit the tool's schema}}
`, mark), "")
	w.work()
	id, asked := w.begun(1)
	first := asked[0]

	t.Setenv("VISUAL", "")
	t.Setenv("EDITOR", "")
	none := w.exits(w.starter("approve", first.Key, "--edit"), exit.Failed)
	require.Contains(t, none.err.String(), "error: neither VISUAL nor EDITOR names an editor")
	require.Contains(t, none.err.String(), "hint: set one, for example EDITOR=vi")
	t.Setenv("EDITOR", "false")
	failing := w.exits(w.starter("approve", first.Key, "--edit"), exit.Failed)
	require.Contains(t, failing.err.String(), `error: the editor "false" failed`)
	t.Setenv("EDITOR", "rm")
	gone := w.exits(w.starter("approve", first.Key, "--edit"), exit.Failed)
	require.Contains(t, gone.err.String(), `error: the editor "rm" left no file`)
	require.Contains(t, gone.err.String(), "hint: nothing was sent")
	t.Setenv("EDITOR", "sh -c 'echo broken > \"$1\"' sh")
	broken := w.exits(w.starter("approve", first.Key, "--edit"), exit.Failed)
	require.Contains(t, broken.err.String(), "error: the arguments are refused: they are not JSON")
	list := w.exits(w.starter("approve", first.Key, "--input", "[1]"), exit.Failed)
	require.Contains(t, list.err.String(), "they are no JSON object")
	long := w.exits(w.starter("approve", first.Key, "--input", `{"command":"`+strings.Repeat("x", approval.MaxAnswer-20)+`"}`), exit.Failed)
	require.Contains(t, long.err.String(), "at most 65536 are read")
	require.Equal(t, first.Key, w.pending(id, 1)[0].Key, "nothing was sent")

	t.Setenv("EDITOR", "sed -i s/one/1/")
	edited := w.ok(w.starter("approve", first.Key, "--edit"))
	require.Contains(t, edited.err.String(), `- command: "echo `+mark+` one"`)
	require.Contains(t, edited.err.String(), `+ command: "echo `+mark+` 1"`)
	require.Contains(t, edited.out.String(), "allowed "+first.Key+" in "+id+" with other arguments")

	second := w.next(id, first.Key)
	w.write("other.json", `{"command":"rm everything"}`)
	denied := w.exits(w.starter("approve", second.Key, "--input-file", w.path("other.json")), exit.Failed)
	require.Contains(t, denied.err.String(), "it was denied on the second look by deny-rule")
	require.Contains(t, denied.err.String(), "nothing is deleted here")

	third := w.next(id, second.Key)
	invalid := w.exits(w.starter("approve", third.Key, "--input", `{"command":7}`), exit.Failed)
	require.Contains(t, invalid.err.String(), "the edited arguments do not fit the tool's schema\n    /command  got number, want string\n")
	w.ok(w.starter("watch", id))
	shown := w.ok(w.starter("show", id)).out.String()
	require.Contains(t, shown, "with other arguments")
}

// A revoke withdraws a question, stops a call that runs, and says when there is nothing left to stop.
func TestRevoke(t *testing.T) {
	t.Parallel()
	mark := unique(t)
	w := newWorld(t, fmt.Sprintf(`
turns:
  - calls: [{tool: shell, args: {command: "echo %[1]s a"}}]
  - calls: [{tool: shell, args: {command: "touch began; sleep 1000; echo %[1]s"}}]
    expect: {lastResult: {code: DENIED, contains: withdrawn}}
  - calls: [{tool: shell, args: {command: "echo %[1]s b"}}, {tool: shell, args: {command: "echo %[1]s c"}}]
    expect: {lastResult: {code: ABORTED, contains: the approval was revoked while the call ran}}
  - say: done
`, mark), "")
	w.work()
	id, asked := w.begun(1)
	withdrawn := w.ok(w.starter("revoke", asked[0].Key, "--by", "carol", "--reason", "too early"))
	require.Equal(t, "withdrew "+asked[0].Key+" in "+id+" as carol (self-asserted): it never ran\n", withdrawn.out.String())

	running := w.next(id, asked[0].Key)
	w.ok(w.starter("approve", running.Key))
	require.Eventually(t, func() bool { _, err := os.Stat(w.path("began")); return err == nil }, patience, tick)
	text := w.ok(w.starter("approvals")).out.String()
	require.Contains(t, text, "allowed, and not ended\n")
	require.Contains(t, text, running.Key+"   "+id+"   shell   allowed by ")
	require.Contains(t, text, "on its way to a worker, or with one: a revoke asks it to stop")
	var grants []listedGrant
	for _, g := range lines[listedGrant](t, w.ok(w.starter("approvals", "-o", "json")).out.String()) {
		if g.State == stateAllowed && g.WorkflowID == id {
			grants = append(grants, g)
		}
	}
	require.Len(t, grants, 1)
	require.True(t, grants[0].Dispatched)
	stopped := w.ok(w.starter("revoke", running.Key, "-w", id, "--by", "carol"))
	// How soon the call stops is a matter of its next heartbeat.
	require.Regexp(t, "^revoked "+running.Key+" in "+id+` as carol \(self-asserted\): it (had begun and was asked to stop: ABORTED|is on its way to a worker, or with one, and is asked to stop)\n$`,
		stopped.out.String())

	two := w.pending(id, 2)
	w.ok(w.starter("approve", two[0].Key))
	var over *invocation
	require.Eventually(t, func() bool {
		over = w.starter("revoke", two[0].Key, "-w", id)
		return strings.Contains(over.err.String(), "the call of "+two[0].Key+" has ended in "+id+": nothing to revoke")
	}, patience, tick)
	require.Equal(t, exit.Failed, over.code)
	w.ok(w.starter("deny", two[1].Key, "--reason", "enough"))
	w.ok(w.starter("watch", id))

	got := lines[shown](t, w.ok(w.starter("show", id, "-o", "json")).out.String())[0]
	require.Len(t, got.Answers, 4)
	require.Equal(t, approval.Revoked, got.Answers[0].How)
	require.Equal(t, "carol", got.Answers[1].Revoked.By)
	require.Equal(t, tool.Aborted, got.Answers[1].Revoked.Outcome)
	require.Empty(t, got.Granted)
	require.Contains(t, w.ok(w.starter("show", id)).out.String(), "by carol (self-asserted): it had begun and was asked to stop: ABORTED\n")
}

// Many questions of several runs are answered with one command, each with a line of its own.
func TestAnswerAll(t *testing.T) {
	t.Parallel()
	mark := unique(t)
	var calls []string
	for i := range 12 {
		calls = append(calls, fmt.Sprintf(`{tool: shell, args: {command: "echo %s %d"}}`, mark, i))
	}
	w := newWorld(t, "turns: [{calls: ["+strings.Join(calls, ", ")+", {tool: exec, args: {argv: [\"true\"]}}]}, {say: done}]\n", "")
	old, err := os.ReadFile(w.path("assent.yaml"))
	require.NoError(t, err)
	w.write("assent.yaml", strings.Replace(string(old), "tools: [files, shell]", "tools: [files, shell, exec]", 1))
	stop := w.work()
	one, _ := w.begun(13)
	two, _ := w.begun(13)
	query := fmt.Sprintf("WorkflowId IN ('%s', '%s')", one, two)

	ask := w.exits(w.starter("approve", "--all", "--query", query), exit.Usage)
	require.Contains(t, ask.err.String(), "--all needs --yes")
	bad := w.exits(w.starter("approve", "--all", "--query", "Nonsense", "--yes"), exit.Failed)
	require.Contains(t, bad.err.String(), "list workflows")
	none := w.exits(w.starter("approve", "--all", "--query", query, "--tool", "fetch", "--yes"), exit.Failed)
	require.Contains(t, none.err.String(), `about the tool "fetch"`)

	some := w.ok(w.starter("approve", "--all", "--query", query, "--tool", "exec", "--yes", "--by", "alice"))
	require.Contains(t, some.out.String(), "allowed 2 of 2 calls in 2 runs\n")
	w.pending(one, 12)
	rest := w.ok(w.starter("deny", "--all", "-w", one, "--reason", "enough of it", "--yes", "-o", "json"))
	got := lines[result](t, rest.out.String())
	require.Len(t, got, 12)
	for _, r := range got {
		require.Equal(t, one, r.WorkflowID)
		require.Equal(t, approval.Denied, r.Closed.How)
		require.Equal(t, "update", r.Via)
	}
	w.ok(w.starter("watch", one))

	stop()
	sent := w.ok(w.starter("approve", "--all", "-w", two, "--yes"))
	require.Equal(t, 12, strings.Count(sent.out.String(), "by signal\n"))
	w.work()
	w.ok(w.starter("watch", two))
	require.Equal(t, 13, strings.Count(w.ok(w.starter("watch", two)).out.String(), "  allowed  "))
}

// A question for two of a group: one of them signs, the other cannot be proved to be who she says.
func TestQuorumAndSignature(t *testing.T) {
	t.Parallel()
	mark := unique(t)
	w := newWorld(t, asks("echo "+mark), "")
	made := w.local("keygen", w.path("alice.pem"), "--name", "alice")
	require.Zero(t, made.code, made.err.String())
	w.engine("  groups: {ops: [alice, bob, dan]}\n  keys: {" + strings.TrimSpace(made.out.String()) + "}\n" +
		"  approval: {approvers: {groups: [ops], min: 2}}\n")
	stop := w.work()
	id, asked := w.begun(1, "--requested-by", "dan")
	key := asked[0].Key
	require.Equal(t, "dan", asked[0].RequestedBy)
	text := w.ok(w.starter("approvals")).out.String()
	require.Contains(t, text, "  who     2 of ops; not dan, who asked for the run\n")

	for by, why := range map[string]string{
		"alice": `"alice" signs answers, and this one is not signed`,
		"carol": `"carol" is in none of the groups ops`,
		"dan":   `"dan" asked for the run`,
	} {
		refused := w.exits(w.starter("approve", key, "--by", by), exit.Failed)
		require.Contains(t, refused.err.String(), why)
	}
	require.NoError(t, os.Chmod(w.path("alice.pem"), 0o644))
	open := w.exits(w.starter("approve", key, "--by", "alice", "--sign", w.path("alice.pem")), exit.Usage)
	require.Contains(t, open.err.String(), "hint: chmod 600 "+w.path("alice.pem"))
	require.NoError(t, os.Chmod(w.path("alice.pem"), 0o600))
	stranger := w.local("keygen", w.path("other.pem"), "--name", "alice")
	require.Zero(t, stranger.code)
	forged := w.exits(w.starter("approve", key, "--by", "alice", "--sign", w.path("other.pem")), exit.Failed)
	require.Contains(t, forged.err.String(), "it is not over this answer to this question")

	// Without a worker the question is read from history, and what is signed is the same.
	stop()
	q := w.pending(id, 1)[0]
	require.Equal(t, fromHistory, q.Source)
	require.Equal(t, asked[0].Seal, q.Seal)
	sent := w.ok(w.starter("approve", key, "--by", "alice", "--sign", w.path("alice.pem"), "--expires", "1h"))
	require.Contains(t, sent.out.String(), "by signal as alice (signed)\n")
	w.work()
	require.Eventually(t, func() bool { return len(w.pending(id, 1)[0].Votes) == 1 }, patience, tick)
	require.Contains(t, w.ok(w.starter("approvals")).out.String(), "  so far  1 of 2: alice (signed)\n")
	require.Contains(t, w.ok(w.starter("show", id)).out.String(), "  so far  1 of 2: alice (signed)\n")

	twice := w.exits(w.starter("approve", key, "--by", "alice", "--sign", w.path("alice.pem")), exit.Failed)
	require.Contains(t, twice.err.String(), `"alice" has allowed it before`)
	done := w.ok(w.starter("approve", key, "--by", "bob"))
	require.Equal(t, "allowed "+key+" in "+id+" as bob (self-asserted)\n", done.out.String())
	w.ok(w.starter("watch", id))
	shown := w.ok(w.starter("show", id)).out.String()
	require.Contains(t, shown, "  for     dan\n")
	require.Contains(t, shown, "  allowed  "+key+" by alice (signed), bob (self-asserted)\n")
}

// A question that nobody answers makes itself heard, and then asks more people.
func TestRemindersAndEscalation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asks("echo "+unique(t)), "")
	w.engine("  groups: {ops: [alice], leads: [erin]}\n" +
		"  approval: {remind: 1s, escalate: {after: 2s, groups: [leads]}, approvers: {groups: [ops]}}\n")
	w.work()
	id, asked := w.begun(1)
	require.Eventually(t, func() bool {
		q := w.pending(id, 1)[0]
		return q.Reminded > 0 && q.Escalated != nil
	}, patience, tick)
	text := w.ok(w.starter("approvals")).out.String()
	require.Contains(t, text, "  who     1 of ops, leads; not ")
	require.Contains(t, text, "  waits   escalated to leads at ")
	require.Contains(t, w.ok(w.starter("show", id)).out.String(), "  waits   escalated to leads at ")
	w.ok(w.starter("approve", asked[0].Key, "--by", "erin"))
	w.ok(w.starter("watch", id))
	story := w.ok(w.starter("watch", id)).out.String()
	require.Contains(t, story, "  waits  "+asked[0].Key+" still waits (reminder 1)\n")
	require.Contains(t, story, "  waits  "+asked[0].Key+" still waits; escalated to leads\n")
}

// An answer can vet its command for the rest of the run.
func TestAlways(t *testing.T) {
	t.Parallel()
	mark := unique(t)
	call := fmt.Sprintf(`{tool: shell, args: {command: "echo %s"}}`, mark)
	w := newWorld(t, "turns: [{calls: ["+call+"]}, {calls: ["+call+"]}, {say: done}]\n", "")
	w.work()
	id, asked := w.begun(1)
	answered := w.ok(w.starter("approve", asked[0].Key, "--always"))
	line := fmt.Sprintf("- {tool: [shell], argv: [\"echo %s\"]}\n", mark)
	require.Contains(t, answered.out.String(), line)
	w.ok(w.starter("watch", id))
	require.Contains(t, w.ok(w.starter("show", id)).out.String(), line)
}
