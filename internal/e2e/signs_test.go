package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// shows waits until the lists of the server say that the run has a status, and its memo that these questions wait.
func (w *world) shows(status protocol.RunStatus, keys ...string) {
	w.t.Helper()
	found := fmt.Sprintf("WorkflowId = %q AND %s = %q", w.id, protocol.AttrStatus, status)
	require.Eventually(w.t, func() bool {
		n, err := w.c.CountWorkflow(context.Background(), &workflowservice.CountWorkflowExecutionsRequest{Query: found})
		if err != nil || n.GetCount() != 1 {
			return false
		}
		d, err := w.c.DescribeWorkflow(context.Background(), w.id, "")
		if err != nil {
			return false
		}
		var open []protocol.MemoQuestion
		if d.Memo.GetFields()[protocol.MemoPending] != nil && d.GetMemoValue(protocol.MemoPending, &open) != nil {
			return false
		}
		same := len(open) == len(keys)
		for i := range open {
			same = same && open[i].Key == keys[i]
		}
		return same
	}, patience, tick, "%s %v", status, keys)
}

// began waits until a tool has noted that it runs.
func (w *world) began(line string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { ran := w.ran(); return len(ran) > 0 && ran[len(ran)-1] == line }, patience, tick)
}

// Whoever looks for what waits does not find a run whose call has been allowed: neither after a short call nor while a long one
// runs. Others of its questions that wait are found when it has ended.
func TestSignsWhileAnAllowedCallRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(setup{Keys: true, Held: true, Preset: permission.Standard, Script: `
turns:
  - calls: [{tool: run, args: {text: short}}]
  - calls: [{tool: peek, args: {text: allowed}}]
  - calls: [{tool: hold, args: {text: long}}, {tool: run, args: {text: last}}]
  - say: done
`})
	w.start(protocol.AgentInput{})
	short := w.pending(1)[0].Key
	w.shows(protocol.StatusWaiting, short)
	w.answer(short, approval.Allow)
	w.began("peek allowed")
	w.shows(protocol.StatusRunning)
	letGo := w.effects + ".go"
	require.NoError(t, os.WriteFile(letGo, nil, 0o600))

	open := w.pending(2)
	w.shows(protocol.StatusWaiting, open[0].Key, open[1].Key)
	require.NoError(t, os.Remove(letGo))
	w.answer(open[0].Key, approval.Allow)
	w.began("hold long")
	w.shows(protocol.StatusRunning)
	require.NoError(t, os.WriteFile(letGo, nil, 0o600))
	w.shows(protocol.StatusWaiting, open[1].Key)
	w.answer(open[1].Key, approval.Deny)
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"OK", "OK", "OK", "DENIED/person"}, w.codes(res))
	w.shows(protocol.StatusDone)
}

// A call that does not end when its run is cancelled does not show for as long that it waits.
func TestSignsOfACallThatOutlivesACancellation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg, done, err := engine(setup{Keys: true, Preset: permission.Standard,
		Script: "turns:\n  - calls: [{tool: deaf, args: {text: x}}]\n  - say: done\n"}, w.c, w.effects, w.blobs)
	require.NoError(t, err)
	t.Cleanup(done)
	cfg.Tools = append(cfg.Tools, tool.MustNew("deaf", "Begins and waits, whatever is cancelled.", func(_ context.Context, _ *tool.Context, in noteIn) (string, error) {
		for err := appendLine(w.effects, "deaf "+in.Text); err == nil; _, err = os.Stat(w.effects) {
			if _, err := os.Stat(w.effects + ".go"); err == nil {
				return "let go", nil
			}
			time.Sleep(tick)
		}
		return "gone", nil
	}, tool.Execute))
	p := cfg.Profiles["p"]
	p.Tools = append(p.Tools, "deaf")
	cfg.Profiles["p"] = p
	plugin, err := worker.New(cfg)
	require.NoError(t, err)
	w.workWith(plugin)
	w.start(protocol.AgentInput{})
	w.answer(w.pending(1)[0].Key, approval.Allow)
	w.began("deaf x")
	require.NoError(t, w.c.CancelWorkflow(context.Background(), w.id, ""))
	w.shows(protocol.StatusRunning)
	require.NoError(t, os.WriteFile(w.effects+".go", nil, 0o600))
	require.Equal(t, protocol.Cancelled, w.result().Status)
	w.shows(protocol.StatusDone)
}
