package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// cliEnv names the real temporal command: what an operator has, and nothing of ours.
const cliEnv = "ASSENT_CLI"

// operator is somebody with a shell, the temporal command and the server's address.
type operator struct {
	t       *testing.T
	address string
	// bin is the one folder on PATH beside the system's; dir is where the operator works.
	bin, dir string
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	path := os.Getenv(cliEnv)
	if path == "" {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not set; it names the real temporal command", cliEnv)
		}
		t.Skipf("%s is not set; it names the real temporal command", cliEnv)
	}
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	o := &operator{t: t, address: devservertest.Server(t).Address(), bin: t.TempDir(), dir: t.TempDir()}
	require.NoError(t, os.Symlink(path, filepath.Join(o.bin, "temporal")))
	return o
}

// said is what a command printed and how it ended.
type said struct {
	out, err string
	code     int
}

func (s said) String() string { return fmt.Sprintf("exit %d\n%s%s", s.code, s.out, s.err) }

// exec runs a program as the operator would, who has no profile and no variable but the address.
func (o *operator) exec(name string, args ...string) said {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, err bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = o.dir, &out, &err
	cmd.Env = []string{"HOME=" + o.dir, "PATH=" + o.bin + ":/usr/bin:/bin", "LC_ALL=C.UTF-8", "TEMPORAL_ADDRESS=" + o.address}
	failed := cmd.Run()
	require.NoError(o.t, ctx.Err(), "%s %q did not end", name, args)
	if exit := (*exec.ExitError)(nil); failed != nil && !errors.As(failed, &exit) {
		require.NoError(o.t, failed)
	}
	return said{out.String(), err.String(), cmd.ProcessState.ExitCode()}
}

// temporal types a command with --address.
func (o *operator) temporal(args ...string) said {
	o.t.Helper()
	return o.exec(filepath.Join(o.bin, "temporal"), append(args, "--address", o.address)...)
}

// ok is a command that succeeds; it returns what was printed.
func (o *operator) ok(args ...string) string {
	o.t.Helper()
	s := o.temporal(args...)
	require.Zero(o.t, s.code, "temporal %q: %v", args, s)
	return s.out
}

// refused is a command that fails; it returns the reason.
func (o *operator) refused(args ...string) string {
	o.t.Helper()
	s := o.temporal(args...)
	require.NotZero(o.t, s.code, "temporal %q: %v", args, s)
	return s.err
}

// finds waits until a list with the query has the ids, or no longer has them.
func (o *operator) finds(query string, want bool, ids ...string) {
	o.t.Helper()
	require.Eventually(o.t, func() bool {
		list := o.ok("workflow", "list", "--limit", "1000", "--query", query)
		for _, id := range ids {
			if strings.Contains(list, id) != want {
				return false
			}
		}
		return true
	}, patience, tick)
}

// details are what the workflow's page shows.
func (o *operator) details(id string) string {
	o.t.Helper()
	var answer struct {
		QueryResult []struct{ CurrentDetails string } `json:"queryResult"`
	}
	text := o.ok("workflow", "metadata", "-w", id, "-o", "json")
	require.NoError(o.t, json.Unmarshal([]byte(text), &answer), text)
	require.Len(o.t, answer.QueryResult, 1)
	return answer.QueryResult[0].CurrentDetails
}

// waiting is the query that we document.
const waiting = "AssentStatus='waiting' AND ExecutionStatus='Running'"

// asked starts an agent that asks once and waits until the question is there.
func (o *operator) asked() (*world, approval.Approval) {
	o.t.Helper()
	w := newWorld(o.t)
	w.work(askingWith(oneAsk))
	w.start(protocol.AgentInput{})
	return w, w.pending(1)[0]
}

func TestStockToolsFindReadAndAllow(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	w, q := o.asked()
	o.finds(waiting, true, w.id)
	o.finds(waiting+" AND AssentPendingTool='run' AND AssentAgent='p'", true, w.id)

	describe := o.ok("workflow", "describe", "-w", w.id)
	require.Contains(t, describe, q.Key, "the memo is there without a worker")
	require.Contains(t, describe, "AssentStatus")
	require.Contains(t, o.ok("workflow", "show", "-w", w.id), "MarkerRecorded")

	query := o.ok("workflow", "query", "-w", w.id, "--type", protocol.QueryApprovals)
	require.Contains(t, query, `"key":"`+q.Key+`"`)
	require.Contains(t, query, `"input":{"text":"a"}`)
	var answer struct {
		QueryResult []approval.List `json:"queryResult"`
	}
	query = o.ok("workflow", "query", "-w", w.id, "--type", protocol.QueryApprovals, "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(query), &answer))
	require.Equal(t, q.Key, answer.QueryResult[0].Pending[0].Key)

	metadata := o.ok("workflow", "metadata", "-w", w.id)
	require.Contains(t, metadata, "Approval needed: `"+q.Key+"`")
	require.Contains(t, metadata, protocol.QueryApprovals)
	require.Contains(t, metadata, protocol.UpdateResolve)

	out := o.ok("workflow", "signal", "-w", w.id, "--name", "approval", "--input", `{"key":"`+q.Key+`","decision":"allow"}`)
	require.Contains(t, out, "succeeded")
	require.Contains(t, o.ok("workflow", "result", "-w", w.id), `"status":"ok"`)
	require.Equal(t, []string{"run a"}, w.ran())
	require.Contains(t, o.details(w.id), "Nothing waits for an answer.")
	o.finds(waiting, false, w.id)
	o.finds("AssentStatus='done' AND AssentAgent='p'", true, w.id)
}

// The temporal command rounds the numbers of a query's answer. The details hold the digits that will run.
func TestStockDetailsShowExactNumbers(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	w := newWorld(t)
	w.work(askingWith(`
turns:
  - calls: [{tool: big, raw: '{"bytes": 9007199254740993}'}]
  - say: done
`))
	w.start(protocol.AgentInput{Permissions: &protocol.Tighten{Ask: []permission.Rule{{Tool: permission.One("big")}}}})
	w.pending(1)
	require.Contains(t, o.details(w.id), "9007199254740993")
	require.Contains(t, o.ok("workflow", "metadata", "-w", w.id), "9007199254740993")
	o.ok("workflow", "signal", "-w", w.id, "--name", "approval", "--input", `"deny"`)
	require.Equal(t, []string{"DENIED/person"}, w.codes(w.result()))
}

func TestStockToolsDenyWithAReason(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	w, q := o.asked()
	o.ok("workflow", "signal", "-w", w.id, "--name", "approval", "--input", `{"key":"`+q.Key+`","decision":"deny","reason":"not today"}`)
	res := w.result()
	require.Equal(t, []string{"DENIED/person"}, w.codes(res))
	require.Contains(t, string(w.results(res)[0].Result.Failure.Message), "not today")
	require.Empty(t, w.ran())
	require.Contains(t, o.details(w.id), "not today")
}

// What an operator types wrong is refused by the command, ignored by the agent with the reason, or a deny.
func TestStockFormsOfASignal(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		// input is nil for none at all.
		input   []string
		refused bool
		ignored string
		code    string
	}{
		"no input":                {ignored: "it is empty"},
		"bare word":               {input: []string{`allow`}, refused: true},
		"bare object":             {input: []string{`{key:KEY,decision:allow}`}, refused: true},
		"allow in quotes":         {input: []string{`"allow"`}, code: "OK"},
		"deny in quotes":          {input: []string{`"deny"`}, code: "DENIED/person"},
		"object in a string":      {input: []string{`"{\"key\":\"KEY\",\"decision\":\"allow\"}"`}, code: "OK"},
		"another key":             {input: []string{`{"key":"run-00000000","decision":"allow"}`}, ignored: "not pending"},
		"key of another case":     {input: []string{`{"Key":"KEY","decision":"allow"}`}, ignored: "names no key"},
		"decision of another":     {input: []string{`{"key":"KEY","decision":"Allow"}`}, code: "DENIED/person"},
		"spread over two options": {input: []string{`"KEY"`, `"allow"`}, ignored: "neither allow nor deny"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOperator(t)
			w, q := o.asked()
			args := []string{"workflow", "signal", "-w", w.id, "--name", "approval"}
			for _, in := range tc.input {
				args = append(args, "--input", strings.ReplaceAll(in, "KEY", q.Key))
			}
			if tc.refused {
				require.Contains(t, o.refused(args...), "not valid JSON")
			} else {
				o.ok(args...)
			}
			if tc.code == "" {
				if tc.ignored != "" {
					require.Eventually(t, func() bool { return strings.Contains(o.details(w.id), tc.ignored) }, patience, tick)
				}
				require.Len(t, w.pending(1), 1, "the question is still open")
				o.ok("workflow", "signal", "-w", w.id, "--name", "approval", "--input", `"deny"`)
				tc.code = "DENIED/person"
			}
			require.Equal(t, []string{tc.code}, w.codes(w.result()))
			require.Equal(t, tc.code == "OK", len(w.ran()) == 1)
		})
	}
}

func TestStockUpdatesAreToldAtOnce(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	w, q := o.asked()
	resolve := []string{"workflow", "update", "execute", "-w", w.id, "--name", "resolve", "--input"}
	before := w.happened()
	unknown := o.refused(append(resolve, `{"key":"run-00000000","decision":"allow"}`)...)
	require.Contains(t, unknown, "run-00000000")
	require.Contains(t, unknown, "no such question is pending")
	require.Contains(t, o.refused(append(resolve, `{"key":"`+q.Key+`","decision":"yes"}`)...), "is none of allow, deny, revoke")
	require.Contains(t, o.refused(append(resolve, `"allow"`)...), "it is no JSON object")
	require.Contains(t, o.refused(resolve[:len(resolve)-1]...), "it is empty")
	require.Equal(t, before, w.happened(), "a refused update leaves nothing in history")
	out := o.ok(append(resolve, `{"key":"`+q.Key+`","decision":"allow","by":"alice"}`)...)
	require.Contains(t, out, q.Key)
	require.Contains(t, out, "allow")
	require.Equal(t, []string{"OK"}, w.codes(w.result()))
	require.Contains(t, o.refused(append(resolve, `{"key":"`+q.Key+`","decision":"deny"}`)...), "already completed")
}

// One command answers many agents, and none that its query does not name.
func TestStockBulkDeny(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	first := newWorld(t)
	first.work(askingWith(twoAsks))
	var ids []string
	var agents []*world
	for i := range 4 {
		w := *first
		w.id = fmt.Sprintf("%s-%d", first.id, i)
		label := "bulk"
		if i == 3 {
			label = "spared"
		}
		w.start(protocol.AgentInput{Label: label})
		w.pending(2)
		ids, agents = append(ids, w.id), append(agents, &w)
	}
	mine := waiting + " AND TaskQueue='" + first.queue + "'"
	o.finds(mine, true, ids...)
	out := o.ok("workflow", "signal", "--query", mine+" AND WorkflowId!='"+ids[3]+"'", "--name", "approval", "--input", `"deny"`,
		"--reason", "an incident", "--yes")
	require.Contains(t, out, "3")
	for _, w := range agents[:3] {
		require.Equal(t, []string{"DENIED/person", "DENIED/person"}, w.codes(w.result()))
	}
	require.Len(t, agents[3].pending(2), 2)
	o.finds(mine, false, ids[:3]...)
	o.finds(mine, true, ids[3])
	require.Empty(t, first.ran())
}

func TestStockCancel(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	w, q := o.asked()
	o.ok("workflow", "cancel", "-w", w.id)
	res := w.result()
	require.Equal(t, protocol.Cancelled, res.Status)
	require.Empty(t, w.ran())
	require.Contains(t, o.details(w.id), string(approval.Cancelled))
	require.Contains(t, o.refused("workflow", "signal", "-w", w.id, "--name", "approval", "--input", `{"key":"`+q.Key+`","decision":"allow"}`),
		"already completed")
	o.finds(waiting, false, w.id)
	o.finds("AssentStatus='done'", true, w.id)
}

// Nobody cleans up after a terminated agent: its sign stays up, and the documented query does not find it.
func TestStockTerminateWithAnOpenQuestion(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	w, q := o.asked()
	o.finds(waiting, true, w.id)
	o.ok("workflow", "terminate", "-w", w.id, "--reason", "enough")
	o.finds(waiting, false, w.id)
	o.finds("AssentStatus='waiting' AND ExecutionStatus='Terminated'", true, w.id)
	require.Contains(t, o.refused("workflow", "signal", "-w", w.id, "--name", "approval", "--input", `{"key":"`+q.Key+`","decision":"allow"}`),
		"already completed")
	require.Contains(t, o.refused("workflow", "update", "execute", "-w", w.id, "--name", "resolve", "--input", `{"key":"`+q.Key+`","decision":"allow"}`),
		"already completed")
	require.Empty(t, w.ran())
}

// After a reset the question is put again, and the old answer stays without effect.
func TestStockResetAsksAgain(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	w, q := o.asked()
	o.ok("workflow", "signal", "-w", w.id, "--name", "approval", "--input", `{"key":"`+q.Key+`","decision":"allow"}`)
	require.Equal(t, protocol.OK, w.result().Status)
	require.Len(t, w.ran(), 1)
	o.ok("workflow", "reset", "-w", w.id, "--type", "FirstWorkflowTask", "--reason", "try again")
	require.False(t, w.settles(""), "it asks again")
	again := w.pending(1)[0]
	require.Len(t, w.ran(), 1, "nothing ran on the old answer")
	require.Contains(t, o.refused("workflow", "update", "execute", "-w", w.id, "--name", "resolve", "--input", `{"key":"nobody","decision":"allow"}`),
		"no such question")
	o.ok("workflow", "update", "execute", "-w", w.id, "--name", "resolve", "--input", `{"key":"`+again.Key+`","decision":"allow"}`)
	require.Equal(t, protocol.OK, w.result().Status)
	require.Len(t, w.ran(), 2)
}

// A signal that claims to lie in a storage that the worker has not stops the run, because the SDK fails its tasks before
// anybody else sees them. An operator takes the run back to before it, as docs/operators.md says, and is asked again.
func TestStockResetPassesASignalThatNobodyCanRead(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	w, q := o.asked()
	o.ok("workflow", "signal", "-w", w.id, "--name", "approval", "--input", `{"driver_name":"nobody","driver_claim":{}}`,
		"--input-meta", "encoding=json/external-storage-reference")
	run := w.c.GetWorkflow(context.Background(), w.id, "")
	require.Eventually(t, func() bool { return strings.Contains(w.failedTask(run), "TMPRL1105") }, patience, tick)
	o.ok("workflow", "reset", "-w", w.id, "--type", "LastWorkflowTask", "--reapply-exclude", "Signal", "--reason", "unreadable signal")
	require.Equal(t, q.Key, w.pending(1)[0].Key)
	require.Empty(t, w.ran())
	o.ok("workflow", "signal", "-w", w.id, "--name", "approval", "--input", `{"key":"`+q.Key+`","decision":"allow"}`)
	require.Equal(t, protocol.OK, w.result().Status)
	require.Len(t, w.ran(), 1)
}
