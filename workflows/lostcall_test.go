package workflows_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// An idempotent tool that was lost at every try may have had its effect: another call of the model has another key.
func TestAnIdempotentCallThatIsLostIsUnknown(t *testing.T) {
	put := tool.MustNew("put", "Puts.", func(context.Context, *tool.Context, pathIn) (string, error) { return "", nil },
		tool.Write, tool.Idempotent())
	b := newBench(t, setup{tools: []*tool.Def{put}, script: `
turns:
  - calls: [{tool: put, args: {path: a}}, {tool: look, args: {path: b}}]
  - say: done
`})
	for _, name := range []string{"put", "look"} {
		// A value and no function: the worker's own half is not to turn the loss into a result.
		b.env.OnActivity("tool."+name, mock.Anything, mock.Anything).Return(tool.Result{}, errors.New("disk full"))
	}
	tries := map[string]int{}
	b.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		tries[info.ActivityType.Name]++
	})
	res := b.run(protocol.AgentInput{})
	require.Equal(t, []string{"EFFECT_UNKNOWN", "TOOL_ERROR"}, b.codes(res))
	require.Equal(t, []int{3, 3}, []int{tries["tool.put"], tries["tool.look"]})
}
