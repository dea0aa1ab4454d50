package protocol_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/protocol"
)

func TestToolName(t *testing.T) {
	long := strings.Repeat("a", 70)
	for name, want := range map[string]string{
		"DeployService":         "DeployService",
		"payments.Refund":       "payments_Refund",
		"billing/refund":        "billing_refund",
		"it's; $(rm) `x`":       "it_s____rm___x_",
		"überweisung":           "_berweisung",
		long:                    strings.Repeat("a", 55) + "-1a9d6ea1",
		strings.Repeat("a", 64): strings.Repeat("a", 64),
	} {
		got := protocol.ToolName(name)
		if name == long {
			require.Len(t, got, 64)
			require.Equal(t, want[:56], got[:56])
			continue
		}
		require.Equal(t, want, got)
	}
	require.NotEqual(t, protocol.ToolName(long), protocol.ToolName(long+"a"))
}
