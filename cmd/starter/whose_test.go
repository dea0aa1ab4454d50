package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAKeyMayNameItsWorkflow(t *testing.T) {
	for _, tc := range []struct{ key, workflow, wantKey, wantWorkflow string }{
		{"sh-1", "", "sh-1", ""},
		{"sh-1", "a", "sh-1", "a"},
		{"sh-1@a", "", "sh-1", "a"},
		{"sh-1.2@plan/writer-1@x", "", "sh-1.2", "plan/writer-1@x"},
		{"sh-1@child", "parent", "sh-1", "child"},
		{"@a", "", "@a", ""},
		{"sh-1@", "w", "sh-1@", "w"},
	} {
		key, workflow := whose(tc.key, tc.workflow)
		require.Equal(t, [2]string{tc.wantKey, tc.wantWorkflow}, [2]string{key, workflow}, "%q %q", tc.key, tc.workflow)
	}
}
