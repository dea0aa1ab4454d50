package main

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/protocol"
)

func TestMain(m *testing.M) { os.Exit(devservertest.Run(m)) }

// The worker of the example serves an agent that asks before it writes.
func TestExample(t *testing.T) {
	address := devservertest.Server(t).Address()
	ctx, stop := context.WithCancel(context.Background())
	var stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"--address", address, "--blobs", t.TempDir()}, nil, &bytes.Buffer{}, &stderr)
	}()

	c, err := client.Dial(client.Options{HostPort: address})
	require.NoError(t, err)
	defer c.Close()
	id := "embed-" + uuid.NewString()
	agent, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: "assent"}, protocol.WorkflowAgent,
		protocol.AgentInput{AgentType: "clerk", Prompt: "greet ada"})
	require.NoError(t, err)
	var asked protocol.Approvals
	require.Eventually(t, func() bool {
		v, err := c.QueryWorkflow(ctx, id, "", protocol.QueryApprovals)
		return err == nil && v.Get(&asked) == nil && len(asked.Pending) == 1
	}, 3*time.Minute, 20*time.Millisecond)
	require.Equal(t, "greet", asked.Pending[0].Tool)
	require.NoError(t, c.SignalWorkflow(ctx, id, "", protocol.SignalApproval, protocol.Resolution{Key: asked.Pending[0].Key, Decision: "allow"}))
	var result protocol.AgentResult
	require.NoError(t, agent.Get(ctx, &result))
	require.Equal(t, protocol.OK, result.Status)
	stop()
	require.Zero(t, <-ended, stderr.String())
}

func TestNoServer(t *testing.T) {
	var stderr bytes.Buffer
	require.Equal(t, 1, run(context.Background(), []string{"--address", "127.0.0.1:1", "--blobs", t.TempDir()}, nil, &bytes.Buffer{}, &stderr))
	require.Contains(t, stderr.String(), "error: failed reaching server")
	require.Equal(t, 2, run(context.Background(), []string{"--adress", "x"}, nil, &bytes.Buffer{}, &stderr))
}
