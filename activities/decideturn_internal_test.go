package activities

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// Whatever becomes of a decision denies its own call, and none of the others.
func TestACallOfATurnFailsAlone(t *testing.T) {
	released := make(chan struct{})
	defer close(released)
	ctx := context.WithValue(context.Background(), engineKey{}, &Engine{})
	ctx = protocol.WithDeciding(ctx, func(ctx context.Context, req protocol.DecideRequest, _ protocol.Decide) (protocol.DecideResponse, error) {
		switch req.CallID {
		case "panics":
			panic("boom")
		case "ends":
			runtime.Goexit()
		case "fails":
			return protocol.DecideResponse{Decision: permission.Decision{Verdict: permission.Allow}}, errors.New("no")
		case "hangs":
			<-released
		case "listens":
			<-ctx.Done()
			return protocol.DecideResponse{}, ctx.Err()
		}
		return protocol.DecideResponse{CallID: req.CallID, Decision: permission.Decision{Verdict: permission.Allow}}, nil
	})
	want := map[string]string{"panics": "panic: boom", "ends": "ended without an answer", "fails": "no decision could be had: no",
		"hangs": "not made in time", "listens": "", "good": ""}
	var req protocol.DecideTurnRequest
	for range 4 {
		for _, id := range []string{"good", "panics", "hangs", "ends", "listens", "fails", "good"} {
			req.Calls = append(req.Calls, protocol.DecideRequest{CallID: id})
		}
	}
	// Long enough for the others on a busy machine, twice over.
	req.Each = 2 * time.Second
	resp, err := AssentDecideTurn(ctx, req)
	require.NoError(t, err)
	require.Len(t, resp.Decisions, len(req.Calls))
	for i, d := range resp.Decisions {
		id := req.Calls[i].CallID
		require.Equal(t, id, d.CallID)
		require.Contains(t, d.Decision.Reason, want[id])
		if id == "good" {
			require.Equal(t, permission.Allow, d.Decision.Verdict)
			continue
		}
		require.Equal(t, permission.Deny, d.Decision.Verdict, id)
		require.True(t, d.Decision.Failed, id)
		require.Equal(t, permission.ByDefault, d.Decision.DecidedBy)
	}
}

// Without an engine nothing is decided.
func TestATurnNeedsAnEngine(t *testing.T) {
	_, err := AssentDecideTurn(context.Background(), protocol.DecideTurnRequest{Calls: make([]protocol.DecideRequest, 1), Each: time.Minute})
	require.Error(t, err)
}

// An allow and the end of its time that come together are no allow.
func TestADecisionAfterItsTimeIsNone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	late := protocol.DecideResponse{CallID: "late"}
	for _, v := range []permission.Verdict{permission.Allow, permission.Ask} {
		for range 100 {
			decided := make(chan protocol.DecideResponse, 1)
			decided <- protocol.DecideResponse{Decision: permission.Decision{Verdict: v}}
			require.Equal(t, late, before(ctx, decided, late))
		}
	}
}
