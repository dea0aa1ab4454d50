package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent"
	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/scripted"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
)

// record is a writer that is read while others write to it.
type record struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

// In a running worker the plugins do for agents what they do without: the rule holds until its scope is closed, and the tool
// that was mounted meanwhile, the record and the budget stay.
func TestInARunningWorker(t *testing.T) {
	play, err := scripted.Parse("script", []byte(`turns:
  - calls: [{tool: search, args: {query: kernel}}, {tool: search, args: {query: ""}}, {tool: delete, args: {path: /}}, {tool: wipe, args: {path: /}}]
  - say: done
`))
	require.NoError(t, err)
	store, err := blob.NewDir(t.TempDir())
	require.NoError(t, err)
	p, lines, queue := pipeline.New(pipeline.Config{}), &record{}, "plugins-"+uuid.NewString()
	defer p.Close()
	rule, err := mount(p, lines)
	require.NoError(t, err)
	engine, err := assent.New(assent.Config{Pipeline: p, Dynamic: true, Blobs: store, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Models:        map[string]model.Model{"scripted": scripted.Set{"m": play}},
		Profiles:      map[string]config.Profile{"cleaner": {Name: "cleaner", Models: []string{"scripted:m"}, Tools: []string{"search", "delete"}}},
		DecideTimeout: 20 * time.Second})
	require.NoError(t, err)
	c, err := client.Dial(client.Options{HostPort: devservertest.Server(t).Address(), Plugins: []client.Plugin{engine}})
	require.NoError(t, err)
	defer c.Close()
	w := worker.New(c, queue, worker.Options{DeadlockDetectionTimeout: 20 * time.Second})
	require.NoError(t, w.Start())
	defer w.Stop()

	clean := func(tools ...string) (told []string) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		agent, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: queue + "-" + uuid.NewString(), TaskQueue: queue}, protocol.WorkflowAgent,
			protocol.AgentInput{AgentType: "cleaner", Prompt: "clean up", Tools: &tools})
		require.NoError(t, err)
		var res protocol.AgentResult
		require.NoError(t, agent.Get(ctx, &res))
		require.Equal(t, protocol.OK, res.Status, res.Error)
		messages, err := activities.ReadTranscript(ctx, store, res.Transcript)
		require.NoError(t, err)
		for _, m := range messages {
			for _, r := range m.Results {
				told = append(told, r.Name+" "+string(r.Result.Code))
			}
		}
		return told
	}
	require.Equal(t, []string{"search OK", "search TOOL_TIMEOUT", "delete DENIED", "wipe UNKNOWN_TOOL"}, clean("search", "delete"))
	_, err = p.Mount(wipe)
	require.NoError(t, err)
	require.Equal(t, []string{"search OK", "search TOOL_TIMEOUT", "delete DENIED", "wipe DENIED"}, clean("search", "delete", "wipe"))
	rule.Close()
	require.Equal(t, []string{"search OK", "search TOOL_TIMEOUT", "delete OK", "wipe OK"}, clean("search", "delete", "wipe"))
	// Calls that never ran are observed by an activity of their own, in any order.
	require.Eventually(t, func() bool { return strings.Count(lines.String(), "\n") == 12 }, 3*time.Minute, 20*time.Millisecond)
	require.ElementsMatch(t, []string{"search OK", "search TOOL_TIMEOUT", "delete DENIED", "wipe UNKNOWN_TOOL", "search OK", "search TOOL_TIMEOUT",
		"delete DENIED", "wipe DENIED", "search OK", "search TOOL_TIMEOUT", "delete OK", "wipe OK"}, codes(t, lines.String()))
}
