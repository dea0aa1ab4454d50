package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

const docs = "../../docs"

// caller is a service that has an HTTP client and the documents of docs/payloads, and nothing else.
type caller struct {
	t   *testing.T
	api string
	// replace turns the words of the documents into those of this test.
	replace *strings.Replacer
}

func newCaller(t *testing.T, w *world, key string) *caller {
	return &caller{t, devservertest.Server(t).HTTPURL() + "/api/v1/namespaces/default",
		strings.NewReplacer("fix-1234", w.id, `"name": "assent"`, `"name": "`+w.queue+`"`, "fixer", "p", `"tool": "shell"`, `"tool": "big"`,
			"KEY", key, "shell-3f6725c9", key)}
}

// payload is a document of docs/payloads.
func (c *caller) payload(name string) string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(docs, "payloads", name))
	require.NoError(c.t, err)
	require.True(c.t, json.Valid(text), name)
	return c.replace.Replace(string(text))
}

// call makes a request; an empty body is a GET unless post says otherwise. It returns the status and the answer.
func (c *caller) call(post bool, path, body string) (int, map[string]any) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	method := http.MethodGet
	if post || body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, c.api+path, strings.NewReader(body))
	require.NoError(c.t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(c.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(c.t, err)
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var out map[string]any
	require.NoError(c.t, dec.Decode(&out), "%s %s: %s", method, path, text)
	return resp.StatusCode, out
}

// ok is a call that succeeds.
func (c *caller) ok(post bool, path, body string) map[string]any {
	c.t.Helper()
	status, out := c.call(post, path, body)
	require.Equal(c.t, http.StatusOK, status, "%s: %v", path, out)
	return out
}

// at walks into an answer: strings are members, numbers are places in a list.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// result waits for the end and returns what the agent handed back.
func (c *caller) result(id string) any {
	c.t.Helper()
	var event any
	require.Eventually(c.t, func() bool {
		event = at(c.ok(false, "/workflows/"+id+"/history?waitNewEvent=true&historyEventFilterType=HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT", ""),
			"history", "events", 0)
		return event != nil
	}, patience, tick)
	return at(event, "workflowExecutionCompletedEventAttributes", "result", 0)
}

// documented is a call that docs/services.md shows.
type documented struct {
	post       bool
	path, file string
}

var (
	curlPath  = regexp.MustCompile(`\$API(/[^\s"]*)`)
	curlFile  = regexp.MustCompile(`docs/payloads/([a-z-]+\.json)`)
	curlQuery = regexp.MustCompile(`--data-urlencode "query=([^"]*)"`)
)

// documentedCalls reads the curl commands of the page.
func documentedCalls(t *testing.T) map[string]documented {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(docs, "services.md"))
	require.NoError(t, err)
	calls := map[string]documented{}
	for _, line := range strings.Split(string(page), "\n") {
		if !strings.Contains(line, "curl ") {
			continue
		}
		path := curlPath.FindStringSubmatch(line)
		require.NotNil(t, path, line)
		d := documented{post: strings.Contains(line, "-X POST"), path: path[1]}
		name := path[1][strings.LastIndex(path[1], "/")+1:]
		name, _, _ = strings.Cut(name, "?")
		if file := curlFile.FindStringSubmatch(line); file != nil {
			d.file = file[1]
			name = strings.TrimSuffix(file[1], ".json")
		}
		if q := curlQuery.FindStringSubmatch(line); q != nil {
			d.path += "?" + url.Values{"query": {q[1]}}.Encode()
		}
		calls[name] = d
	}
	return calls
}

// Every command that docs/services.md shows does what it says, with the documents as they are.
func TestServicesOverHTTP(t *testing.T) {
	t.Parallel()
	calls := documentedCalls(t)
	for _, answer := range []string{"approve", "deny", "resolve"} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.work(askingWith(oneAsk))
			c := newCaller(t, w, "")
			do := func(name string) map[string]any {
				t.Helper()
				d, there := calls[name]
				require.True(t, there, "the page has no %q", name)
				body := ""
				if d.file != "" {
					body = c.payload(d.file)
				}
				return c.ok(d.post, c.replace.Replace(d.path), body)
			}
			run := at(do("start-agent"), "runId")
			require.NotEmpty(t, run)
			require.Equal(t, run, at(do("start-agent"), "runId"), "the same id is the same agent")
			key := w.pending(1)[0].Key
			require.Equal(t, key, at(do("approvals"), "queryResult", 0, "pending", 0, "key"))
			require.Eventually(t, func() bool {
				list, err := json.Marshal(do("workflows"))
				return err == nil && bytes.Contains(list, []byte(w.id)) && bytes.Contains(list, []byte(key))
			}, patience, tick)

			c.replace = newCaller(t, w, key).replace
			said := do(answer)
			if answer == "resolve" {
				require.Equal(t, "allow", at(said, "outcome", "success", 0, "decision"))
				require.Equal(t, said, do(answer), "the same update id is the same update")
			}
			res := c.result(w.id)
			require.Equal(t, "ok", at(res, "status"))
			require.Equal(t, answer != "deny", len(w.ran()) == 1)
			require.NotNil(t, at(do("history"), "history", "events", 0))
			asked := at(do("approvals"), "queryResult", 0)
			require.Nil(t, at(asked, "pending"), "an empty list is null")
			require.Equal(t, "deploy-bot", at(asked, "closed", 0, "by"))
			require.Equal(t, w.sender(answer), "deploy-bot", "who sent it is in history")

			d := calls[answer]
			status, late := c.call(d.post, c.replace.Replace(d.path), c.payload(d.file))
			if answer != "resolve" {
				require.Equal(t, http.StatusNotFound, status, "%v", late)
				require.Equal(t, "workflow execution already completed", at(late, "message"))
			}
			d = calls["start-agent"]
			status, late = c.call(d.post, c.replace.Replace(d.path), c.payload(d.file))
			require.Equal(t, http.StatusConflict, status, "%v", late)
			require.Equal(t, run, at(late, "details", 0, "runId"), "the answer says which run to ask for the result")
		})
	}
}

// sender is the identity that the answer's event has.
func (w *world) sender(answer string) string {
	for _, e := range w.history() {
		switch {
		case answer == "resolve" && e.EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
			return e.GetWorkflowExecutionUpdateAcceptedEventAttributes().AcceptedRequest.Meta.Identity
		case answer != "resolve" && e.EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
			return e.GetWorkflowExecutionSignaledEventAttributes().Identity
		}
	}
	return ""
}

// A refused update is status 200 with a failure in it, and leaves the question open.
func TestServicesAreToldOverHTTPWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(askingWith(oneAsk))
	w.start(protocol.AgentInput{})
	key := w.pending(1)[0].Key
	c := newCaller(t, w, key)
	for arg, want := range map[string]string{
		`{"key": "run-00000000", "decision": "allow"}`:                              "no such question is pending",
		`{"key": "` + key + `", "decision": "yes"}`:                                 "is none of allow, deny, revoke",
		`{"key": "` + key + `", "decision": "allow", "expiresAt": 1700000000}`:      "no RFC 3339 time",
		`{"key": "` + key + `", "decision": "allow", "signature": "not an object"}`: "has the wrong type",
		`"allow"`: "no JSON object",
		`null`:    "no JSON object",
	} {
		body := strings.NewReplacer(`{"key": "`+key+`", "decision": "allow", "by": "deploy-bot"}`, arg, "deploy-bot-"+key, want).
			Replace(c.payload("resolve.json"))
		require.Contains(t, body, arg)
		out := c.ok(true, "/workflows/"+w.id+"/update/resolve", body)
		require.Nil(t, at(out, "outcome", "success"), "%v", out)
		require.Contains(t, at(out, "outcome", "failure", "message"), want)
	}
	require.Len(t, w.pending(1), 1)

	status, out := c.call(true, "/workflows/nobody-"+w.id+"/query/approvals", "")
	require.Equal(t, http.StatusNotFound, status, "%v", out)
	status, out = c.call(true, "/workflows/"+w.id+"/signal/approval", `{"inputs": []}`)
	require.Equal(t, http.StatusBadRequest, status, "%v", out)

	// A signal is accepted whatever it says; the query tells what became of it.
	c.ok(true, "/workflows/"+w.id+"/signal/approval", `{"input": [{"key": "run-00000000", "decision": "allow"}]}`)
	require.Eventually(t, func() bool {
		asked := c.ok(true, "/workflows/"+w.id+"/query/approvals", "")
		why, _ := at(asked, "queryResult", 0, "ignored", 0, "why").(string)
		return strings.Contains(why, "is not pending")
	}, patience, tick)
	require.Empty(t, w.ran())
}

// The HTTP API rounds numbers in what it shows. Asked for it, it hands out the bytes as they are.
func TestServicesReadExactNumbersOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(askingWith(`
turns:
  - calls: [{tool: big, raw: '{"bytes": 9007199254740993}'}]
  - say: done
`))
	w.start(protocol.AgentInput{Permissions: &protocol.Tighten{Ask: []permission.Rule{{Tool: permission.One("big")}}}})
	q := w.pending(1)[0]
	require.JSONEq(t, `{"bytes":9007199254740993}`, string(q.Input))
	c := newCaller(t, w, q.Key)
	shown := at(c.ok(true, "/workflows/"+w.id+"/query/approvals", ""), "queryResult", 0, "pending", 0, "input", "bytes")
	require.NotEqual(t, json.Number("9007199254740993"), shown, "if this fails, docs/services.md can say less")
	text, ok := at(c.ok(true, "/workflows/"+w.id+"/query/approvals?noPayloadShorthand", ""), "queryResult", "payloads", 0, "data").(string)
	require.True(t, ok)
	data, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	var l approval.List
	require.NoError(t, json.Unmarshal(data, &l))
	require.Equal(t, string(q.Input), string(l.Pending[0].Input))

	// What is sent arrives with the digits that it had.
	c.ok(true, "/workflows/"+w.id+"/signal/approval", `{"input": [{"key": "`+q.Key+
		`", "decision": "allow", "input": {"bytes": 9223372036854775807}, "expiresAt": "2001-01-01T00:00:00Z"}]}`)
	require.Equal(t, []string{"DENIED/expired"}, w.codes(w.result()))
	for _, e := range w.history() {
		if in := e.GetWorkflowExecutionSignaledEventAttributes().GetInput(); in != nil {
			require.Contains(t, string(in.Payloads[0].Data), "9223372036854775807")
		}
	}
}

// Without a worker an update is not told anything, and may be sent again; the memo says what is asked.
func TestServicesWithoutAWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wk := w.work(askingWith(oneAsk))
	w.start(protocol.AgentInput{})
	key := w.pending(1)[0].Key
	wk.Stop()
	c := newCaller(t, w, key)
	memo := at(c.ok(false, "/workflows/"+w.id, ""), "workflowExecutionInfo", "memo", "fields", protocol.MemoPending, 0)
	require.Equal(t, []any{key, "run"}, []any{at(memo, "key"), at(memo, "tool")})

	out := c.ok(true, "/workflows/"+w.id+"/update/resolve", c.payload("resolve.json"))
	require.Nil(t, at(out, "outcome"), "%v", out)
	require.Equal(t, "UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ADMITTED", at(out, "stage"))
	require.Empty(t, w.ran())

	w.work(askingWith(oneAsk))
	out = c.ok(true, "/workflows/"+w.id+"/update/resolve", c.payload("resolve.json"))
	require.Equal(t, key, at(out, "outcome", "success", 0, "key"), "%v", out)
	require.Equal(t, protocol.OK, w.result().Status)
	require.Equal(t, []string{"run a"}, w.ran())
}
