package tool_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/tool"
)

type refusedError struct{ error }

func (refusedError) RefusedBy() string { return "a rule" }

// What policy refuses while a tool runs is denied, not a tool's failure.
func TestRefusedAtRunTimeIsDenied(t *testing.T) {
	d := tool.MustNew("t", "Does a thing.", func(context.Context, *tool.Context, struct{}) (any, error) {
		return nil, fmt.Errorf("run: %w", refusedError{errors.New("not this")})
	})
	r := d.Invoke(context.Background(), nil, []byte(`{}`))
	require.Equal(t, tool.Denied, r.Code)
	require.Equal(t, &tool.Failure{Message: "run: not this", Reason: tool.ByRule, By: "a rule", Started: true}, r.Failure)
}
