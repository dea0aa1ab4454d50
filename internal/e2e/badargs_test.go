package e2e

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// recordTool keeps the bytes of its arguments in a file, one call a line.
func recordTool(t *testing.T, effects string) *tool.Def {
	t.Helper()
	def, err := tool.FromSchema("record", "Keeps what it is given.", json.RawMessage(`{"type":"object"}`),
		func(_ context.Context, _ *tool.Context, in json.RawMessage) (any, error) {
			return "kept", appendLine(effects, string(in))
		}, tool.Execute)
	require.NoError(t, err)
	return def
}

// recording starts a worker whose model makes these calls in its one turn.
func (w *world) recording(s setup, calls ...model.ToolCall) {
	w.t.Helper()
	w.workLike(s, func(c *worker.Config, p *config.Profile) {
		c.Tools, c.DecideTimeout = append(c.Tools, recordTool(w.t, w.effects)), time.Minute // megabytes are judged
		c.Models["other"], p.Models = callsOf(calls...), []string{"other:x"}
		p.Tools = append(p.Tools, "record")
	})
}

func nestedText(open, inner, end string, n int) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
}

// Arguments that are not one JSON object are a result for the model: nobody is asked, nothing runs, no task fails, and
// history stays small.
func TestArgumentsThatAreNotAnObject(t *testing.T) {
	bad := []string{
		``, ` `, `[]`, `[{"a":1}]`, `null`, `7`, `"x"`, `"{\"a\":1}"`, `true`, `{} {}`, `{}]`, `{`, `{"a"}`, `{"a":1,}`, `{'a':1}`, `{a:1}`, `{"a":NaN}`,
		`{"a":Infinity}`, `{"a":01}`, `{"a":.5}`, `{"a":+1}`, `{"a":1}//`, "\ufeff{}", "{\"a\":\"\x00\"}", "{\"a\":\"\n\"}", "{\"a\":\"\xff\"}", "\xff\xfe{}",
		`{"a":"\ud800"}`, `{"a":"\udc00\ud800"}`, `{"\ud800":1}`, `{"a":1,"a":1}`, `{"a":1,"\u0061":2}`, `{"x":{"b":1,"b":2}}`, `{"x":[{"b":1,"b":2}]}`,
		nestedText("[", "", "]", 100_000), nestedText(`{"a":`, "1", "}", 100_000), strings.Repeat("[", 100_000), nestedText(`{"a":[`, "1", "]}", 50_000),
		"[" + strings.Repeat("1,", 2_500_000) + "1]", strings.Repeat("x", 5<<20),
	}
	var calls []model.ToolCall
	for i, text := range bad {
		call := model.ToolCall{ID: "same", Name: "record", Input: json.RawMessage(text)}
		if i%2 == 1 { // as drivers hand over what they could not read
			call.Input, call.Raw = nil, text
		}
		calls = append(calls, call)
	}
	w := newWorld(t)
	w.recording(asking, calls...)
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	results := w.results(res)
	require.Len(t, results, len(bad))
	for i, r := range results {
		require.Equal(t, tool.InvalidArguments, r.Result.Code, "%.60q", bad[i])
		require.NotEmpty(t, r.Result.Failure.Issues, "%.60q", bad[i])
		b, err := json.Marshal(r.Result)
		require.NoError(t, err)
		require.Less(t, len(b), 8<<10, "%.60q", bad[i])
	}
	require.Zero(t, res.Asked)
	require.Empty(t, w.ran())
	w.sound()
	d, err := w.c.DescribeWorkflow(context.Background(), w.id, "")
	require.NoError(t, err)
	require.Less(t, d.RawResponse.WorkflowExecutionInfo.HistorySizeBytes, int64(256<<10))
}

// What is one JSON object is not changed on its way, however odd: to the person who is asked and to the tool.
func TestOddArgumentsReachTheTool(t *testing.T) {
	odd := []string{
		`{"n":1e400}`, `{"n":-1E+400}`, `{"n":1e-400}`, `{"n":-0}`, `{"n":9007199254740993}`, `{"n":-9223372036854775809}`,
		`{"n":0.1000000000000000055511151231257827}`, `{"a":"\u0000"}`, `{"":1}`, `{"__proto__":{"x":1}}`, `{"a":"\ud83d\ude00"}`,
		`{"a":"\u202e\u001b[31m\u2028"}`, `{"b":1,"a":2}`, `{"a":{"a":{"a":[[[]]]}}}`, `{"A":1,"a":2}`, `{"a":null}`, `{"text":"<script>&amp;</script>"}`,
		`{"big":"` + strings.Repeat("y", 5<<20) + `"}`,
	}
	var calls []model.ToolCall
	for _, text := range odd {
		calls = append(calls, model.ToolCall{ID: "1", Name: "record", Input: json.RawMessage(text)})
	}
	w := newWorld(t)
	w.recording(asking, calls...)
	w.start(protocol.AgentInput{})
	for i, q := range w.pending(len(odd)) {
		if i < len(odd)-1 {
			require.Equal(t, same(t, odd[i]), same(t, string(q.Input)))
		}
		key, err := approval.ContentKey("record", json.RawMessage(odd[i]))
		require.NoError(t, err)
		require.Equal(t, key, q.Seal.ContentKey)
		w.answer(q.Key, approval.Allow)
	}
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, len(odd), res.Asked)
	// In the order in which the answers took effect.
	ran := map[string]bool{}
	for _, text := range w.ran() {
		ran[same(t, text)] = true
	}
	require.Len(t, ran, len(odd))
	for _, text := range odd {
		require.True(t, ran[same(t, text)], "%.80q did not reach the tool", text)
	}
	require.Len(t, w.ran(), len(odd))
	w.sound()
}

// same is JSON text with the digits of its numbers as they were written.
func same(t *testing.T, text string) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v), "%.80q", text)
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

// A number that no float holds reaches tool, question, page and key with every digit, in an edit too; two that one float
// would hold are two calls with two keys.
func TestABigIntegerReachesToolApprovalAndKeyUnchanged(t *testing.T) {
	t.Parallel()
	number := func(digits string) model.ToolCall {
		return model.ToolCall{ID: "1", Name: "record", Input: json.RawMessage(`{"n":` + digits + `}`)}
	}
	w := newWorld(t)
	w.recording(asking, number("9007199254740993"), number("123456789012345683968"), number("123456789012345680000"), number("9007199254740992"))
	w.start(protocol.AgentInput{})
	pending := w.pending(4)
	keys := map[string]bool{}
	details := metadata(t, w)
	for i, digits := range []string{"9007199254740993", "123456789012345683968", "123456789012345680000", "9007199254740992"} {
		q := pending[i]
		require.Equal(t, `{"n":`+digits+`}`, string(q.Input))
		require.Contains(t, details, digits)
		key, err := approval.ContentKey("record", q.Input)
		require.NoError(t, err)
		require.Equal(t, key, q.Seal.ContentKey)
		require.Equal(t, "record-"+key[:8], q.Key, "a key of its own, not the second of another")
		keys[q.Key] = true
	}
	require.Len(t, keys, 4)
	w.answer(pending[0].Key, approval.Allow)
	w.send(`{"key":"` + pending[1].Key + `","decision":"allow","input":{"n":9007199254740995}}`)
	w.answer(pending[2].Key, approval.Allow)
	w.answer(pending[3].Key, approval.Deny)
	res := w.result()
	require.Equal(t, []string{"OK", "OK", "OK", "DENIED/person"}, w.codes(res))
	require.ElementsMatch(t, []string{`{"n":9007199254740993}`, `{"n":9007199254740995}`, `{"n":123456789012345680000}`}, w.ran())
	require.JSONEq(t, `{"n":9007199254740995}`, string(w.results(res)[1].Result.FinalInput))
	require.Contains(t, string(w.results(res)[1].Result.FinalInput), "9007199254740995")
	w.sound()
}

// crooked is text that would move a cursor, hide or turn round what stands beside it.
const crooked = "a\nb\r\x1b[2J\x1b]0;owned\x07\u202egnp.exe\u200b\ufeff\x00\x7f\u0085"

// seenBy requires that a person can see every character of a text.
func seenBy(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		require.True(t, r == '\n' || r == '\t' || approval.Visible(r), "%s shows %q in\n%q", what, r, text)
	}
}

// A model may name tools as it likes, a caller may prompt and label as he likes, and a rule may give any reason: what a
// person reads of it is visible text, and no name that is not a tool's runs anything.
func TestHostileNamesAndWords(t *testing.T) {
	t.Parallel()
	names := []string{crooked, "look\n", " look", "look ", "LOOK", "look\u200b", "l\u043eok", "\u202ekool", "", "../look", "tool.look", "look\x00", "look\xff",
		"AssentDecide", "Generate", strings.Repeat("x", 5000), strings.Repeat("\x1b[31m", 2000)}
	var calls []model.ToolCall
	for _, name := range names {
		calls = append(calls, model.ToolCall{ID: crooked, Name: name, Input: json.RawMessage(`{"text":"a"}`)})
	}
	text, err := json.Marshal(map[string]string{"text": crooked})
	require.NoError(t, err)
	calls = append(calls, model.ToolCall{ID: crooked, Name: "run", Input: text})
	var log lockedText
	w := newWorld(t)
	w.workLike(setup{Keys: true}, func(c *worker.Config, p *config.Profile) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.Models["other"], p.Models = turns{{Text: crooked, Calls: calls, Stop: model.StopToolUse}}, []string{"other:x"}
		p.Permissions.Ask = []permission.Rule{{Tool: permission.One("run"), Reason: crooked}}
	})
	run := w.start(protocol.AgentInput{Prompt: crooked, Label: crooked})
	q := w.pending(1)[0]
	require.Equal(t, "run", q.Tool)
	starter := filepath.Join(t.TempDir(), "starter")
	built, err := exec.Command("go", "build", "-o", starter, "../../cmd/starter").CombinedOutput()
	require.NoError(t, err, "%s", built)
	shows := func(args ...string) {
		t.Helper()
		cmd := exec.Command(starter, append(args, "--address", devservertest.Server(t).Address())...)
		cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%v: %s", args, out)
		require.NotEmpty(t, out)
		seenBy(t, strings.Join(args, " "), string(out))
	}
	seenBy(t, "the page", metadata(t, w))
	for _, args := range [][]string{{"approvals"}, {"approvals", "-o", "json"}, {"show", w.id}, {"show", w.id, "-o", "json"}} {
		shows(args...)
	}
	w.answer(q.Key, approval.Allow)
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	codes := w.codes(res)
	for i, name := range names {
		require.Equal(t, "UNKNOWN_TOOL", codes[i], "%.40q", name)
		seenBy(t, "the result", w.results(res)[i].Result.Failure.Message)
		require.Less(t, len(w.results(res)[i].Result.Failure.Message), 2000)
	}
	require.Equal(t, "OK", codes[len(names)])
	require.Equal(t, []string{"run " + crooked}, []string{strings.Join(w.ran(), "\n")}, "the tool gets the text as it is")
	for _, args := range [][]string{{"show", w.id}, {"show", w.id, "-o", "json"}, {"watch", w.id}, {"watch", w.id, "-o", "json"}} {
		shows(args...)
	}
	seenBy(t, "the log", log.String())
	require.NotEmpty(t, run.GetRunID())
	w.sound()
}
