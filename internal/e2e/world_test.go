package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/internal/history"
	"github.com/assent-dev/assent/mcp"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/scripted"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/toolbox"
	"github.com/assent-dev/assent/worker"
	"github.com/assent-dev/assent/worktree"
	"github.com/assent-dev/assent/worktree/git"
)

// Patience is for conditions that a healthy machine meets in a moment.
const (
	patience = 3 * time.Minute
	// What a call to the server may take, instead of the SDK's 10 seconds: all tests share one database connection, and
	// 128 answers at once were not through it in 10 seconds while four fleets rolled.
	rpcPatience = time.Minute
	// A tick is mostly a query, and eight tests ask at a time.
	tick = 50 * time.Millisecond
	// A real deadlock is still found by every worker here; a machine that starves for a second is none.
	deadlock = 20 * time.Second
)

var grantKey = protocol.GrantKey{ID: "k1", Secret: []byte("0123456789abcdef0123456789abcdef")}

// world is one agent's surroundings: a queue of its own on a real server, and a file in which effects are counted.
type world struct {
	t       *testing.T
	c       client.Client
	queue   string
	effects string
	blobs   *blob.Dir
	id      string
	// converter reads the world's histories; nil is the SDK's default.
	converter converter.DataConverter
	// drivers have the payloads of the world's histories that were offloaded.
	drivers []converter.StorageDriver
	// onPanic is what the workers of planning do with a workflow that panics.
	onPanic sdkworker.WorkflowPanicPolicy
}

// setup says what the worker of a world knows. It is plain data, so that a worker can be a process of its own.
type setup struct {
	Script string            `json:"script"`
	Deny   []permission.Rule `json:"deny,omitempty"`
	Preset permission.Preset `json:"preset,omitempty"`
	Limits protocol.Limits   `json:"limits"`
	Keys   bool              `json:"keys"`
	// Repo is a host repository; then the agent works in a worktree of it. Root is where trees go.
	Repo string `json:"repo,omitempty"`
	Root string `json:"root,omitempty"`
	// Trees says how the worker has its trees, beside that.
	Trees treesOf `json:"trees,omitzero"`
	// Deadline closes questions.
	Deadline time.Duration `json:"deadline,omitempty"`
	// Approval says how questions are put, Approvers who may answer them.
	Approval  *permission.ApprovalPolicy `json:"approval,omitempty"`
	Approvers approval.Directory         `json:"approvers,omitzero"`
	// Robot is what an approver in the worker says: allow, deny, unavailable, panic, or hang until its context ends.
	Robot string `json:"robot,omitempty"`
	// Uncached makes a worker that is a process of its own replay the whole history at every task.
	Uncached bool `json:"uncached,omitempty"`
	// ContinueAfter is the number of events after which agents continue as new; 0 leaves it to the server.
	ContinueAfter int `json:"continueAfter,omitempty"`
	// Spans is the file in which a worker that is a process of its own notes its spans.
	Spans string `json:"spans,omitempty"`
	// Offered makes all tools of the worker those of a source.
	Offered offered `json:"offered,omitempty"`
	// MCP is the command of an MCP server whose tools are all that agents have; Offered says how they run.
	MCP []string `json:"mcp,omitempty"`
	// Held adds two tools that begin and wait at the same time: peek reads, grip does not.
	Held bool `json:"held,omitempty"`
	// Promised makes grip idempotent.
	Promised bool `json:"promised,omitempty"`
	// Build is what this version of a worker has, beside what all have.
	Build *build `json:"build,omitempty"`
}

func logger() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func dial(t testing.TB, address string) client.Client {
	c, err := client.Dial(client.Options{HostPort: address, RPCTimeout: rpcPatience, Identity: "e2e", Logger: sdklog.NewStructuredLogger(logger())})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func newWorld(t *testing.T) *world {
	return newWorldAt(t, dial(t, devservertest.Server(t).Address()), t.TempDir())
}

func newWorldAt(t *testing.T, c client.Client, dir string) *world {
	name := strings.NewReplacer("/", "-", " ", "-").Replace(t.Name()) + fmt.Sprintf("-%d", time.Now().UnixNano())
	store, err := blob.NewDir(filepath.Join(dir, "blobs"))
	require.NoError(t, err)
	w := &world{t: t, c: c, queue: name, id: name, effects: filepath.Join(dir, "effects"), blobs: store}
	// With the client that it began with: a test may close another one before.
	t.Cleanup(func() { w.prove(c) })
	return w
}

type noteIn struct {
	Text string `json:"text"`
}

// note has an effect that is counted; write and execute risk, so it is never repeated silently.
func noteTool(name, effects string, risk tool.Risk) *tool.Def {
	return tool.MustNew(name, "Appends a line to a file.", func(_ context.Context, c *tool.Context, in noteIn) (map[string]any, error) {
		err := appendLine(effects, name+" "+in.Text)
		return map[string]any{"noted": in.Text, "call": c.CallID}, err
	}, risk)
}

// holdTool notes that it began and then waits to be let go or cancelled.
func holdTool(effects string) *tool.Def { return gripping("hold", effects, tool.Execute) }

func gripping(name, effects string, options ...tool.Option) *tool.Def {
	return tool.MustNew(name, "Begins and waits.", func(ctx context.Context, _ *tool.Context, in noteIn) (string, error) {
		if err := appendLine(effects, name+" "+in.Text); err != nil {
			return "", err
		}
		for {
			if _, err := os.Stat(effects + ".go"); err == nil {
				return "let go", nil
			}
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(tick):
			}
		}
	}, options...)
}

func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintln(f, line)
	return err
}

// bigIn asks for a result of so many bytes.
type bigIn struct {
	Bytes int `json:"bytes"`
}

func bigTool() *tool.Def {
	return tool.MustNew("big", "Returns many bytes.", func(_ context.Context, _ *tool.Context, in bigIn) (string, error) {
		return strings.Repeat("x", in.Bytes), nil
	}, tool.Read)
}

// plugin makes the engine of a worker. done waits for what its worktrees do behind its back.
func plugin(s setup, c client.Client, effects string, store blob.Store) (p *worker.Plugin, done func(), err error) {
	cfg, done, err := engine(s, c, effects, store)
	if err != nil {
		return nil, nil, err
	}
	p, err = worker.New(cfg)
	return p, done, err
}

func engine(s setup, c client.Client, effects string, store blob.Store) (worker.Config, func(), error) {
	done := func() {}
	script, err := scripted.Parse("script.yaml", []byte(s.Script))
	if err != nil {
		return worker.Config{}, nil, err
	}
	cfg := worker.Config{
		Models: map[string]model.Model{"scripted": scripted.Set{"s": script}},
		Profiles: map[string]config.Profile{"p": {Name: "p", Models: []string{"scripted:s"}, Limits: s.Limits,
			Tools: []string{"look", "note", "run", "big", "hold"}, Permissions: permission.Layer{Preset: s.Preset}}},
		Permissions: permission.Layer{Deny: s.Deny},
		Tools: []*tool.Def{noteTool("look", effects, tool.Read), noteTool("note", effects, tool.Write),
			noteTool("run", effects, tool.Execute), bigTool(), holdTool(effects)},
		Blobs: store, Client: c, Dir: os.TempDir(), DecideTimeout: 20 * time.Second, Log: logger(),
		ContinueAfter: s.ContinueAfter,
	}
	p := cfg.Profiles["p"]
	if s.Held {
		promise := []tool.Option{tool.Execute, tool.Concurrent(true)}
		if s.Promised {
			promise = append(promise, tool.Idempotent())
		}
		cfg.Tools = append(cfg.Tools, gripping("peek", effects, tool.Read), gripping("grip", effects, promise...))
		p.Tools = append(p.Tools, "peek", "grip")
	}
	s.Offered.apply(&cfg, &p)
	if len(s.MCP) > 0 {
		server, err := mcp.New(mcp.Config{Name: "srv", Command: s.MCP, Log: logger(), Idempotent: []string{"meta"}, Risk: map[string]tool.Risk{"add": tool.Read}})
		if err != nil {
			return cfg, nil, err
		}
		done = func() { _ = server.Close() }
		cfg.Sources, cfg.Dynamic, p.Tools = []tool.Source{server}, s.Offered == byName, []string{"srv"}
	}
	if s.Deadline > 0 {
		p.Permissions.Approval = &permission.ApprovalPolicy{Deadline: s.Deadline}
	}
	if s.Approval != nil {
		p.Permissions.Approval = s.Approval
	}
	cfg.Approvers = s.Approvers
	if s.Robot != "" {
		cfg.Plugins = append(cfg.Plugins, robot(s.Robot))
	}
	if s.Repo != "" {
		if done, err = withRepo(&cfg, &p, s); err != nil {
			return cfg, nil, err
		}
	}
	if s.Build != nil {
		if err := s.Build.apply(&cfg, &p, effects); err != nil {
			return cfg, nil, err
		}
	}
	cfg.Profiles["p"] = p
	if s.Keys {
		cfg.GrantKeys = []protocol.GrantKey{grantKey}
	}
	return cfg, done, nil
}

// withRepo gives the agent the first-party tools in a worktree of a repository.
func withRepo(cfg *worker.Config, p *config.Profile, s setup) (func(), error) {
	trees, err := git.New(git.Config{Repos: map[string]string{"repo": s.Repo}, Root: s.Root, KeepOnError: !s.Trees.Toss, MinFree: s.Trees.MinFree})
	if err != nil {
		return nil, err
	}
	sh, err := toolbox.Shell(toolbox.ShellConfig{})
	if err != nil {
		return nil, err
	}
	cfg.Worktrees, cfg.KeepOnError, cfg.HostPatience = &mortal{Driver: trees, dies: s.Trees.Dies}, !s.Trees.Toss, s.Trees.Patience
	cfg.HostID, err = trees.HostID()
	cfg.Tools = append(append(cfg.Tools, toolbox.Files()...), sh)
	cfg.Toolsets = map[string][]string{}
	for _, d := range toolbox.Files() {
		cfg.Toolsets["files"] = append(cfg.Toolsets["files"], d.Name())
	}
	if s.Trees.Dir != "" {
		cfg.Dir = s.Trees.Dir
	}
	p.Tools = append(p.Tools, "files", "shell")
	p.Isolation = worktree.Isolation{Kind: worktree.Tree, Repo: "repo"}
	return func() { _ = trees.Close() }, err
}

// work starts a worker in this process; it stops with the test.
func (w *world) work(s setup) sdkworker.Worker {
	w.t.Helper()
	p, done, err := plugin(s, w.c, w.effects, w.blobs)
	require.NoError(w.t, err)
	w.t.Cleanup(done)
	return w.workWith(p)
}

func (w *world) workWith(p *worker.Plugin) sdkworker.Worker {
	wk := sdkworker.New(w.c, w.queue, options(p))
	require.NoError(w.t, wk.Start())
	w.t.Cleanup(wk.Stop)
	return wk
}

// options are those of every worker here that has one plugin. A heartbeat brings the news of a cancellation: often, so that a
// machine that starves has nearly all of the heartbeat timeout.
func options(p sdkworker.Plugin) sdkworker.Options {
	return sdkworker.Options{Plugins: []sdkworker.Plugin{p}, DeadlockDetectionTimeout: deadlock, MaxHeartbeatThrottleInterval: time.Second}
}

func (w *world) start(in protocol.AgentInput) client.WorkflowRun {
	w.t.Helper()
	if in.AgentType == "" {
		in.AgentType = "p"
	}
	if in.Prompt == "" {
		in.Prompt = "go"
	}
	run, err := w.c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: w.id, TaskQueue: w.queue}, protocol.WorkflowAgent, in)
	require.NoError(w.t, err)
	return run
}

// result waits for the end of a run, which may be one of hundreds of turns.
func (w *world) result() protocol.AgentResult {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	defer cancel()
	var res protocol.AgentResult
	require.NoError(w.t, w.c.GetWorkflow(ctx, w.id, "").Get(ctx, &res))
	return res
}

func (w *world) list() (approval.List, error) { return w.listOf(w.id, protocol.QueryApprovals) }

// listOf asks a workflow for its questions, under the name that its kind has for that.
func (w *world) listOf(id, query string) (approval.List, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var l approval.List
	v, err := w.c.QueryWorkflow(ctx, id, "", query)
	if err != nil {
		return l, err
	}
	return l, v.Get(&l)
}

// lists is the list, however long a busy machine takes to answer.
func (w *world) lists() (l approval.List) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { var err error; l, err = w.list(); return err == nil }, patience, tick)
	return l
}

// pending waits until exactly n questions are open.
func (w *world) pending(n int) []approval.Approval {
	w.t.Helper()
	var l approval.List
	require.Eventually(w.t, func() bool {
		var err error
		l, err = w.list()
		return err == nil && len(l.Pending) == n
	}, patience, tick)
	return l.Pending
}

// send signals raw JSON, as the temporal command does.
func (w *world) send(raw string) {
	w.t.Helper()
	payload := converter.NewRawValue(&commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(raw)})
	require.NoError(w.t, w.c.SignalWorkflow(context.Background(), w.id, "", protocol.SignalApproval, payload))
}

func (w *world) answer(key string, choice approval.Choice) {
	w.t.Helper()
	b, err := json.Marshal(approval.Resolution{Key: key, Decision: choice, By: "alice", Reason: "because"})
	require.NoError(w.t, err)
	w.send(string(b))
}

// ran returns the lines that tools wrote.
func (w *world) ran() []string {
	w.t.Helper()
	b, err := os.ReadFile(w.effects)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(w.t, err)
	// Only whole lines: the file is there, and empty, before its first effect is.
	lines := strings.Split(string(b), "\n")
	if lines = lines[:len(lines)-1]; len(lines) == 0 {
		return nil
	}
	return lines
}

func (w *world) history() []*historypb.HistoryEvent {
	w.t.Helper()
	var out []*historypb.HistoryEvent
	for e, err := range history.Read(context.Background(), w.c, w.id, "") {
		require.NoError(w.t, err)
		out = append(out, e)
	}
	return out
}

// happened counts the events beside those of workflow tasks. The server asks a worker about an update in a task that is in history
// only if the worker is too slow, or takes the update.
func (w *world) happened() (n int) {
	w.t.Helper()
	for _, e := range w.history() {
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
			enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
		default:
			n++
		}
	}
	return n
}

// results are what the model was given, in order.
func (w *world) codes(res protocol.AgentResult) []string {
	w.t.Helper()
	var out []string
	for _, r := range w.results(res) {
		s := string(r.Result.Code)
		if f := r.Result.Failure; f != nil && f.Reason != "" {
			s += "/" + string(f.Reason)
		}
		out = append(out, s)
	}
	return out
}

func (w *world) results(res protocol.AgentResult) []model.ToolResult {
	w.t.Helper()
	msgs, err := activities.ReadTranscript(context.Background(), w.blobs, res.Transcript)
	require.NoError(w.t, err)
	var out []model.ToolResult
	for _, m := range msgs {
		out = append(out, m.Results...)
	}
	return out
}
