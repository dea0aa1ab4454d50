package follow_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/follow"
)

// A follower is told the name of a source's tool, whichever activity runs it.
func TestToolsOfASourceByTheirNames(t *testing.T) {
	for _, name := range []string{"source-shared", "source-by-name"} {
		var got []string
		for _, e := range read(t, "../../../workflows/testdata/histories/"+name) {
			if e.Kind == follow.ToolStart || e.Kind == follow.ToolEnd {
				got = append(got, string(e.Kind)+" "+e.Tool.Tool+" "+e.Tool.CallID+" "+e.Tool.Verdict.String())
			}
		}
		require.Equal(t, []string{"tool.start look t1.1 allow", "tool.end look t1.1 allow", "tool.start run t1.2 ask", "tool.end run t1.2 ask"}, got[:4], name)
	}
}
