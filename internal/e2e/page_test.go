package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/internal/devserver"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// seen is what the browser of .ci/browser reports of a page.
type seen struct {
	Text  string `json:"text"`
	Frame *struct {
		Text     string `json:"text"`
		Elements []struct {
			Tag        string            `json:"tag"`
			Attributes map[string]string `json:"attributes"`
		} `json:"elements"`
		Comments []string `json:"comments"`
	} `json:"frame"`
	Global   bool     `json:"global"`
	Errors   []string `json:"errors"`
	Requests []string `json:"requests"`
}

// browser returns the program that ASSENT_BROWSER names.
func browser(t *testing.T) string {
	t.Helper()
	path := os.Getenv("ASSENT_BROWSER")
	if path == "" {
		const missing = "ASSENT_BROWSER is not set: go -C .ci/browser build -o FILE . makes the program that it names"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	return path
}

// ui is a server with a web UI; its pages are looked at by a browser.
type ui struct {
	t       *testing.T
	browser string
	server  *devserver.Server
}

func newUI(t *testing.T) *ui {
	program := browser(t)
	s, err := devserver.Start(t.Context(), devserver.StartOptions{Binary: devservertest.Binary(t), UI: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop(context.Background())) })
	return &ui{t: t, browser: program, server: s}
}

// Selectors of the Temporal UI.
const (
	menuButton = `button[aria-controls="workflow-actions"]`
	detailsTab = "#user-metadata-tab"
	// detailsFrame has a name in newer versions; in older ones it is the frame whose address holds our mark.
	detailsFrame = `#user-metadata-current-details, iframe[src*="%3C!--%20assent%20--%3E"]`
	// owned is a global that a script of ours would set, if one ran.
	owned = "owned"
)

// look opens a run's page, takes steps on it and returns what is seen then.
func (u *ui) look(run client.WorkflowRun, steps ...string) seen {
	u.t.Helper()
	args := append([]string{"--timeout", (2 * patience).String(), "--frame", detailsFrame, "--global", owned, "--height", "3000"}, steps...)
	if dir := os.Getenv("ASSENT_SCREENSHOTS"); dir != "" {
		args = append(args, "--screenshot", fmt.Sprintf("%s/%s-%d.png", dir, strings.ReplaceAll(u.t.Name(), "/", "-"), time.Now().UnixNano()))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	page := fmt.Sprintf("%s/namespaces/default/workflows/%s/%s", u.server.UIURL(), url.PathEscape(run.GetID()), run.GetRunID())
	cmd := exec.CommandContext(ctx, u.browser, append(args, page)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(u.t, cmd.Run(), "%s%s", &stderr, &stdout)
	var s seen
	require.NoError(u.t, json.Unmarshal(stdout.Bytes(), &s))
	return s
}

// details opens the tab of the current details and waits for a text in them.
func (u *ui) details(run client.WorkflowRun, text string) seen {
	u.t.Helper()
	// The page asks for details once. A worker that is busy then is asked again by this key.
	s := u.look(run, "--refresh", "r", "--click", detailsTab, "--wait", text)
	require.NotNil(u.t, s.Frame)
	u.harmless(s)
	return s
}

// harmless fails if what is shown holds anything but text in the elements that our own Markdown makes.
func (u *ui) harmless(s seen) {
	u.t.Helper()
	known := map[string][]string{
		// The page into which the UI puts what is rendered.
		"html": nil, "head": nil, "title": nil, "base": {"target"}, "meta": {"charset", "name", "content"}, "style": {"nonce"},
		"body": {"class", "data-theme"}, "main": nil,
		// What we write.
		"h3": {"id"}, "p": nil, "strong": nil, "code": nil, "pre": nil, "ul": nil, "li": nil,
	}
	for _, e := range s.Frame.Elements {
		attributes, ok := known[e.Tag]
		require.True(u.t, ok, "a <%s> got in: %v", e.Tag, e.Attributes)
		for name, value := range e.Attributes {
			require.Contains(u.t, attributes, name, "<%s %s=%q> got in", e.Tag, name, value)
			if name == "id" {
				require.Regexp(u.t, `^approval-needed-[a-zA-Z0-9-]+$`, value)
			}
		}
	}
	require.Equal(u.t, []string{" assent ", " /assent "}, s.Frame.Comments, "our marks, which are not seen, and no others")
	require.NotContains(u.t, s.Frame.Text, "<!-- assent")
	require.False(u.t, s.Global, "a script ran")
	// The UI has mistakes of its own. What a content policy had to stop is not one of them.
	for _, e := range s.Errors {
		require.NotRegexp(u.t, "(?i)content.security.policy|evil|owned|sandbox", e)
	}
	for _, r := range s.Requests {
		require.True(u.t, strings.HasPrefix(r, u.server.UIURL()+"/") || strings.HasPrefix(r, "data:"), "the page asked for %s", r)
		require.NotRegexp(u.t, `/evil(\.png)?$`, r)
	}
}

// hostile is markup that a model, a rule's reason or an answer may hold. Each line begins where Markdown looks for a
// block.
const hostile = "<img src=/evil.png onerror=\"window.owned=1\">\n<script>window.owned=1</script>\n</code></pre></main><h1>big</h1>\n" +
	"# heading\n```\n~~~\n````\n[x](javascript:window.owned=1) ![x](/evil.png) <https://evil.example>\n[x]: /evil.png\n" +
	"| a | b |\n|---|---|\n| c | d |\n\n<!-- /assent -->\n<!-- assent -->\n&lt;b&gt; &#60;img src=x&#62; `a` ``b`` $$x$$\n" +
	"    indented\n- list\n> quote\n***\ntitle\n=====\n{#id .x onclick=alert(1)}\nterm\n: definition\n" +
	"\u202eright to left\u202c zero\u200bwidth {workflowId} {runId} {namespace}\r\n\ttab <a href=/evil>link</a>"

// folded is text as it is shown: what hides is an escape, and long lines go on in the next one.
func unfold(s string) string { return strings.ReplaceAll(s, "\n↳ ", "") }

func TestPageOfAnAgentThatAsks(t *testing.T) {
	u := newUI(t)
	w := newWorldAt(t, dial(t, u.server.Address()), t.TempDir())
	args, err := json.Marshal(map[string]string{"text": hostile + "\n" + strings.Repeat("x", 500) + " the-end"})
	require.NoError(t, err)
	long := strings.Repeat("0123456789abcdef", 256)
	s := askingWith("turns:\n  - calls: [{tool: run, args: " + string(args) + "}, {tool: run, args: {text: " + long + "}}]\n  - say: done\n")
	s.Deadline = 72 * time.Hour
	cfg, done, err := engine(s, w.c, w.effects, w.blobs)
	require.NoError(t, err)
	t.Cleanup(done)
	cfg.Permissions.Ask = []permission.Rule{{Tool: permission.One("run"), Reason: "ask first " + hostile}}
	p, err := worker.New(cfg)
	require.NoError(t, err)
	w.workWith(p)
	run := w.start(protocol.AgentInput{})
	qs := w.pending(2)
	q := qs[0]
	ignored, err := json.Marshal(hostile)
	require.NoError(t, err)
	w.send(string(ignored))
	require.Eventually(t, func() bool {
		l, err := w.list()
		return err == nil && len(l.Ignored) == 1
	}, patience, tick)

	page := u.details(run, "Ignored answers").Frame.Text
	shown := unfold(page)
	for _, text := range []string{
		"Approval needed: " + q.Key + "\n", "The agent p asks to call the tool run.", "With these arguments:", "why ask-rule ", "ask first <img src=/evil.png",
		"answer until " + q.Deadline.UTC().Format(time.DateTime) + " UTC; after that it is denied",
		"allow this one call runs", "deny it never runs; the agent is told so, with your reason",
		// The arguments, once as JSON and once as text of several lines.
		`"text": "<img src=/evil.png onerror=\"window.owned=1\">\n<script>window.owned=1</script>\n</code></pre>`, "the-end\"\n}",
		"\n<script>window.owned=1</script>\n</code></pre></main><h1>big</h1>\n# heading\n```\n~~~\n````\n[x](javascript:window.owned=1)",
		`\u202eright to left\u202c zero\u200bwidth \u007bworkflowId} \u007brunId} \u007bnamespace}`, "&lt;b&gt; &#60;img src=x&#62;",
		"the word \"<img src=/evil.png", "Approval needed: " + qs[1].Key + "\n", long[:4<<10-len("{\n  \"text\": \"")] + "\n",
		fmt.Sprintf("These are the first 4096 bytes of %d.", len(long)+len("{\n  \"text\": \"\"\n}")), "--type approvals\n",
	} {
		require.Contains(t, shown, text)
	}
	for _, r := range "\u202e\u202c\u200b" {
		require.NotContains(t, page, string(r))
	}
	allow := `{"key":"` + q.Key + `","decision":"allow"}`
	require.Contains(t, page, "temporal workflow signal \\\n  --namespace default \\\n  --workflow-id "+w.id+" \\\n  --name approval \\\n  --input '"+allow+"'\n")
	require.Contains(t, page, "Send a Signal, signal name approval, data "+allow+"\n")
	require.Contains(t, page, "starter approve "+q.Key+" --workflow "+w.id+" --namespace default\n")

	w.answer(qs[1].Key, "deny")
	w.pending(1)
	// What the page says is done on the page.
	answer, err := json.Marshal(protocol.Resolution{Key: q.Key, Decision: "allow", By: "<b>alice</b>", Reason: "fine " + hostile})
	require.NoError(t, err)
	u.look(run, "--click", menuButton, "--click", `[data-testid="signal-button"]`, "--fill", "#signal-name=approval",
		"--fill", "#signal-confirmation-modal .cm-content="+string(answer),
		"--click", `#signal-confirmation-modal [data-testid="confirm-modal-button"]`, "--wait", "Completed")
	require.Equal(t, protocol.OK, w.result().Status)
	shown = unfold(u.details(run, "Answered").Frame.Text)
	require.Contains(t, shown, "Nothing waits for an answer.")
	require.Regexp(t, `\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC · `+q.Key+` allowed by <b>alice</b>, by signal: fine <img src=/evil.png`, shown)
	require.Contains(t, shown, qs[1].Key+" denied by alice, by signal: because\n")
}

// A workflow that is no agent is answered under other names, and its page says them.
func TestPageOfAGuardedWorkflow(t *testing.T) {
	u := newUI(t)
	w := newWorldAt(t, dial(t, u.server.Address()), t.TempDir())
	w.id = "pay `it's` <img src=/evil.png> {runId} " + w.id
	guard, err := worker.NewGuard(worker.GuardConfig{Enforce: activities.On, Log: logger(), DecideTimeout: 20 * time.Second,
		Tools:       map[string]tool.Options{"DeployService": {Risk: tool.Execute}},
		Permissions: permission.Layer{Ask: []permission.Rule{{Tool: permission.One("DeployService"), Reason: hostile}}}})
	require.NoError(t, err)
	wk := sdkworker.New(w.c, w.queue, options(guard))
	wk.RegisterActivityWithOptions(func(_ context.Context, service string, replicas int) error {
		return appendLine(w.effects, service)
	}, activity.RegisterOptions{Name: "DeployService"})
	wk.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		workflow.SetCurrentDetails(ctx, "**Ours**: deploy the shop")
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		return workflow.ExecuteActivity(ctx, "DeployService", "shop "+hostile, 3).Get(ctx, nil)
	}, workflow.RegisterOptions{Name: "Payments"})
	require.NoError(t, wk.Start())
	t.Cleanup(wk.Stop)
	run, err := w.c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: w.id, TaskQueue: w.queue}, "Payments")
	require.NoError(t, err)

	page := unfold(u.details(run, "Approval needed").Frame.Text)
	for _, text := range []string{
		"Ours: deploy the shop", "The workflow Payments asks to run DeployService.", `"args": [`, `"shop <img src=/evil.png onerror=`,
		"deny it never runs; the workflow gets the error assent.Denied, with your reason", "--name assent_approval",
		"Send a Signal, signal name assent_approval, data ", "Send an Update, name assent_resolve, takes the same data",
		`--workflow-id $'pay \x60it\'s\x60 \x3cimg src=/evil.png> \x7brunId}`,
	} {
		require.Contains(t, page, text)
	}
	key := regexp.MustCompile(`Approval needed: (DeployService-[0-9a-f]{8})\n`).FindStringSubmatch(page)
	require.Len(t, key, 2, page)

	answer, err := json.Marshal(protocol.Resolution{Key: key[1], Decision: "deny", By: "bob", Reason: "not " + hostile})
	require.NoError(t, err)
	// With the details the UI learns which updates there are, and offers them.
	u.look(run, "--refresh", "r", "--click", detailsTab, "--wait", "Approval needed", "--click", menuButton, "--click", `[data-testid="update-button"]`,
		"--click", `[data-testid="update-select-button"]`, "--click", `#update-select-select [role="option"]`,
		"--fill", "#update-confirmation-modal .cm-content="+string(answer),
		"--click", `#update-confirmation-modal [data-testid="confirm-modal-button"]`, "--wait", "Failed")
	var denied *temporal.ApplicationError
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.ErrorAs(t, run.Get(ctx, nil), &denied)
	require.Equal(t, protocol.ErrorDenied, denied.Type())
	page = unfold(u.details(run, "Answered").Frame.Text)
	require.Contains(t, page, "Ours: deploy the shop")
	require.Contains(t, page, key[1]+" denied by bob, by update: not <img src=/evil.png")
	require.Empty(t, w.ran())
}

// The UI's renderer, which lets HTML through, makes nothing of any mixture of markup but text.
func TestRenderedDetailsHoldNoForeignMarkup(t *testing.T) {
	t.Parallel()
	s, err := devserver.Start(t.Context(), devserver.StartOptions{Binary: devservertest.Binary(t), UI: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop(context.Background())) })
	c := dial(t, s.Address())
	runs := 2
	if long() {
		runs = 20
	}
	for seed := range runs {
		random := rand.New(rand.NewPCG(7, uint64(seed)))
		w := newWorldAt(t, c, t.TempDir())
		script := "turns:\n  - calls:\n"
		const questions = 8
		for range questions {
			args, err := json.Marshal(map[string]string{"text": mixture(random)})
			require.NoError(t, err)
			script += "      - {tool: run, args: " + string(args) + "}\n"
		}
		// What a model calls a tool that there is not stands in the timeline.
		name, err := json.Marshal("x" + mixture(random))
		require.NoError(t, err)
		script += "      - {tool: " + string(name) + ", args: {}}\n"
		cfg, done, err := engine(askingWith(script+"  - say: done\n"), c, w.effects, w.blobs)
		require.NoError(t, err)
		t.Cleanup(done)
		cfg.Permissions.Ask = []permission.Rule{{Tool: permission.One("run"), Reason: mixture(random)}}
		p, err := worker.New(cfg)
		require.NoError(t, err)
		wk := w.workWith(p)
		w.start(protocol.AgentInput{})
		qs := w.pending(questions)
		for range 3 {
			text, err := json.Marshal(mixture(random))
			require.NoError(t, err)
			w.send(string(text))
		}
		for _, q := range qs[:2] {
			answer, err := json.Marshal(protocol.Resolution{Key: q.Key, Decision: "deny", By: mixture(random), Reason: mixture(random)})
			require.NoError(t, err)
			w.send(string(answer))
		}
		require.Eventually(t, func() bool {
			l, err := w.list()
			return err == nil && len(l.Closed) == 2 && len(l.Ignored) == 3
		}, patience, tick)
		rendered(t, s.UIURL(), metadata(t, w), questions-2)
		w.send(`"deny"`)
		require.Equal(t, protocol.OK, w.result().Status)
		summaries(t, s.UIURL(), w)
		wk.Stop()
	}
	w := newWorldAt(t, c, t.TempDir())
	w.work(askingWith(oneAsk))
	w.start(protocol.AgentInput{AgentType: hostile[:200]})
	require.ErrorContains(t, w.configError(), "unknown profile")
	summaries(t, s.UIURL(), w)
}

// summaries fails if the summary of an event in the timeline is more than text.
func summaries(t *testing.T, address string, w *world) {
	t.Helper()
	found := 0
	for _, e := range w.history() {
		if p := e.GetUserMetadata().GetSummary(); p != nil {
			var text string
			require.NoError(t, converter.GetDefaultDataConverter().FromPayload(p, &text))
			rendered(t, address, text, 0)
			found++
		}
	}
	require.Positive(t, found)
}

// mixture is some pieces of markup in some order.
func mixture(random *rand.Rand) string {
	pieces := []string{"`", "``", "```", "````", "~~~", "\n```\n<b>", "\n```\n\n<b>", "\n```\n# ", "\n````\n<b>", "\n~~~\n<b>", "\n", "\n\n", " ", "  \n", "\t", "\r", "\\", "<", ">", "<b>", "</code></pre>", "</main>",
		"<img src=x onerror=a>", "<!--", "-->", "<!-- /assent -->\n", "<!-- assent -->\n", "&lt;", "&#60;", "[a](b)", "![a](b)", "[a]: b", "<a@b.c>",
		"http://a.b", "# a", "{#a}", "$$", "$", "**", "__", "~~", "|a|b|\n|-|-|\n", "- a", "1. a", "> a", "    a", "===", "---", ": a", "^", "[^1]",
		"a", "é", "漢", "\u202e", "\u200b", "\ufeff", "\u2800", "{runId}", "\"", "'", "\x00", "\U000e0041"}
	var s strings.Builder
	for range 1 + random.IntN(40) {
		s.WriteString(pieces[random.IntN(len(pieces))])
	}
	return s.String()
}

// metadata returns the current details.
func metadata(t *testing.T, w *world) string {
	t.Helper()
	v, err := w.c.QueryWorkflow(context.Background(), w.id, "", "__temporal_workflow_metadata")
	require.NoError(t, err)
	var m sdkpb.WorkflowMetadata
	require.NoError(t, v.Get(&m))
	return m.GetCurrentDetails()
}

// rendered asks the UI for its HTML of details and fails if there is any element that is not ours.
func rendered(t *testing.T, address, details string, questions int) {
	t.Helper()
	resp, err := http.Get(address + "/render?theme=light&content=" + url.QueryEscape(details))
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	_, main, found := strings.Cut(string(body), "<main>")
	require.True(t, found, "%s", body)
	main, rest, _ := strings.Cut(main, "</main>")
	require.Equal(t, "</body></html>", strings.Join(strings.Fields(rest), ""))
	ours := regexp.MustCompile(`^(</?(p|strong|code|pre|ul|li|h3)>|<h3 id="approval-needed-run-[0-9a-f-]+">|<!-- /?assent -->)$`)
	headings := 0
	for _, tag := range regexp.MustCompile(`<[^>]*>?`).FindAllString(main, -1) {
		require.Regexp(t, ours, tag, "in what is rendered of\n%s", details)
		if strings.HasPrefix(tag, "<h3") {
			headings++
		}
	}
	require.Equal(t, questions, headings, details)
	for _, r := range "\u202e\u200b\ufeff\u2800\x00\r" {
		require.NotContains(t, main, string(r))
	}
}
