package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worker"
)

// A question outlives the key that was in force when it was asked: the grant is signed when the call is scheduled.
func TestKeyRotationWithAParkedQuestion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old, next := grantKey, protocol.GrantKey{ID: "k2", Secret: []byte("fedcba9876543210fedcba9876543210")}
	serve := func(keys ...protocol.GrantKey) {
		cfg, done, err := engine(askingWith(oneAsk), w.c, w.effects, w.blobs)
		require.NoError(t, err)
		t.Cleanup(done)
		cfg.GrantKeys = keys
		p, err := worker.New(cfg)
		require.NoError(t, err)
		wk := w.workWith(p)
		t.Cleanup(wk.Stop)
		if len(keys) == 1 && keys[0].ID == old.ID {
			w.start(protocol.AgentInput{})
			w.pending(1)
			wk.Stop()
		}
	}
	serve(old)
	serve(next)
	w.answer(w.pending(1)[0].Key, approval.Allow)
	require.Equal(t, protocol.OK, w.result().Status)
	require.Len(t, w.ran(), 1)
}
