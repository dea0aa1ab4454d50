package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// workOn starts a worker whose agent has these tools only.
func (w *world) workOn(s setup, change func(*worker.Config), tools ...*tool.Def) {
	w.t.Helper()
	w.workWithOptions(s, change, sdkworker.Options{DeadlockDetectionTimeout: deadlock}, tools...)
}

// workWithOptions is workOn for a worker with interceptors of its own.
func (w *world) workWithOptions(s setup, change func(*worker.Config), o sdkworker.Options, tools ...*tool.Def) {
	w.t.Helper()
	cfg, done, err := engine(s, w.c, w.effects, w.blobs)
	require.NoError(w.t, err)
	w.t.Cleanup(done)
	p := cfg.Profiles["p"]
	p.Tools = nil
	for _, d := range tools {
		p.Tools = append(p.Tools, d.Name())
	}
	cfg.Tools = append(cfg.Tools, tools...)
	if len(tools) > 0 {
		s.Offered.apply(&cfg, &p)
	}
	cfg.Profiles["p"] = p
	if change != nil {
		change(&cfg)
	}
	plugin, err := worker.New(cfg)
	require.NoError(w.t, err)
	all := options(plugin)
	all.Interceptors = o.Interceptors
	wk := sdkworker.New(w.c, w.queue, all)
	require.NoError(w.t, wk.Start())
	w.t.Cleanup(wk.Stop)
}

// A tool knows its call in full: who calls, where it works, which attempt it is and how it was approved.
func TestToolContextIsComplete(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"none", "worktree"} {
		t.Run(where, func(t *testing.T) {
			w := newWorld(t)
			seen := make(chan tool.Context, 1)
			about := tool.MustNew("about", "Says what a tool knows.", func(ctx context.Context, c *tool.Context, _ struct{}) (string, error) {
				c.Log.Info("a tool has a logger")
				_, bounded := ctx.Deadline()
				if !bounded {
					return "", fmt.Errorf("nobody bounds this call")
				}
				seen <- *c
				return "seen", nil
			}, tool.Execute)
			s := setup{Preset: permission.Standard, Keys: true, Script: "turns: [{calls: [{tool: about, args: {}}]}, {say: done}]"}
			if where == "worktree" {
				s.Repo, s.Root = newRepo(t), filepath.Join(t.TempDir(), "trees")
			}
			dir := t.TempDir()
			w.workOn(s, func(c *worker.Config) { c.Dir = dir }, about)
			run := w.start(protocol.AgentInput{Label: "the label"})
			q := w.pending(1)[0]
			w.answer(q.Key, approval.Allow)
			res := w.result()
			require.Equal(t, []string{"OK"}, w.codes(res), w.results(res))

			c := <-seen
			require.Equal(t, run.GetRunID(), c.RunID)
			require.Equal(t, tool.Agent{RunID: run.GetRunID(), Type: "p", Label: "the label"}, c.Agent)
			require.Equal(t, q.CallID, c.CallID)
			require.Equal(t, q.CallID, c.SpanID)
			require.Equal(t, 1, c.Attempt)
			require.Equal(t, where, c.Isolation)
			require.True(t, filepath.IsAbs(c.Dir), c.Dir)
			if where == "worktree" {
				require.Contains(t, c.Dir, s.Root)
			} else {
				require.Equal(t, dir, c.Dir)
			}
			require.NotNil(t, c.Log)
			require.Equal(t, &tool.Approved{Key: q.Key, By: "alice", Reason: "because"}, c.Approved)
			require.Contains(t, c.IdempotencyKey, canonjson.SHA256([]byte(`{}`)), "it holds the digest of the arguments")
			require.Contains(t, c.IdempotencyKey, run.GetRunID())
			require.Contains(t, c.IdempotencyKey, c.CallID)
		})
	}
}

// A number beyond the integers of a float is the same one to the approver, in the key, and to the tool.
func TestLargeNumbersReachApprovalAndTool(t *testing.T) {
	t.Parallel()
	const input = `{"id":9007199254740993,"other":123456789012345683968}`
	w := newWorld(t)
	got := make(chan string, 1)
	pay, err := tool.FromSchema("pay", "Pays.", json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"},"other":{"type":"integer"}}}`),
		func(_ context.Context, _ *tool.Context, in json.RawMessage) (any, error) {
			got <- string(in)
			return in, nil
		}, tool.Execute)
	require.NoError(t, err)
	w.workOn(setup{Preset: permission.Standard, Keys: true, Script: "turns: [{calls: [{tool: pay, raw: '" + input + "'}]}, {say: done}]"}, nil, pay)
	w.start(protocol.AgentInput{})
	q := w.pending(1)[0]
	require.Equal(t, input, string(q.Input))
	key, err := approval.ContentKey("pay", json.RawMessage(input))
	require.NoError(t, err)
	require.Equal(t, "pay-"+key[:8], q.Key)
	w.answer(q.Key, approval.Allow)
	res := w.result()
	require.Equal(t, input, <-got)
	require.Equal(t, input, string(w.results(res)[0].Result.Value))
}

// nested is a list in a list in a list, deeper than anybody reads JSON.
type nested struct {
	Next *nested `json:"next,omitempty"`
}

// What a tool cannot say and what a model should not send is a result, and the agent goes on.
func TestNonsenseInAndOutOfTools(t *testing.T) {
	deep := &nested{}
	for range 20_000 {
		deep = &nested{deep}
	}
	odd := tool.MustNew("odd", "Returns what is no JSON.", func(_ context.Context, _ *tool.Context, in struct {
		What string `json:"what"`
	}) (any, error) {
		switch in.What {
		case "deep":
			return deep, nil
		case "bytes":
			return json.RawMessage("\"\xff\""), nil
		case "panic":
			panic("odd")
		}
		return math.NaN(), nil
	}, tool.Read)
	long := strings.Repeat("x", 3<<20)
	raw := []string{
		`{"what":"nan"}`, `{"what":"deep"}`, `{"what":"bytes"}`, `{"what":"panic"}`,
		`[]`, `"{}"`, `{"what":"a","what":"b"}`, `{"what":`, `{"what":"a"}{}`, `{"what":"` + long + `","` + long + `":1}`,
		`{"what":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, `{"what":0.` + strings.Repeat("1", 2<<20) + `}`,
	}
	var script strings.Builder
	script.WriteString("turns:\n")
	for _, r := range raw {
		fmt.Fprintf(&script, "  - calls: [{tool: odd, raw: '%s'}]\n", r)
	}
	script.WriteString("  - say: done\n")
	w := newWorld(t)
	w.workOn(setup{Keys: true, Script: script.String(), Limits: protocol.Limits{MaxIdleTurns: 30}}, nil, odd)
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	want := []string{"NON_SERIALIZABLE", "NON_SERIALIZABLE", "NON_SERIALIZABLE", "TOOL_ERROR"}
	for range raw[4:] {
		want = append(want, "INVALID_ARGUMENTS")
	}
	require.Equal(t, want, w.codes(res))
	for _, r := range w.results(res) {
		text, err := json.Marshal(r.Result)
		require.NoError(t, err)
		require.Less(t, len(text), 64<<10)
	}
}

// A profile with an attestation starts no agent on other tools, and says which ones differ and in what.
func TestAttestationNamesWhatDrifted(t *testing.T) {
	t.Parallel()
	body := func(context.Context, *tool.Context, noteIn) (string, error) { return "", nil }
	was, err := tool.ToolsetOf(tool.MustNew("kept", "Kept.", body), tool.MustNew("told", "Told.", body), tool.MustNew("may", "May.", body, tool.Read), tool.MustNew("gone", "Gone.", body))
	require.NoError(t, err)
	attested := tool.Attest(was)
	w := newWorld(t)
	w.workOn(setup{Script: "turns: [{say: done}]"}, func(c *worker.Config) {
		p := c.Profiles["p"]
		p.Attestation = &attested
		c.Profiles["p"] = p
	}, tool.MustNew("kept", "Kept.", body), tool.MustNew("told", "Told otherwise.", body), tool.MustNew("may", "May.", body, tool.Write), tool.MustNew("come", "Come.", body))
	run := w.start(protocol.AgentInput{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = run.Get(ctx, nil)
	require.ErrorContains(t, err, "missing: gone; added: come; contract changed: told; authority changed: may")
	require.ErrorContains(t, err, protocol.ErrorConfig)
}

// The tools of an agent are those of its input, else of its profile: by name, by the name of a set, or none at all.
func TestToolsetsOfAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := setup{Script: "turns: [{calls: [{tool: look, args: {text: a}}]}, {say: done}]"}
	w.workOn(s, func(c *worker.Config) {
		p := c.Profiles["p"]
		p.Tools = []string{"readers"}
		c.Profiles["p"] = p
		c.Toolsets = map[string][]string{"readers": {"look", "big"}, "writers": {"note"}, "broken": {"look", "gone"}, "nothing": {}}
	})
	hash := func(names ...string) string {
		var defs []*tool.Def
		for _, n := range names {
			defs = append(defs, map[string]*tool.Def{"look": noteTool("look", "", tool.Read), "note": noteTool("note", "", tool.Write), "big": bigTool()}[n])
		}
		set, err := tool.ToolsetOf(defs...)
		require.NoError(t, err)
		return set.Hash()
	}
	for n, c := range []struct {
		name  string
		tools *[]string
		codes []string
		hash  string
		text  string
	}{
		{"the profile's", nil, []string{"OK"}, hash("big", "look"), ""},
		{"a set and a name", &[]string{"writers", "look"}, []string{"OK"}, hash("note", "look"), ""},
		{"names in another order", &[]string{"look", "note"}, []string{"OK"}, hash("note", "look"), ""},
		{"without the one that is called", &[]string{"note"}, []string{"UNKNOWN_TOOL"}, hash("note"), ""},
		// A scripted model calls nothing where it is offered nothing.
		{"none", &[]string{}, nil, canonjson.SHA256([]byte("[]")), ""},
		{"an empty set", &[]string{"nothing"}, nil, canonjson.SHA256([]byte("[]")), ""},
		{"unknown", &[]string{"look", "fly"}, nil, "", `unknown tool or toolset "fly"`},
		{"empty", &[]string{""}, nil, "", `unknown tool or toolset ""`},
		{"another case", &[]string{"Look"}, nil, "", `unknown tool or toolset "Look"`},
		{"a set with an unknown name", &[]string{"broken"}, nil, "", `unknown tool or toolset "gone"`},
		{"twice", &[]string{"look", "look"}, nil, "", "two tools of this name"},
		{"twice through a set", &[]string{"readers", "look"}, nil, "", "two tools of this name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			one := *w
			one.t, one.id = t, fmt.Sprintf("%s-%d", w.id, n)
			run := one.start(protocol.AgentInput{Tools: c.tools})
			if c.text != "" {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				err := run.Get(ctx, nil)
				require.ErrorContains(t, err, c.text)
				require.ErrorContains(t, err, protocol.ErrorConfig)
				return
			}
			res := one.result()
			require.Equal(t, protocol.OK, res.Status, res.Error)
			require.Equal(t, c.codes, one.codes(res))
			require.Equal(t, c.hash, res.ToolsetHash)
		})
	}
}

// The count of retries is of the agent: the third in a row is told so, and a call of another kind begins it again.
func TestModelRetriesAreCountedInTheRun(t *testing.T) {
	t.Parallel()
	again := tool.MustNew("again", "Asks for another try.", func(_ context.Context, _ *tool.Context, in noteIn) (string, error) {
		if in.Text == "good" {
			return "fine", nil
		}
		return "", tool.ModelRetry{Message: "not " + in.Text, Data: map[string]any{"id": json.Number("9007199254740993")}}
	}, tool.Read)
	w := newWorld(t)
	w.workOn(setup{Limits: protocol.Limits{MaxIdleTurns: 20}, Script: `
turns:
  - calls: [{tool: again, args: {text: a}}]
  - calls: [{tool: again, args: {text: b}}]
  - calls: [{tool: again, args: {text: c}}]
    expect: {lastResult: {code: TOOL_ERROR, contains: not b}}
  - calls: [{tool: again, args: {text: d}}]
    expect: {lastResult: {code: TOOL_ERROR, contains: retries are exhausted}}
  - calls: [{tool: again, args: {text: good}}]
    expect: {lastResult: {code: TOOL_ERROR, contains: retries are exhausted}}
  - calls: [{tool: again, args: {text: e}}]
  - say: done
`}, nil, again)
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	var told []string
	for _, r := range w.results(res) {
		if r.Result.Failure == nil {
			told = append(told, "ok")
			continue
		}
		require.JSONEq(t, `{"id":9007199254740993}`, string(r.Result.Failure.Data))
		told = append(told, fmt.Sprint(r.Result.Failure.Retry, strings.Contains(r.Result.Failure.Message, "retries are exhausted")))
	}
	require.Equal(t, []string{"true false", "true false", "false true", "false true", "ok", "true false"}, told)
}
