package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/scripted"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

func TestMain(m *testing.M) { os.Exit(devservertest.Run(m)) }

func TestExample(t *testing.T) {
	script, err := scripted.Parse("script", []byte(`turns: [{calls: [{tool: deploy, args: {what: api}}], usage: {inputTokens: 12, outputTokens: 3}}, {say: done}]`))
	require.NoError(t, err)
	blobs, err := blob.NewDir(filepath.Join(t.TempDir(), "blobs"))
	require.NoError(t, err)
	engine, err := assent.New(assent.Config{
		Models:   map[string]model.Model{"scripted": scripted.Set{"s": script}},
		Profiles: map[string]config.Profile{"p": {Name: "p", Models: []string{"scripted:s"}, Tools: []string{"deploy"}}},
		Tools: []*tool.Def{tool.MustNew("deploy", "Deploys a service.", func(context.Context, *tool.Context, struct {
			What string `json:"what"`
		}) (string, error) {
			return "deployed", nil
		}, tool.Execute)},
		Permissions: permission.Layer{Preset: permission.Standard},
		Blobs:       blobs, DecideTimeout: 20 * time.Second, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	ctx, address, id := context.Background(), devservertest.Server(t).Address(), "events-"+uuid.NewString()
	c, err := client.Dial(client.Options{HostPort: address, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	require.NoError(t, err)
	defer c.Close()
	w := sdkworker.New(c, id, sdkworker.Options{Plugins: []sdkworker.Plugin{engine}, DeadlockDetectionTimeout: 20 * time.Second})
	require.NoError(t, w.Start())
	defer w.Stop()
	_, err = c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: id}, protocol.WorkflowAgent, protocol.AgentInput{AgentType: "p", Prompt: "x"})
	require.NoError(t, err)

	var stdout, stderr bytes.Buffer
	code := make(chan int, 1)
	go func() { code <- run(ctx, []string{"--address", address, "--id", id}, nil, &stdout, &stderr) }()
	var asked protocol.Approvals
	require.Eventually(t, func() bool {
		asked = protocol.Approvals{}
		v, err := c.QueryWorkflow(ctx, id, "", protocol.QueryApprovals)
		return err == nil && v.Get(&asked) == nil && len(asked.Pending) == 1
	}, 3*time.Minute, 20*time.Millisecond)
	require.NoError(t, c.SignalWorkflow(ctx, id, "", protocol.SignalApproval, protocol.Resolution{Key: asked.Pending[0].Key, Decision: approval.Allow, By: "alice"}))
	require.Zero(t, <-code, stderr.String())
	for _, want := range []string{
		id + " turn 1 of scripted:s: 12 in, 3 out, 1 calls\n", id + ` ask by ask-rule: deploy {"what":"api"}` + "\n", id + " waits for an answer to " + asked.Pending[0].Key + "\n",
		asked.Pending[0].Key + ` was allowed by "alice"` + "\n", " deploy: OK after ", id + " completed, 0.0000 USD\n", "\nok: done\n",
	} {
		require.Contains(t, stdout.String(), want)
	}
}

func TestWrongInvocations(t *testing.T) {
	var stderr bytes.Buffer
	require.Equal(t, 2, run(context.Background(), []string{"--adress", "x"}, nil, &bytes.Buffer{}, &stderr))
	require.Equal(t, 1, run(context.Background(), []string{"--address", devservertest.Server(t).Address(), "--id", uuid.NewString()}, nil, &bytes.Buffer{}, &stderr))
	require.Contains(t, stderr.String(), "error: ")
}
