package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/plugins"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// The secret that tools of these tests say, in forms that a redactor knows.
const (
	leaked = "hunter2-leaked"
	says   = "dial postgres://app:" + leaked + "@db failed, password=" + leaked
)

// leaker says a secret in each way in which a tool can say something.
func leaker() *tool.Def {
	return tool.MustNew("leak", "Says a secret.", func(_ context.Context, c *tool.Context, in struct {
		How string `json:"how"`
	}) (any, error) {
		switch in.How {
		case "value":
			return map[string]any{"env": []any{map[string]any{"name": "DB_PASSWORD", "value": leaked}}, "out": says, "n": json.Number("9007199254740993")}, nil
		case "nested":
			b, err := json.Marshal(map[string]any{"password": leaked, "body": says})
			return string(b), err
		case "large":
			return says + strings.Repeat(" and so on", 20_000) + says, nil
		case "error":
			return nil, errors.New(says)
		case "panic":
			panic(says)
		case "retry":
			return nil, tool.ModelRetry{Message: says, Data: map[string]any{"token": leaked}}
		case "log":
			c.Log.Error(says, "error", errors.New(says), "password", leaked)
		}
		return "said", nil
	}, tool.Read)
}

const leakScript = `turns:
  - calls: [{tool: leak, args: {how: value}}, {tool: leak, args: {how: nested}}, {tool: leak, args: {how: large}}, {tool: leak, args: {how: error}},
      {tool: leak, args: {how: panic}}, {tool: leak, args: {how: retry}}, {tool: leak, args: {how: log}}]
  - calls: [{tool: run, args: {text: a}}]
  - say: done
`

// places are where something may have been written, by name.
func (w *world) places(log *lines, more map[string]string) map[string]string {
	w.t.Helper()
	log.mu.Lock()
	defer log.mu.Unlock()
	out := map[string]string{"log": log.buf.String()}
	for name, text := range more {
		out[name] = text
	}
	for _, e := range w.history() {
		raw, err := proto.Marshal(e)
		require.NoError(w.t, err)
		exported, err := protojson.Marshal(e)
		require.NoError(w.t, err)
		out["event "+e.GetEventType().String()] += string(raw) + unwrapped(w.t, exported)
	}
	dir := filepath.Join(filepath.Dir(w.effects), "blobs")
	require.NoError(w.t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		out["blobs"] += string(b)
		return err
	}))
	require.NotEmpty(w.t, out["blobs"])
	d, err := w.c.DescribeWorkflow(context.Background(), w.id, "")
	require.NoError(w.t, err)
	raw, err := proto.Marshal(d.RawResponse)
	require.NoError(w.t, err)
	out["description"] = string(raw)
	return out
}

// unwrapped is exported JSON with its base64 decoded behind it.
func unwrapped(t *testing.T, exported []byte) string {
	t.Helper()
	out := string(exported)
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, m := range v {
				walk(m)
			}
		case []any:
			for _, m := range v {
				walk(m)
			}
		case string:
			if b, err := base64.StdEncoding.DecodeString(v); err == nil {
				out += "\n" + string(b)
			}
		}
	}
	var v any
	require.NoError(t, json.Unmarshal(exported, &v))
	walk(v)
	return out
}

// leaks runs the agent that says secrets and returns the places in which one is found.
func leaks(t *testing.T, redacted bool) (found map[string]bool, res protocol.AgentResult, w *world) {
	t.Helper()
	log, audit, counts := &lines{}, &lines{}, &plugins.Counts{}
	r, err := plugins.NewRedactor(plugins.RedactConfig{})
	require.NoError(t, err)
	var h slog.Handler = slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})
	if redacted {
		h = r.Handler(h)
	}
	c, err := client.Dial(client.Options{HostPort: devservertest.Server(t).Address(), Logger: sdklog.NewStructuredLogger(slog.New(h))})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	w = newWorldAt(t, c, t.TempDir())
	keep, err := plugins.Audit(plugins.AuditConfig{Writer: audit})
	require.NoError(t, err)
	metrics, err := plugins.Metrics(plugins.MetricsConfig{Recorder: counts})
	require.NoError(t, err)
	w.workOn(setup{Script: leakScript, Preset: permission.Standard, Keys: true}, func(c *worker.Config) {
		c.Log = slog.New(h)
		c.Plugins = []pipeline.Plugin{keep, metrics}
		if redacted {
			c.Plugins = append([]pipeline.Plugin{r.Plugin()}, c.Plugins...)
		}
		p := c.Profiles["p"]
		p.Tools = append(p.Tools, "run")
		c.Profiles["p"] = p
	}, leaker())
	run := w.start(protocol.AgentInput{})
	q := w.pending(1)[0]
	more := map[string]string{"details": w.details(), "result": ""}
	w.answer(q.Key, approval.Allow)
	res = w.result()
	require.Equal(t, []string{"OK", "OK", "OK", "TOOL_ERROR", "TOOL_ERROR", "TOOL_ERROR", "OK", "OK"}, w.codes(res), "%+v", w.results(res))
	more["details"] += w.details()
	text, err := json.Marshal(w.results(res))
	require.NoError(t, err)
	more["result"], more["metrics"] = string(text), counts.String()

	// The audit has a line for each call of this run, and never a result.
	var records []plugins.AuditRecord
	require.Eventually(t, func() bool {
		records = nil
		for _, line := range audit.with("{") {
			var r plugins.AuditRecord
			require.NoError(t, json.Unmarshal([]byte(line), &r))
			records = append(records, r)
		}
		return len(records) == 8
	}, patience, tick)
	for _, r := range records {
		require.Equal(t, run.GetRunID(), r.Run)
		require.NotNil(t, r.Duration)
	}
	require.Equal(t, "alice", records[7].ApprovedBy)
	more["audit"] = strings.Join(audit.with("{"), "\n")

	found = map[string]bool{}
	for name, text := range w.places(log, more) {
		if strings.Contains(text, leaked) {
			found[name] = true
		}
	}
	return found, res, w
}

// A secret in a tool's result, in its error, in its panic or in its log is in no event of the exported history, no stored
// value, no log, no details, no memo and not in what the model gets. Without the plugin it is in most of them, so this would
// find it.
func TestRedactedSecretIsNowhere(t *testing.T) {
	t.Parallel()
	found, res, w := leaks(t, true)
	require.Empty(t, found)
	results := w.results(res)
	require.Equal(t, `{"env":[{"name":"DB_PASSWORD","value":"[redacted:password]"}],"n":9007199254740993,`+
		`"out":"dial postgres://app:[redacted:url-password]@db failed, password=[redacted:password]"}`, string(results[0].Result.Value))
	require.Equal(t, `{"token":"[redacted:token]"}`, string(results[5].Result.Failure.Data))
	require.NotNil(t, results[2].Result.ValueRef, "it was stored, and is found there")

	found, _, _ = leaks(t, false)
	for _, place := range []string{"log", "blobs", "result", "event ActivityTaskCompleted"} {
		require.True(t, found[place], "%s: %v", place, found)
	}
	require.False(t, found["audit"])
	require.False(t, found["metrics"])
}

// A question that was answered twice is not asked a third time: the model is told to do something else.
func TestLoopOfRefusedQuestions(t *testing.T) {
	t.Parallel()
	loop, err := plugins.Loop(plugins.LoopConfig{Calls: 3})
	require.NoError(t, err)
	w := newWorld(t)
	again := "  - calls: [{tool: run, args: {text: a}}]\n"
	w.workOn(setup{Script: "turns:\n" + strings.Repeat(again, 4) + "  - calls: [{tool: look, args: {text: b}}]\n  - say: done\n", Preset: permission.Standard, Keys: true,
		Limits: protocol.Limits{MaxIdleTurns: 10}}, func(c *worker.Config) {
		c.Plugins = []pipeline.Plugin{loop}
		p := c.Profiles["p"]
		p.Tools = append(p.Tools, "run", "look")
		c.Profiles["p"] = p
	})
	w.start(protocol.AgentInput{})
	first := w.pending(1)[0].Key
	w.answer(first, approval.Deny)
	var second string
	require.Eventually(t, func() bool {
		l, err := w.list()
		if err != nil || len(l.Pending) != 1 {
			return false
		}
		second = l.Pending[0].Key
		return second != first
	}, patience, tick)
	w.answer(second, approval.Deny)
	res := w.result()
	require.Equal(t, []string{"DENIED/person", "DENIED/person", "DENIED/listener", "DENIED/listener", "OK"}, w.codes(res))
	require.Contains(t, w.results(res)[2].Result.Failure.Message, "for the 3rd time")
	require.Equal(t, []string{"look b"}, w.ran())
}

// A rule that is unmounted while a worker runs is gone for its next call; the tool and the audit, which never heard of it, stay.
func TestUnmountInARunningWorker(t *testing.T) {
	t.Parallel()
	out := &lines{}
	audit, err := plugins.Audit(plugins.AuditConfig{Writer: out})
	require.NoError(t, err)
	rule := pipeline.PluginFunc("rule", func(s *pipeline.Scope) error {
		return s.Guard("no-a", func(_ context.Context, c pipeline.Call) error {
			if strings.Contains(string(c.Input), `"a"`) {
				return errors.New("nobody touches a")
			}
			return nil
		})
	})
	w := newWorld(t)
	pipe := pipeline.New(pipeline.Config{Log: logger()})
	t.Cleanup(pipe.Close)
	scope, err := pipe.Mount(rule)
	require.NoError(t, err)
	w.workOn(setup{Script: "turns: [{calls: [{tool: note, args: {text: a}}]}, {say: done}]", Keys: true}, func(c *worker.Config) {
		c.Pipeline, c.Plugins = pipe, []pipeline.Plugin{audit}
		p := c.Profiles["p"]
		p.Tools = []string{"note"}
		c.Profiles["p"] = p
	})
	w.start(protocol.AgentInput{})
	require.Equal(t, []string{"DENIED/guard"}, w.codes(w.result()))
	require.Empty(t, w.ran())

	scope.Close()
	w.id += "-2"
	w.start(protocol.AgentInput{})
	require.Equal(t, []string{"OK"}, w.codes(w.result()))
	require.Equal(t, []string{"note a"}, w.ran())
	require.Len(t, out.with("{"), 2)
	require.Len(t, out.with(`"code":"DENIED","reason":"guard"`), 1)
	require.Len(t, out.with(`"code":"OK"`), 1)
}
