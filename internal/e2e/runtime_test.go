package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/toolbox"
	"github.com/assent-dev/assent/worker"
)

// commanding starts a worker with the tools shell and exec in a directory with a canary, for a model that makes one call.
func (w *world) commanding(engine string, call model.ToolCall, change func(*worker.Config, *config.Profile)) (canary string) {
	w.t.Helper()
	dir := w.t.TempDir()
	canary = filepath.Join(dir, "canary")
	require.NoError(w.t, os.WriteFile(canary, []byte("alive"), 0o600))
	require.NoError(w.t, os.Symlink("/bin/rm", filepath.Join(dir, "link")))
	defs, err := toolbox.All(toolbox.Config{Shell: toolbox.ShellConfig{Engine: engine}})
	require.NoError(w.t, err)
	w.workLike(setup{Keys: true}, func(c *worker.Config, p *config.Profile) {
		c.Dir, c.Tools = dir, append(c.Tools, defs...)
		c.Models["other"], p.Models = callsOf(call), []string{"other:x"}
		p.Tools = append(p.Tools, "shell", "exec")
		change(c, p)
	})
	return canary
}

func commandCall(t *testing.T, name, key string, value any) model.ToolCall {
	t.Helper()
	input, err := json.Marshal(map[string]any{key: value})
	require.NoError(t, err)
	return model.ToolCall{ID: "1", Name: name, Input: input}
}

// noRm is a rule for both tools.
var noRm = permission.Rule{Tool: permission.Many("shell", "exec"), Argv: permission.One("rm **"), Reason: "nothing is deleted here"}

// Whichever layer a deny rule stands in, it holds once more when the call runs, whatever a person allowed.
func TestAPersonCannotAllowWhatARuleDeniesAtRunTime(t *testing.T) {
	t.Parallel()
	layers := map[string]func(*worker.Config, *config.Profile, *protocol.AgentInput){
		"engine": func(c *worker.Config, _ *config.Profile, _ *protocol.AgentInput) {
			c.Permissions.Deny = []permission.Rule{noRm}
		},
		"profile": func(_ *worker.Config, p *config.Profile, _ *protocol.AgentInput) {
			p.Permissions.Deny = []permission.Rule{noRm}
		},
		"agent input": func(_ *worker.Config, _ *config.Profile, in *protocol.AgentInput) {
			in.Permissions = &protocol.Tighten{Deny: []permission.Rule{noRm}}
		},
	}
	calls := map[string]model.ToolCall{
		"shell": commandCall(t, "shell", "command", "$(echo rm) -rf canary"),
		"exec":  commandCall(t, "exec", "argv", []string{"env", "-S", `"rm" -rf canary`}),
	}
	for layer, put := range layers {
		for name, call := range calls {
			t.Run(layer+" "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				var in protocol.AgentInput
				canary := w.commanding(toolbox.EngineInterp, call, func(c *worker.Config, p *config.Profile) { put(c, p, &in) })
				w.start(in)
				q := w.pending(1)[0]
				require.Equal(t, name, q.Tool)
				require.JSONEq(t, string(call.Input), string(q.Input))
				w.answer(q.Key, approval.Allow)
				res := w.result()
				require.Equal(t, protocol.OK, res.Status, res.Error)
				require.Equal(t, []string{"DENIED/rule"}, w.codes(res))
				f := w.results(res)[0].Result.Failure
				require.Equal(t, "deny-rule "+noRm.String()+", at run time", f.By)
				require.Contains(t, f.Message, "nothing is deleted here", "the model is told why")
				require.True(t, f.Started)
				require.FileExists(t, canary)
				require.Equal(t, 1, res.Asked)
				w.recorded("tool."+name, tool.Denied, "at run time", "nothing is deleted here")
				w.sound()
			})
		}
	}
}

// recorded checks that the one activity of a type completed with this code, and that history holds these words of it.
func (w *world) recorded(activityType string, code tool.Code, words ...string) {
	w.t.Helper()
	scheduled := map[int64]bool{}
	var payloads []string
	for _, e := range w.history() {
		if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == activityType {
			scheduled[e.EventId] = true
		}
		if a := e.GetActivityTaskCompletedEventAttributes(); a != nil && scheduled[a.ScheduledEventId] {
			payloads = append(payloads, string(a.GetResult().GetPayloads()[0].GetData()))
		}
		require.NotEqual(w.t, enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED, e.EventType)
	}
	require.Len(w.t, payloads, 1)
	var r tool.Result
	require.NoError(w.t, json.Unmarshal([]byte(payloads[0]), &r))
	require.Equal(w.t, code, r.Code)
	for _, word := range words {
		require.Contains(w.t, payloads[0], word)
	}
}

// A link to a denied program looks harmless to the chain, so nobody is even asked; the rule meets it when it runs.
func TestALinkIsDeniedAtRunTime(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]model.ToolCall{
		"shell":   commandCall(t, "shell", "command", "true && ./link canary"),
		"exec":    commandCall(t, "exec", "argv", []string{"./link", "canary"}),
		"wrapped": commandCall(t, "exec", "argv", []string{"timeout", "5", "env", "./link", "canary"}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			canary := w.commanding("", call, func(c *worker.Config, _ *config.Profile) { c.Permissions.Deny = []permission.Rule{noRm} })
			w.start(protocol.AgentInput{})
			res := w.result()
			require.Equal(t, []string{"DENIED/rule"}, w.codes(res))
			require.Zero(t, res.Asked)
			require.FileExists(t, canary)
			w.sound()
		})
	}
}

// Policy that changes while a question waits holds when the call runs: the worker's rules of then decide.
func TestARuleThatCameLaterHoldsAtRunTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	call := commandCall(t, "shell", "command", "f=rm; for i in 1; do $f canary; done")
	ask := permission.Rule{Tool: permission.One("shell")}
	var rules []permission.Rule
	canary := ""
	start := func() (stop func()) {
		defs, err := toolbox.All(toolbox.Config{})
		require.NoError(t, err)
		s := setup{Keys: true, Script: oneAsk}
		cfg, done, err := engine(s, w.c, w.effects, w.blobs)
		require.NoError(t, err)
		t.Cleanup(done)
		p := cfg.Profiles["p"]
		cfg.Dir, cfg.Tools = filepath.Dir(canary), append(cfg.Tools, defs...)
		cfg.Models["other"], p.Models = callsOf(call), []string{"other:x"}
		p.Tools, p.Permissions.Ask, p.Permissions.Deny = append(p.Tools, "shell"), []permission.Rule{ask}, rules
		cfg.Profiles["p"] = p
		plug, err := worker.New(cfg)
		require.NoError(t, err)
		return w.workWith(plug).Stop
	}
	canary = filepath.Join(t.TempDir(), "canary")
	require.NoError(t, os.WriteFile(canary, nil, 0o600))
	stop := start()
	w.start(protocol.AgentInput{})
	key := w.pending(1)[0].Key
	stop()
	rules = []permission.Rule{noRm}
	start()
	w.answer(key, approval.Allow)
	require.Equal(t, []string{"DENIED/rule"}, w.codes(w.result()))
	require.FileExists(t, canary)
}

// With the real shell the verdict on the text is all there is: what a person allows, runs.
func TestTheRealShellRunsWhatAPersonAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	canary := w.commanding(toolbox.EngineSh, commandCall(t, "shell", "command", "$(echo rm) -rf canary"),
		func(c *worker.Config, _ *config.Profile) { c.Permissions.Deny = []permission.Rule{noRm} })
	w.start(protocol.AgentInput{})
	q := w.pending(1)[0]
	require.True(t, strings.Contains(q.Why, "cannot be judged"), q.Why)
	w.answer(q.Key, approval.Allow)
	require.Equal(t, []string{"OK"}, w.codes(w.result()))
	require.NoFileExists(t, canary)
}
