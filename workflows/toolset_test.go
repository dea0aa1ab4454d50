package workflows

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

func TestToolsetIsWhatItWasMadeOf(t *testing.T) {
	facts := func() []protocol.ToolFacts {
		return []protocol.ToolFacts{{Name: strings.Clone("a"), ContractHash: strings.Clone("c")}, {Name: "b", Concurrent: true, Remote: &tool.Remote{Type: "x"}}}
	}
	one, other := newToolset(facts()), newToolset(facts())
	require.Equal(t, facts(), one.facts())
	require.Equal(t, one.tool("a"), other.tool("a"), "two runs have one")
	require.NotEqual(t, one.tool("a"), newToolset([]protocol.ToolFacts{{Name: "a", ContractHash: "d"}}).tool("a"))
	require.Equal(t, facts()[1], other.tool("b").Value())
	require.Equal(t, noTool, one.tool("c"))

	// A state that is handed on says the same as what was resolved.
	require.Nil(t, newToolset(nil).facts())
	require.Equal(t, []protocol.ToolFacts{}, newToolset([]protocol.ToolFacts{}).facts())
	require.Equal(t, noTool, newToolset(nil).tool(""))
}
