package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

const oneAsk = `
turns:
  - calls: [{tool: run, args: {text: a}}]
  - say: done
`

func TestAgentAsksAndGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(setup{Script: oneAsk, Preset: permission.Standard, Keys: true})
	w.start(protocol.AgentInput{})
	q := w.pending(1)[0]
	require.Empty(t, w.ran())
	w.answer(q.Key, approval.Allow)
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"run a"}, w.ran())
	require.Equal(t, []string{"OK"}, w.codes(res))
	for _, e := range w.history() {
		t.Log(e.EventId, e.EventType)
	}
}
