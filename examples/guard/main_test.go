package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/protocol"
)

func TestMain(m *testing.M) { os.Exit(devservertest.Run(m)) }

// The example's release waits until somebody answers, and does as it was told.
func TestExample(t *testing.T) {
	address := devservertest.Server(t).Address()
	c, err := client.Dial(client.Options{HostPort: address})
	require.NoError(t, err)
	defer c.Close()
	for answer, want := range map[string]string{"allow": "deployed api:v2", "deny": "a person denied this call"} {
		t.Run(answer, func(t *testing.T) {
			id := "release-" + uuid.NewString()
			var stdout, stderr bytes.Buffer
			ended := make(chan int, 1)
			ctx := context.Background()
			go func() { ended <- run(ctx, []string{"--address", address, "--id", id}, nil, &stdout, &stderr) }()
			var asked protocol.Approvals
			require.Eventually(t, func() bool {
				v, err := c.QueryWorkflow(ctx, id, "", protocol.GuardQueryApprovals)
				return err == nil && v.Get(&asked) == nil && len(asked.Pending) == 1
			}, 3*time.Minute, 20*time.Millisecond)
			require.NoError(t, c.SignalWorkflow(ctx, id, "", protocol.GuardSignalApproval, answer))
			code := <-ended
			said := stdout.String() + stderr.String()
			require.Contains(t, said, want)
			require.Contains(t, said, "temporal workflow signal -w "+id+` --name assent_approval --input '"allow"'`)
			require.Equal(t, strings.Contains(said, "error:"), code != 0)
			require.Equal(t, answer == "allow", code == 0)
		})
	}
}
