package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

var asking = setup{Preset: permission.Standard, Keys: true}

func askingWith(script string) setup {
	s := asking
	s.Script = script
	return s
}

func TestDenyReachesTheModelWithItsReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(askingWith(`
turns:
  - calls: [{tool: run, args: {text: a}}]
  - say: understood
    expect: {lastResult: {code: DENIED, contains: because}}
`))
	w.start(protocol.AgentInput{})
	w.answer(w.pending(1)[0].Key, approval.Deny)
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, []string{"DENIED/person"}, w.codes(res))
	require.Empty(t, w.ran())
}

func TestFormsThatAllow(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"object":                 `{"key":"%s","decision":"allow"}`,
		"string holds an object": `"{\"key\":\"%s\",\"decision\":\"allow\"}"`,
		"bare allow":             `"allow"`,
		"unknown member":         `{"key":"%s","decision":"allow","colour":"red"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.work(askingWith(oneAsk))
			w.start(protocol.AgentInput{})
			w.send(strings.ReplaceAll(raw, "%s", w.pending(1)[0].Key))
			require.Equal(t, protocol.OK, w.result().Status)
			require.Equal(t, []string{"run a"}, w.ran())
		})
	}
}

const twoAsks = `
turns:
  - calls: [{tool: run, args: {text: a}}, {tool: run, args: {text: a}}]
  - say: done
`

func TestAnAnswerGivenTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(askingWith(twoAsks))
	w.start(protocol.AgentInput{})
	q := w.pending(2)
	w.answer(q[0].Key, approval.Deny)
	w.pending(1)
	w.answer(q[0].Key, approval.Allow)
	require.Eventually(t, func() bool {
		l, err := w.list()
		return err == nil && len(l.Ignored) == 1 && strings.Contains(l.Ignored[0].Why, "not pending")
	}, patience, tick)
	w.answer(q[1].Key, approval.Deny)
	require.Equal(t, []string{"DENIED/person", "DENIED/person"}, w.codes(w.result()))
	require.Empty(t, w.ran())
}

// An answer that was sent before the question cannot have been about it.
func TestAnAnswerBeforeTheQuestionIsIgnored(t *testing.T) {
	t.Parallel()
	key, err := approval.ContentKey("run", []byte(`{"text":"a"}`))
	require.NoError(t, err)
	w := newWorld(t)
	w.start(protocol.AgentInput{})
	w.send(fmt.Sprintf(`{"key":"run-%s","decision":"allow"}`, key[:8]))
	w.work(askingWith(oneAsk))
	q := w.pending(1)
	require.Equal(t, "run-"+key[:8], q[0].Key)
	l := w.lists()
	require.Len(t, l.Ignored, 1)
	require.Empty(t, w.ran())
	w.answer(q[0].Key, approval.Allow)
	require.Equal(t, protocol.OK, w.result().Status)
}

func TestCancelWhileWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.work(askingWith(oneAsk))
	w.start(protocol.AgentInput{})
	w.pending(1)
	require.NoError(t, w.c.CancelWorkflow(context.Background(), w.id, ""))
	res := w.result()
	require.Equal(t, protocol.Cancelled, res.Status)
	require.Empty(t, w.ran())
	l := w.lists()
	require.Equal(t, approval.Cancelled, l.Closed[0].How)
}

// Cancellation and an allow that reach the workflow in one task: no tool starts, whichever came first.
func TestCancelAndAllowInOneTask(t *testing.T) {
	t.Parallel()
	for _, cancelFirst := range []bool{true, false} {
		t.Run(fmt.Sprintf("cancel first %v", cancelFirst), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			wk := w.work(askingWith(oneAsk))
			w.start(protocol.AgentInput{})
			key := w.pending(1)[0].Key
			// Without a worker both wait for the next task together.
			wk.Stop()
			cancel := func() { require.NoError(t, w.c.CancelWorkflow(context.Background(), w.id, "")) }
			if cancelFirst {
				cancel()
			}
			w.answer(key, approval.Allow)
			if !cancelFirst {
				cancel()
			}
			w.work(askingWith(oneAsk))
			res := w.result()
			require.Equal(t, protocol.Cancelled, res.Status)
			require.Empty(t, w.ran())
			for _, e := range w.history() {
				require.NotEqual(t, "tool.run", e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName())
			}
			l := w.lists()
			require.NotEmpty(t, l.Ignored, "the answer is noted")
		})
	}
}
