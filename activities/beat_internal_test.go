package activities

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
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

// broken is a data converter whose codec panics of money.
type broken struct{ converter.DataConverter }

func (b broken) ToPayloads(values ...any) (*commonpb.Payloads, error) {
	if len(values) > 0 && values[0] == 1.0 {
		panic("a codec")
	}
	return b.DataConverter.ToPayloads(values...)
}

// A report is sent on goroutines of ours too: of what a model says, and while a call waits.
func TestAReportThatCannotBeSentIsAnError(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	var err error
	report := func(ctx context.Context) error {
		g := &generation{Engine: &Engine{}, purse: &purse{atRisk: 1}}
		err = g.report(ctx)
		return nil
	}
	env.RegisterActivity(report)
	env.SetDataConverter(broken{converter.GetDefaultDataConverter()})
	_, panicked := env.ExecuteActivity(report)
	require.NoError(t, panicked, "on a goroutine of ours the worker would be gone")
	require.ErrorContains(t, err, "a codec")
}
