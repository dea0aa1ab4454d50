package assenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/transcript"
	"github.com/assent-dev/assent/worker"
)

// Agent is an agent under test. It runs once.
type Agent struct {
	// Env is the SDK's test environment, for mocks and what is not here.
	Env *testsuite.TestWorkflowEnvironment

	tb     testing.TB
	blobs  blob.Store
	answer Answerer
	seen   map[string]bool
	asked  []approval.Approval
	idle   int
	ran    bool
}

// Answerer is asked once for each question, as it opens, and returns the answer, whose Key is set for it. Nil leaves the
// question open, to its deadline if it has one.
type Answerer func(approval.Approval) *protocol.Resolution

// Allow allows every question.
func Allow(approval.Approval) *protocol.Resolution {
	return &protocol.Resolution{Decision: approval.Allow}
}

// Deny denies every question.
func Deny(approval.Approval) *protocol.Resolution {
	return &protocol.Resolution{Decision: approval.Deny}
}

// New makes an environment with the engine that cfg describes; m speaks for every provider that cfg.Models or a profile names.
// Without Blobs there is a store in memory. A wrong cfg fails the test.
func New(tb testing.TB, cfg worker.Config, m model.Model) *Agent {
	tb.Helper()
	if m == nil {
		tb.Fatalf("assenttest: %v", errors.New("the model is nil"))
	}
	if cfg.Blobs == nil {
		cfg.Blobs = blob.NewMemory("assenttest")
	}
	if cfg.Dir == "" {
		cfg.Dir = tb.TempDir()
	}
	cfg.Models = everywhere(cfg, m)
	if cfg.Worktrees != nil && cfg.Client == nil {
		// It is never asked: the environment runs the activities of all queues.
		c, err := client.NewLazyClient(client.Options{})
		if err != nil {
			tb.Fatalf("assenttest: %v", err)
		}
		tb.Cleanup(c.Close)
		cfg.Client = c
		if cfg.HostID == "" {
			cfg.HostID = "assenttest"
		}
	}
	plugin, err := worker.New(cfg)
	if err != nil {
		tb.Fatalf("assenttest: %v", err)
	}
	quiet := cfg.Log
	if quiet == nil {
		quiet = slog.New(slog.DiscardHandler)
	}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(quiet))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(sdkworker.Options{Plugins: []sdkworker.Plugin{plugin}, DeadlockDetectionTimeout: time.Minute})
	if err := plugin.Register(env); err != nil {
		tb.Fatalf("assenttest: %v", err)
	}
	return &Agent{Env: env, tb: tb, blobs: cfg.Blobs, answer: nobody, seen: map[string]bool{}}
}

// everywhere gives m to every provider that is named.
func everywhere(cfg worker.Config, m model.Model) map[string]model.Model {
	out := maps.Clone(cfg.Models)
	if out == nil {
		out = map[string]model.Model{}
	}
	for name := range out {
		out[name] = m
	}
	for _, p := range cfg.Profiles {
		for _, full := range p.Models {
			provider, _, _ := strings.Cut(full, ":")
			out[provider] = m
		}
	}
	return out
}

// nobody leaves every question open.
func nobody(approval.Approval) *protocol.Resolution { return nil }

// Answer says who answers questions. Without it, and with nil, nobody does.
func (a *Agent) Answer(f Answerer) *Agent {
	if a.answer = f; f == nil {
		a.answer = nobody
	}
	return a
}

// Run is what an agent did.
type Run struct {
	Result protocol.AgentResult
	// Err is set if the workflow failed: by bad input, or because it could not end.
	Err error
	// Questions are all that were put, in order.
	Questions []approval.Approval
	// Ignored are answers that changed nothing, and why.
	Ignored []approval.Ignored
	// Calls are the tool calls with what the model was told of each, in order.
	Calls []Done
	// Messages are the whole conversation.
	Messages []model.Message
}

// Done is a tool call that has its result.
type Done struct {
	Tool  string
	Input json.RawMessage
	model.ToolResult
}

// patience is how often questions are looked for while nobody answers, before the agent is taken for one that waits for ever.
const patience = 5000

// ErrWaits says that an agent waited for an answer that nobody gave.
var ErrWaits = errors.New("assenttest: the agent waits for an answer, and nobody gives one")

// Run runs the agent to its end. An agent that waits for an answer without a deadline that the Answerer does not give ends with
// ErrWaits.
func (a *Agent) Run(in protocol.AgentInput) *Run {
	a.tb.Helper()
	if a.ran {
		a.tb.Fatalf("assenttest: %v", errors.New("an agent runs once; make another one with New"))
	}
	a.ran = true
	a.Env.RegisterDelayedCallback(a.look, time.Second)
	a.Env.ExecuteWorkflow(protocol.WorkflowAgent, in)
	r := &Run{Err: a.Env.GetWorkflowError(), Questions: a.asked}
	if a.idle >= patience {
		r.Err = ErrWaits
	}
	if list, err := a.list(); err == nil {
		r.Ignored = list.Ignored
	}
	if r.Err != nil {
		return r
	}
	if r.Err = a.Env.GetWorkflowResult(&r.Result); r.Err == nil && r.Result.Transcript != nil {
		r.Messages, r.Err = transcript.Read(context.Background(), a.blobs, r.Result.Transcript)
	}
	r.Calls = done(r.Messages)
	return r
}

// done pairs calls with their results.
func done(messages []model.Message) []Done {
	var out []Done
	for i, m := range messages {
		if m.Role != model.Tool || i == 0 {
			continue
		}
		for j, res := range m.Results {
			d := Done{Tool: res.Name, ToolResult: res}
			if calls := messages[i-1].Calls; j < len(calls) {
				d.Input = calls[j].Input
			}
			out = append(out, d)
		}
	}
	return out
}

// look answers the questions that have come up, and comes again: in a second of the agent's time, later and later while
// nothing happens.
func (a *Agent) look() {
	if a.Env.IsWorkflowCompleted() {
		return
	}
	// Before the agent has its handlers there is no question either.
	list, _ := a.list()
	a.idle++
	for _, q := range list.Pending {
		if a.seen[q.Key] {
			continue
		}
		a.seen[q.Key], a.idle = true, 0
		a.asked = append(a.asked, q)
		if r := a.answer(q); r != nil {
			answer := *r
			answer.Key = q.Key
			a.Env.SignalWorkflow(protocol.SignalApproval, answer)
		}
	}
	if a.idle >= patience {
		a.Env.CancelWorkflow()
		return
	}
	a.Env.RegisterDelayedCallback(a.look, min(time.Second<<min(a.idle, 12), time.Hour))
}

func (a *Agent) list() (list approval.List, err error) {
	value, err := a.Env.QueryWorkflow(protocol.QueryApprovals)
	if err == nil {
		err = value.Get(&list)
	}
	return list, err
}

// Codes are the codes of the results, in order, each with its tool: for a look at a whole run.
func (r *Run) Codes() []string {
	out := make([]string, len(r.Calls))
	for i, c := range r.Calls {
		out[i] = fmt.Sprintf("%s %s", c.Tool, c.Result.Code)
	}
	return slices.Clip(out)
}
