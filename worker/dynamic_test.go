package worker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/pipeline"
)

// taken is the registry of a worker that has a dynamic activity, which can be one only.
type taken struct{ registry }

func (taken) RegisterDynamicActivity(any, activity.DynamicRegisterOptions) {
	panic("dynamic activity already registered")
}

func TestADynamicActivityOfTheTeamsOwn(t *testing.T) {
	p := &Plugin{pipeline: pipeline.New(pipeline.Config{}), dynamic: true}
	err := p.registerTools(taken{})
	require.True(t, fault.IsConfig(err), "%v", err)
	require.ErrorContains(t, err, "one dynamic activity of a worker")
	p.dynamic = false
	require.NoError(t, p.registerTools(taken{}))
}
