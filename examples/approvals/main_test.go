package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
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

// The policy wants two of ops. The service signs for the one call that its rule lets through; alice allows both.
func TestExample(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "robot.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))

	script, err := scripted.Parse("script", []byte(`turns: [{calls: [{tool: sh, args: {command: "go vet ./..."}}, {tool: sh, args: {command: "rm x"}}]}, {say: done}]`))
	require.NoError(t, err)
	blobs, err := blob.NewDir(filepath.Join(t.TempDir(), "blobs"))
	require.NoError(t, err)
	engine, err := assent.New(assent.Config{
		Models:   map[string]model.Model{"scripted": scripted.Set{"s": script}},
		Profiles: map[string]config.Profile{"p": {Name: "p", Models: []string{"scripted:s"}, Tools: []string{"sh"}}},
		Tools: []*tool.Def{tool.MustNew("sh", "Pretends to run a command.", func(context.Context, *tool.Context, struct {
			Command string `json:"command"`
		}) (string, error) {
			return "ran", nil
		}, tool.Execute)},
		Permissions: permission.Layer{Preset: permission.Standard,
			Approval: &permission.ApprovalPolicy{Approvers: &permission.Approvers{Groups: []string{"ops"}, Min: 2}}},
		Approvers: approval.Directory{Groups: map[string][]string{"ops": {"alice", "robot"}}, Keys: map[string]ed25519.PublicKey{"robot": public}},
		Blobs:     blobs, DecideTimeout: 20 * time.Second, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	ctx, address, id := context.Background(), devservertest.Server(t).Address(), "approvals-"+uuid.NewString()
	c, err := client.Dial(client.Options{HostPort: address, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	require.NoError(t, err)
	defer c.Close()
	w := sdkworker.New(c, id, sdkworker.Options{Plugins: []sdkworker.Plugin{engine}, DeadlockDetectionTimeout: 20 * time.Second})
	require.NoError(t, w.Start())
	defer w.Stop()
	agent, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: id}, protocol.WorkflowAgent,
		protocol.AgentInput{AgentType: "p", Prompt: "x"})
	require.NoError(t, err)

	var stdout, stderr bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"--address", address, "--id", id, "--key", file}, nil, &stdout, &stderr)
	}()
	var asked protocol.Approvals
	require.Eventually(t, func() bool {
		asked = protocol.Approvals{}
		v, err := c.QueryWorkflow(ctx, id, "", protocol.QueryApprovals)
		return err == nil && v.Get(&asked) == nil && len(asked.Pending) == 2 && len(asked.Pending[0].Votes) == 1
	}, 3*time.Minute, 20*time.Millisecond)
	require.Equal(t, "robot", asked.Pending[0].Votes[0].By)
	require.True(t, asked.Pending[0].Votes[0].Signed)
	require.Empty(t, asked.Pending[1].Votes)
	for i, choice := range []approval.Choice{approval.Allow, approval.Deny} {
		require.NoError(t, c.SignalWorkflow(ctx, id, "", protocol.SignalApproval,
			protocol.Resolution{Key: asked.Pending[i].Key, Decision: choice, By: "alice"}))
	}
	var result protocol.AgentResult
	require.NoError(t, agent.Get(ctx, &result))
	require.Equal(t, protocol.OK, result.Status)
	require.Zero(t, <-code, stderr.String())
	require.Contains(t, stdout.String(), "signed for "+asked.Pending[0].Key+": go vet ./...")
	require.NotContains(t, stdout.String(), asked.Pending[1].Key)
}

func TestWrongInvocations(t *testing.T) {
	var stderr bytes.Buffer
	require.Equal(t, 1, run(context.Background(), []string{"--key", filepath.Join(t.TempDir(), "none.pem")}, nil, &bytes.Buffer{}, &stderr))
	require.Contains(t, stderr.String(), "error: no key in PEM")
	require.Equal(t, 2, run(context.Background(), []string{"--adress", "x"}, nil, &bytes.Buffer{}, &stderr))
}
