package permission_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
)

func TestBecause(t *testing.T) {
	rule := &permission.Rule{Tool: permission.One("run")}
	for want, d := range map[string]permission.Decision{
		"default":               {DecidedBy: permission.ByDefault},
		"deny-rule {tool: run}": {DecidedBy: permission.ByDenyRule, Rule: rule},
		"deny-rule not here":    {DecidedBy: permission.ByDenyRule, Rule: rule, Reason: "not here"},
	} {
		require.Equal(t, want, d.Because())
	}
}
