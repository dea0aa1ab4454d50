package protocol_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// What a failure holds stands in plain text on a server: only where that is known to be wanted it has words of people.
func TestRefusalKeepsWords(t *testing.T) {
	const word = "s3cret"
	for name, r := range map[string]tool.Result{
		"person":   tool.Deny(tool.ByPerson, "alice", "a person denied this call: "+word),
		"hook":     tool.Deny(tool.ByRule, string(permission.ByHook), "denied by policy: "+word),
		"guard":    tool.Deny(tool.ByGuard, "quiet-hours", word),
		"listener": tool.Deny(tool.ByListener, "x", word),
		"failure":  tool.Deny(tool.ByFailure, "", word),
		"revoked":  tool.Deny(tool.ByRevoke, "alice", word),
		"blocked":  tool.Fail(tool.Blocked, word),
		"issues": {Code: tool.InvalidArguments, Failure: &tool.Failure{Message: word, Data: json.RawMessage(`"` + word + `"`),
			Issues: []tool.Issue{{Pointer: "/a", Message: word}}}, FinalInput: json.RawMessage(`"` + word + `"`), Preview: word},
	} {
		t.Run(name, func(t *testing.T) {
			message, detail := protocol.Refusal(r, protocol.NoWords)
			b, err := json.Marshal(detail)
			require.NoError(t, err)
			require.NotContains(t, message+string(b), word)
			require.NotEmpty(t, message)
			require.Equal(t, r.Code, detail.Code)
			require.Equal(t, r.Failure.Reason, detail.Failure.Reason)

			message, detail = protocol.Refusal(r, protocol.WordsInDetails)
			require.NotContains(t, message, word)
			require.Equal(t, r, detail)

			message, detail = protocol.Refusal(r, protocol.AllWords)
			require.Equal(t, r.Failure.Message, message)
			require.Equal(t, r, detail)
		})
	}
	message, _ := protocol.Refusal(tool.Deny(tool.ByRule, string(permission.ByDenyRule), "denied by policy: {tool: pay}"), protocol.NoWords)
	require.Equal(t, "denied by policy: {tool: pay}", message, "a rule is configuration")
	message, _ = protocol.Refusal(tool.Deny(tool.ByGrant, "", "the call carries no grant"), protocol.NoWords)
	require.Equal(t, "the call carries no grant", message)
}
