package activities_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

func (b *bench) decideTurn(each time.Duration, calls ...protocol.DecideRequest) []protocol.DecideResponse {
	b.t.Helper()
	var resp protocol.DecideTurnResponse
	require.NoError(b.t, b.call(protocol.ActivityDecideTurn, activities.AssentDecideTurn, protocol.DecideTurnRequest{Calls: calls, Each: each}, &resp))
	require.Len(b.t, resp.Decisions, len(calls))
	return resp.Decisions
}

// numbered are calls of one turn.
func (b *bench) numbered(name string, n int) []protocol.DecideRequest {
	out := make([]protocol.DecideRequest, n)
	for i := range out {
		out[i] = b.request(name, fmt.Sprintf(`{"path":"%d"}`, i+1))
		out[i].CallID = fmt.Sprintf("t1.%d", i+1)
	}
	return out
}

// The decisions of a turn are those that each call would get alone, in the order of the calls.
func TestATurnIsDecidedLikeItsCalls(t *testing.T) {
	b := newBench(t, activities.Config{Permissions: standard})
	calls := append(b.numbered("look", 20), b.request("run", `{"path":"a"}`), b.request("run", `{"path":1}`), b.request("look", `{"path":"a"}`))
	calls[20].CallID, calls[21].CallID, calls[22].CallID = "t1.21", "t1.22", "t1.23"
	calls[22].Store = "elsewhere"
	for i, d := range b.decideTurn(time.Minute, calls...) {
		one, err := b.decide(calls[i])
		if err == nil {
			require.Equal(t, one, d)
			continue
		}
		require.Equal(t, "t1.23", d.CallID)
		require.Equal(t, permission.Deny, d.Decision.Verdict)
		require.Contains(t, d.Decision.Reason, "no decision could be had: the agent's blob store is")
	}
}
