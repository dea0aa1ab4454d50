package activities

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
)

// The SDK panics of a heartbeat that cannot be sent, as it does where there is no activity: on the goroutine that reports life nobody
// else would recover, and the worker would be gone.
func TestABeatThatCannotBeSentEndsNothing(t *testing.T) {
	ctx := context.Background()
	require.Panics(t, func() { activity.RecordHeartbeat(ctx, 1) })
	g := &generation{Engine: &Engine{log: slog.New(slog.NewTextHandler(io.Discard, nil))}, purse: &purse{atRisk: 1}}
	g.beat(ctx)
	require.Equal(t, []any{1.0}, g.details(), "it can be sent the next time")
}
