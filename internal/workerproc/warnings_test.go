package workerproc_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/internal/workerproc"
	"github.com/assent-dev/assent/protocol"
)

// A worker says, at the level that is always shown, what an operator would otherwise miss: that its grants prove
// nothing, and, once, that nobody finds its waiting runs.
func TestWarnings(t *testing.T) {
	namespace := fmt.Sprintf("bare-%d", time.Now().UnixNano())
	address := devservertest.Server(t).Address()
	admin, err := client.NewNamespaceClient(client.Options{HostPort: address})
	require.NoError(t, err)
	defer admin.Close()
	like, err := admin.Describe(t.Context(), "default")
	require.NoError(t, err)
	require.NoError(t, admin.Register(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: namespace, WorkflowExecutionRetentionPeriod: like.GetConfig().GetWorkflowExecutionRetentionTtl()}))

	log := &line{ready: make(chan struct{})}
	opts := workerproc.Options{Config: write(t, minimal), Queue: "warnings",
		Connect: connect.Settings{Address: address, Namespace: namespace, Alone: true},
		Log:     slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	var p *workerproc.Process
	// Servers hear of a new namespace after some seconds.
	require.Eventually(t, func() bool {
		p, err = workerproc.Start(t.Context(), opts)
		return err == nil
	}, 3*time.Minute, time.Second/4, "%v", &err)
	defer p.Stop()
	require.Contains(t, log.String(), "assent: grants are not signed")
	for range 2 {
		run, err := p.Server.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "warnings"},
			protocol.WorkflowAgent, protocol.AgentInput{AgentType: "p", Prompt: "go"})
		require.NoError(t, err)
		require.NoError(t, run.Get(t.Context(), nil))
	}
	require.Equal(t, 1, strings.Count(log.String(), "assent: search attributes will not be written"), log.String())
}
