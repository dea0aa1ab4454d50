package activities_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

// A wrapper that gives up on an activity has the last word, whenever the activity ends.
func TestGuardedActivitiesThatAreGivenUp(t *testing.T) {
	for name, fn := range map[string]func() (string, error){
		"fails":   func() (string, error) { return "", errors.New("late " + hush) },
		"panics":  func() (string, error) { panic("late " + hush) },
		"returns": func() (string, error) { return "late " + hush, nil },
	} {
		t.Run(name, func(t *testing.T) {
			release, ended := make(chan struct{}), make(chan struct{})
			impatient := pipeline.PluginFunc("impatient", func(s *pipeline.Scope) error {
				return s.Wrap(func(ctx context.Context, _ pipeline.Call, next func(context.Context) tool.Result) (tool.Result, error) {
					began := make(chan struct{})
					go func() {
						defer close(ended)
						close(began)
						next(ctx)
					}()
					<-began
					close(release) // from here on the two are side by side
					runtime.Gosched()
					return tool.Fail(tool.ToolError, "given up"), nil
				})
			})
			err := newPay(t, impatient, censor).call("pay", func(context.Context, string) (string, error) {
				<-release
				return fn()
			}, "x", nil)
			require.Error(t, err)
			require.NotContains(t, wire(t, err), hush)
			require.Regexp(t, "given up|TOOL_ERROR", wire(t, err))
			<-ended
		})
	}
}
