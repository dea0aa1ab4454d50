package workerproc_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/internal/workerproc"
	"github.com/assent-dev/assent/protocol"
)

// A worker that is a version of a deployment says so, and what an operator has to do; its agents have the behavior that
// the file says.
func TestADeployment(t *testing.T) {
	for behavior, want := range map[string]enumspb.VersioningBehavior{
		"": enumspb.VERSIONING_BEHAVIOR_PINNED, ", behavior: autoUpgrade": enumspb.VERSIONING_BEHAVIOR_AUTO_UPGRADE,
	} {
		t.Run(want.String(), func(t *testing.T) {
			name := fmt.Sprintf("team's agents %d", time.Now().UnixNano())
			text := strings.Replace(minimal, "dir: .", fmt.Sprintf("dir: ., deployment: {name: %q, buildId: b1%s}", name, behavior), 1)
			said := says(t, text, name, "set-current-version")
			require.Contains(t, said, fmt.Sprintf(", 1 profile, build \"b1\" of deployment %q\n", name))
			require.Contains(t, said, "--deployment-name '"+strings.Replace(name, "'", `'\''`, 1)+"' --build-id b1\n")

			f, err := config.Load(write(t, text))
			require.NoError(t, err)
			p, err := workerproc.Start(t.Context(), workerproc.Options{File: f, Queue: name,
				Connect: connect.Settings{Address: devservertest.Server(t).Address(), Alone: true}})
			require.NoError(t, err)
			defer p.Stop()
			c := p.Server.Client
			require.Eventually(t, func() bool {
				_, err := c.WorkerDeploymentClient().GetHandle(name).SetCurrentVersion(t.Context(), client.WorkerDeploymentSetCurrentVersionOptions{BuildID: "b1"})
				return err == nil
			}, 3*time.Minute, 100*time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: name, TaskQueue: name}, protocol.WorkflowAgent,
				protocol.AgentInput{AgentType: "p", Prompt: "go"})
			require.NoError(t, err)
			var res protocol.AgentResult
			require.NoError(t, run.Get(ctx, &res))
			require.Equal(t, protocol.OK, res.Status, res.Error)
			d, err := c.DescribeWorkflow(ctx, name, "")
			require.NoError(t, err)
			v := d.RawResponse.WorkflowExecutionInfo.VersioningInfo
			require.Equal(t, want, v.GetBehavior())
			require.Equal(t, "b1", v.GetDeploymentVersion().GetBuildId())

			// Now that it is current there is nothing to be done, which would be said before the repositories are.
			text = strings.Replace(text, "dir: .", "dir: ., worktrees: {repos: {main: nowhere}, root: trees}", 1)
			require.NotContains(t, says(t, text, name, "warning:"), "note:")
		})
	}
}
