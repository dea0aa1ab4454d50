package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
)

// ailing is a team whose worker has a codec that can fail, while the team's own clients have one that works.
func ailing(t *testing.T) (*team, *failing) {
	m := newTeam(t)
	s := newSealer()
	s.fail = &failing{}
	m.client.DataConverter = s.converter()
	m.onClient = true
	return m, s.fail
}

// serve starts the worker, and leaves the team a client whose codec works.
func (m *team) serve() sdkworker.Worker {
	m.t.Helper()
	wk := m.work()
	c, err := client.Dial(client.Options{HostPort: m.client.HostPort, RPCTimeout: rpcPatience, DataConverter: newSealer().converter(),
		Logger: sdklog.NewStructuredLogger(logger())})
	require.NoError(m.t, err)
	m.t.Cleanup(c.Close)
	m.c, m.converter = c, newSealer().converter()
	return wk
}

// again starts the worker anew; it replays what it knows of runs.
func (m *team) again(wk sdkworker.Worker) {
	m.t.Helper()
	wk.Stop()
	sdkworker.PurgeStickyWorkflowCache()
	m.serve()
}

// once fails the first call that fits.
func once(fits func(op string, p *commonpb.Payload) bool) func(string, int64, *commonpb.Payload) bool {
	done := false
	return func(op string, _ int64, p *commonpb.Payload) bool {
		if done || !fits(op, p) {
			return false
		}
		done = true
		return true
	}
}

// decoding fits the decoding of an answer to one question. Anything else may be decoded at any moment: another test empties
// the cache of all workers of this process.
func decoding(key string) func(op string, p *commonpb.Payload) bool {
	return func(op string, p *commonpb.Payload) bool {
		if op != "decode" {
			return false
		}
		plain, err := newSealer().Decode([]*commonpb.Payload{p})
		return err == nil && strings.Contains(string(plain[0].GetData()), `"key":"`+key+`"`) &&
			strings.Contains(string(plain[0].GetData()), `"decision"`)
	}
}

// Arguments that the codec fails to encode are denied, typed, and stay denied when the codec works again.
func TestCodecFailsOnArguments(t *testing.T) {
	t.Parallel()
	m, fail := ailing(t)
	fail.set(once(func(op string, p *commonpb.Payload) bool {
		return op == "encode" && string(p.GetData()) == `{"service":"api"}`
	}))
	wk := m.serve()
	m.ship(order{Service: "api"}, order{Service: "web"})
	q := m.pending(1)[0]
	require.JSONEq(t, `{"service":"web"}`, string(q.Input))
	require.EqualValues(t, 1, fail.failed.Load())
	m.again(wk)
	m.allow(q.Key)
	require.Equal(t, []string{"DENIED/failure", "deployed web"}, m.shipped())
	require.Equal(t, []string{"deploy web "}, m.ran())
	require.Empty(t, m.failedTasks())
}

// An answer that the codec fails to decode is recorded as ignored, and stays ignored when the codec works again: what
// was not admitted then is not admitted by a replay.
func TestCodecFailsOnASignal(t *testing.T) {
	t.Parallel()
	m, fail := ailing(t)
	wk := m.serve()
	m.begin("Ship", shipping{Orders: []order{{Service: "a"}, {Service: "b"}}, Parallel: true})
	q := m.pending(2)
	a, b := about(t, q, "a"), about(t, q, "b")
	fail.set(once(decoding(a.Key)))
	m.answer(resolution(a.Key, approval.Allow, ""))
	l := m.until(func(l approval.List) bool { return len(l.Ignored) == 1 })
	require.Contains(t, l.Ignored[0].Why, "cannot be decoded: "+errCodec.Error())
	require.Len(t, l.Pending, 2)
	require.Contains(t, m.details(), "cannot be decoded")
	m.answer(resolution(b.Key, approval.Allow, ""))
	m.until(func(l approval.List) bool { return len(l.Pending) == 1 && len(l.Closed) == 1 })

	m.again(wk)
	l = m.until(func(l approval.List) bool { return len(l.Pending) == 1 })
	require.Len(t, l.Ignored, 1)
	require.Equal(t, a.Key, l.Pending[0].Key)
	// Ciphertext that nobody can read never will be.
	require.NoError(t, m.outsider().SignalWorkflow(context.Background(), m.id, "", protocol.GuardSignalApproval,
		converter.NewRawValue(&commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte(sealedEncoding)}, Data: []byte(strings.Repeat("x", 99))})))
	require.NoError(t, m.outsider().SignalWorkflow(context.Background(), m.id, "", protocol.GuardSignalApproval,
		converter.NewRawValue(&commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("binary/of-another-team")}, Data: []byte("x")})))
	m.until(func(l approval.List) bool { return len(l.Ignored) == 3 })
	m.answer(resolution(a.Key, approval.Deny, ""))
	require.Equal(t, []string{"DENIED/person", "deployed b"}, m.shipped())
	require.Empty(t, m.failedTasks())
}

// Answers are taken in the order in which they came, encrypted or not.
func TestEncryptedAndPlainAnswersKeepTheirOrder(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]approval.Choice{"encrypted allow first": approval.Allow, "encrypted deny first": approval.Deny} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, _ := ailing(t)
			wk := m.serve()
			m.ship(order{Service: "api"})
			q := m.pending(1)[0]
			wk.Stop() // both wait for the next task together
			m.answer(resolution(q.Key, first, ""))
			second := approval.Deny
			if first == approval.Deny {
				second = approval.Allow
			}
			m.send(asJSON(t, resolution(q.Key, second, "")))
			m.again(wk)
			want := []string{"deployed api"}
			if first == approval.Deny {
				want = []string{"DENIED/person"}
			}
			require.Equal(t, want, m.shipped())
			l := m.lists()
			require.Len(t, l.Ignored, 1)
			require.Empty(t, m.failedTasks())
		})
	}
}

// An update that the codec fails to decode is refused at once, by the SDK; nothing changes and nothing is in history.
func TestCodecFailsOnAnUpdate(t *testing.T) {
	t.Parallel()
	m, fail := ailing(t)
	wk := m.serve()
	m.ship(order{Service: "api"})
	q := m.pending(1)[0]
	before := m.happened()
	fail.set(once(decoding(q.Key)))
	require.ErrorContains(t, m.resolve(m.c, resolution(q.Key, approval.Allow, "")), errCodec.Error())
	require.Equal(t, before, m.happened())
	m.again(wk)
	require.Len(t, m.pending(1), 1)
	require.NoError(t, m.resolve(m.c, resolution(q.Key, approval.Allow, "")))
	require.Equal(t, deployed("api"), m.shipped())
	require.Empty(t, m.failedTasks())
}

// A memo that the codec fails to encode is not written: the SDK would write it in plain text.
func TestCodecFailsOnTheMemo(t *testing.T) {
	t.Parallel()
	m, fail := ailing(t)
	fail.set(func(op string, _ int64, p *commonpb.Payload) bool {
		return op == "encode" && strings.HasPrefix(string(p.GetData()), `[{"key":`)
	})
	wk := m.serve()
	m.ship(order{Service: "api"})
	q := m.pending(1)[0]
	require.Eventually(t, func() bool { return fail.failed.Load() > 0 }, patience, tick)
	hides(t, m.public(protocol.GuardQueryApprovals), q.Key, "ask-rule {risk")
	fail.set(nil)
	m.again(wk)
	m.answer(resolution(q.Key, approval.Allow, ""))
	require.Equal(t, deployed("api"), m.shipped())
	require.Empty(t, m.failedTasks())
	hides(t, m.public(protocol.GuardQueryApprovals), q.Key, "ask-rule {risk")
}

// While the key service is away, or fails now and then, workflow tasks fail as the SDK makes them fail, and nothing is
// decided that a replay would decide otherwise. When it is back every run ends, and each effect happened at most once.
// A codec that says nothing of trying again makes the SDK fail a run whose input it cannot decode when it is replayed.
func TestCodecThatIsAwayForAWhile(t *testing.T) {
	t.Parallel()
	type when = func(op string, n int64, p *commonpb.Payload) bool
	for name, tc := range map[string]struct {
		when  when
		plain bool
	}{
		"always":                   {func(string, int64, *commonpb.Payload) bool { return true }, false},
		"every third call":         {func(_ string, n int64, _ *commonpb.Payload) bool { return n%3 == 0 }, false},
		"decoding":                 {func(op string, _ int64, _ *commonpb.Payload) bool { return op == "decode" }, false},
		"encoding, at half":        {func(op string, n int64, _ *commonpb.Payload) bool { return op == "encode" && n%2 == 0 }, false},
		"always, plain error":      {func(string, int64, *commonpb.Payload) bool { return true }, true},
		"every third, plain error": {func(_ string, n int64, _ *commonpb.Payload) bool { return n%3 == 0 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, fail := ailing(t)
			fail.retry = !tc.plain
			m.serve()
			m.begin("Ship", shipping{Orders: []order{{Service: "a"}, {Service: "b"}, {Service: "c"}}, Parallel: true})
			q := m.pending(3)
			fail.set(tc.when)
			m.answer(resolution(about(t, q, "a").Key, approval.Allow, ""))
			m.answer(resolution(about(t, q, "b").Key, approval.Allow, ""))
			require.Eventually(t, func() bool { return fail.failed.Load() > 1 }, patience, tick)
			fail.set(nil)
			status := m.settle()
			t.Logf("%s; %d of %d calls of the codec failed, %d failed tasks in history", status, fail.failed.Load(), fail.calls.Load(), len(m.failedTasks()))
			seen := map[string]int{}
			for _, line := range m.ran() {
				seen[line]++
				require.Equal(t, 1, seen[line], line)
			}
			require.LessOrEqual(t, len(m.failedTasks()), 10)
			if status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED {
				require.Equal(t, "DENIED/person", m.shipped()[2])
				return
			}
			require.True(t, tc.plain, "only a codec that does not ask for another try makes a run fail: %s", status)
		})
	}
}

// settle answers what is left open, and returns how the run ended.
func (m *team) settle() (status enumspb.WorkflowExecutionStatus) {
	m.t.Helper()
	told := map[string]bool{}
	require.Eventually(m.t, func() bool {
		d, err := m.c.DescribeWorkflow(context.Background(), m.id, "")
		if err != nil {
			return false
		}
		if status = d.Status; status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
			return true
		}
		// Answers that are under way are in, or noted as unreadable.
		if l, err := m.list(); err == nil && len(l.Closed)+len(l.Ignored) >= 2 {
			for _, p := range l.Pending {
				if !told[p.Key] {
					m.answer(resolution(p.Key, approval.Deny, ""))
				}
				told[p.Key] = true
			}
		}
		return false
	}, 2*patience, tick)
	return status
}

// An agent whose worker's key service fails now and then goes on, and the model is told of no effect that did not happen.
func TestAgentWhileTheCodecFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newSealer()
	s.fail = &failing{retry: true}
	plug, done, err := plugin(setup{Keys: true, Script: `
turns:
  - calls: [{tool: note, args: {text: a}}, {tool: note, args: {text: b}}]
  - calls: [{tool: note, args: {text: c}}]
  - say: done
`}, nil, w.effects, w.blobs)
	require.NoError(t, err)
	t.Cleanup(done)
	workers, err := client.Dial(client.Options{HostPort: address(t), RPCTimeout: rpcPatience, DataConverter: s.converter(), Plugins: []client.Plugin{plug},
		Logger: sdklog.NewStructuredLogger(logger())})
	require.NoError(t, err)
	t.Cleanup(workers.Close)
	w.c = workers
	w.workWith(plug)
	w.c, err = client.Dial(client.Options{HostPort: address(t), RPCTimeout: rpcPatience, DataConverter: newSealer().converter(), Logger: sdklog.NewStructuredLogger(logger())})
	require.NoError(t, err)
	t.Cleanup(w.c.Close)
	w.converter = newSealer().converter()
	s.fail.set(func(_ string, n int64, _ *commonpb.Payload) bool { return n%7 == 0 && n < 30 })
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Positive(t, s.fail.failed.Load())
	ran := w.ran()
	for i, code := range w.codes(res) {
		line := "note " + string(rune('a'+i))
		switch code {
		case "OK":
			require.Contains(t, ran, line)
		case "EFFECT_UNKNOWN":
			// The worker could not read its call, or not write its result.
		case "DENIED/failure":
			// The decision could not be recorded.
			require.NotContains(t, ran, line)
		default:
			require.Fail(t, code)
		}
	}
	require.LessOrEqual(t, len(ran), 3)
	t.Log(w.codes(res), ran, w.failedTasks())
}
