package e2e

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// shop is a source of one tool, as a server of another team would be.
type shop struct{ asked atomic.Int32 }

func (s *shop) Name() string { return "shop" }

func (s *shop) Tools(context.Context) ([]*tool.Def, error) {
	s.asked.Add(1)
	def, err := tool.New("buy", "Buys a thing.", func(_ context.Context, _ *tool.Context, in struct {
		Thing string `json:"thing"`
	}) (string, error) {
		return "bought " + in.Thing, nil
	}, tool.Write, tool.NeedsApproval())
	return []*tool.Def{def}, err
}

// An agent's list of tools may name a source. What it offered is frozen, asked about like any other tool, and served by a
// worker that was not there when the agent began.
func TestToolsOfASourceOutliveTheirWorker(t *testing.T) {
	t.Parallel()
	script := "turns:\n  - calls: [{tool: buy, args: {thing: bread}}]\n  - say: done\n    expect: {lastResult: {code: OK, contains: bought bread}}\n"
	w := newWorld(t)
	begin := func(s *shop) func() {
		cfg, done, err := engine(setup{Script: script}, w.c, w.effects, w.blobs)
		require.NoError(t, err)
		t.Cleanup(done)
		cfg.Sources = []tool.Source{s}
		p, err := worker.New(cfg)
		require.NoError(t, err)
		return w.workWith(p).Stop
	}
	first := &shop{}
	stop := begin(first)
	w.start(protocol.AgentInput{Tools: &[]string{"shop"}})
	key := w.pending(1)[0].Key
	require.EqualValues(t, 1, first.asked.Load(), "once for an agent")
	stop()
	second := &shop{}
	begin(second)
	w.answer(key, approval.Allow)
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, "%+v", res)
	require.EqualValues(t, 1, second.asked.Load(), "a worker that has not seen them asks")
}
