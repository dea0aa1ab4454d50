package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
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

// deployments is what the agent's one tool does.
type deployments struct{ done atomic.Int32 }

// engine starts a worker whose agents ask once, and returns its task queue.
func engine(t *testing.T, d *deployments) (address, queue string, c client.Client) {
	t.Helper()
	script, err := scripted.Parse("script.yaml", []byte("turns: [{calls: [{tool: deploy, args: {what: api}}]}, {say: done}]"))
	require.NoError(t, err)
	blobs, err := blob.NewDir(filepath.Join(t.TempDir(), "blobs"))
	require.NoError(t, err)
	plugin, err := assent.New(assent.Config{
		Models: map[string]model.Model{"scripted": scripted.Set{"s": script}},
		Profiles: map[string]config.Profile{"deployer": {Name: "deployer", Models: []string{"scripted:s"}, Tools: []string{"deploy"},
			Permissions: permission.Layer{Preset: permission.Standard}}},
		Tools: []*tool.Def{tool.MustNew("deploy", "Deploys a service.", func(context.Context, *tool.Context, struct {
			What string `json:"what"`
		}) (string, error) {
			d.done.Add(1)
			return "deployed", nil
		}, tool.Execute)},
		Blobs: blobs, DecideTimeout: 20 * time.Second, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	address, queue = devservertest.Server(t).Address(), "service-"+uuid.NewString()
	c, err = client.Dial(client.Options{HostPort: address, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	w := sdkworker.New(c, queue, sdkworker.Options{Plugins: []sdkworker.Plugin{plugin}, DeadlockDetectionTimeout: 20 * time.Second})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	return address, queue, c
}

// closed is how the one question of an agent ended.
func closed(t *testing.T, c client.Client, id string) approval.Closed {
	t.Helper()
	v, err := c.QueryWorkflow(context.Background(), id, "", protocol.QueryApprovals)
	require.NoError(t, err)
	var asked protocol.Approvals
	require.NoError(t, v.Get(&asked))
	require.Len(t, asked.Closed, 1)
	return asked.Closed[0]
}

// serve runs the command and returns what it printed.
func serve(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var out, log bytes.Buffer
	code = run(ctx, args, strings.NewReader(""), &out, &log)
	return code, out.String(), log.String()
}

func TestTheServiceAllows(t *testing.T) {
	var d deployments
	address, queue, c := engine(t, &d)
	args := []string{"--address", address, "--queue", queue, "--profile", "deployer", "--id", queue, "--task", "Deploy the api."}
	code, out, log := serve(t, args...)
	require.Zero(t, code, log)
	require.Contains(t, out, `asked for deploy {"what":"api"}: ask-rule`)
	const end = "2 turns, 1 calls, 1 asked: done\n"
	require.Contains(t, out, end)
	require.EqualValues(t, 1, d.done.Load())
	q := closed(t, c, queue)
	require.Equal(t, []any{approval.Allowed, "signal", "service"}, []any{q.How, q.Via, q.By})

	// The same id is the same agent: a service that is not sure starts it again.
	code, again, log := serve(t, args...)
	require.Zero(t, code, log)
	require.Equal(t, end, again)
	require.EqualValues(t, 1, d.done.Load())
}

func TestTheServiceDenies(t *testing.T) {
	var d deployments
	address, queue, c := engine(t, &d)
	code, out, log := serve(t, "--address", address, "--queue", queue, "--profile", "deployer", "--id", queue, "--deny")
	require.Zero(t, code, log)
	require.Contains(t, out, "2 turns, 1 calls, 1 asked: done\n")
	require.Zero(t, d.done.Load())
	q := closed(t, c, queue)
	require.Equal(t, []any{approval.Denied, "update", "not at night"}, []any{q.How, q.Via, q.Reason})
}

func TestTheServiceSaysWhatFails(t *testing.T) {
	code, _, log := serve(t, "--no-such-flag")
	require.Equal(t, 2, code)
	require.Contains(t, log, "no-such-flag")

	address, queue, _ := engine(t, &deployments{})
	code, _, log = serve(t, "--address", address, "--queue", queue, "--profile", "unknown", "--id", queue)
	require.Equal(t, 1, code)
	require.Contains(t, log, `unknown profile "unknown"; one of deployer`)
}
