package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/internal/verify"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/storage"
	"github.com/assent-dev/assent/tool"
)

// offloading gives a world's client the external storage of a team, from a number of bytes on.
func (w *world) offloading(threshold int, d converter.StorageDriver) {
	w.t.Helper()
	c, err := client.Dial(client.Options{HostPort: devservertest.Server(w.t).Address(), RPCTimeout: rpcPatience, Identity: "e2e", Logger: sdklog.NewStructuredLogger(logger()),
		ExternalStorage: converter.ExternalStorage{Drivers: []converter.StorageDriver{d}, PayloadSizeThreshold: threshold}})
	require.NoError(w.t, err)
	w.t.Cleanup(c.Close)
	w.c, w.drivers = c, []converter.StorageDriver{d}
}

// claims counts the events of the world's workflow that have an offloaded payload.
func (w *world) claims() int {
	n := 0
	for _, e := range w.history() {
		if _, ok := storage.Offloaded(e); ok {
			n++
		}
	}
	return n
}

// A team that offloads payloads to our store loses nothing of ours: decisions, grants, answers and results go on to work
// when they lie outside of history, also over a restart of the worker, and history proves what it proved before to whoever
// has the driver. A workflow of the team's own uses the same store.
func TestOurStoreIsTheirExternalStorage(t *testing.T) {
	t.Parallel()
	// With 1, the grant in a header and every marker are offloaded.
	for _, threshold := range []int{1, 2000} {
		t.Run(fmt.Sprint(threshold), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			d, err := storage.NewDriver(w.blobs, "")
			require.NoError(t, err)
			w.offloading(threshold, d)
			s := askingWith(fmt.Sprintf(`
turns:
  - calls: [{tool: look, args: {text: %q}}, {tool: big, args: {bytes: 100000}}, {tool: run, args: {text: a}}]
  - say: done
    expect: {lastResult: {code: OK}}
`, strings.Repeat("large ", 1<<10)))
			s.Keys = true
			wk := w.work(s)
			run := w.start(protocol.AgentInput{Prompt: strings.Repeat("a long prompt ", 600)})
			key := w.pending(1)[0].Key
			wk.Stop()
			w.work(s)
			w.answer(key, approval.Allow)
			require.Equal(t, protocol.OK, w.result().Status)
			require.NotZero(t, w.claims())

			ring, err := protocol.NewKeyring(grantKey)
			require.NoError(t, err)
			o := verify.Options{Keys: ring, Namespace: "default", WorkflowID: w.id}
			plain := dial(t, devservertest.Server(t).Address())
			events, err := recordedEvents(t.Context(), storage.Reading(plain, d), w.id, run.GetRunID())
			require.NoError(t, err)
			r := verify.History(events, o)
			require.Empty(t, r.Findings)
			require.Len(t, r.Calls, 3)
			told := w.told(plain, follow.Options{Drivers: w.drivers})
			require.Empty(t, told[follow.Problem])
			require.Len(t, told[follow.Decision], 3)
			require.Equal(t, protocol.OK, told[follow.AgentEnd][0].End.Result.Status)

			// Without the driver it is said what cannot be seen, and where it is.
			events, err = recordedEvents(t.Context(), plain, w.id, run.GetRunID())
			require.NoError(t, err)
			found := fmt.Sprint(verify.History(events, o).Findings)
			require.Contains(t, found, `it lies in the external storage "assent.blob"`)
			require.Contains(t, w.told(plain, follow.Options{})[follow.Problem][0].Note, `a payload in the external storage "assent.blob"`)
		})
	}
}

// told are the events that a follower gets, by kind.
func (w *world) told(c client.Client, o follow.Options) map[follow.Kind][]follow.Event {
	w.t.Helper()
	out := map[follow.Kind][]follow.Event{}
	for e, err := range follow.Follow(context.Background(), c, w.id, "", o) {
		require.NoError(w.t, err)
		out[e.Kind] = append(out[e.Kind], e)
	}
	return out
}

// A workflow that has nothing to do with agents has its large values in our store, and gets them back.
func TestALargePayloadOfATeamsWorkflow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, err := storage.NewDriver(w.blobs, "")
	require.NoError(t, err)
	w.offloading(0, d)
	large := strings.Repeat("0123456789abcdef", 3<<16)
	wk := sdkworker.New(w.c, w.queue, sdkworker.Options{DeadlockDetectionTimeout: deadlock})
	twice := func(_ context.Context, s string) (string, error) { return s + s, nil }
	wk.RegisterWorkflowWithOptions(func(ctx workflow.Context, s string) (out string, err error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: patience})
		return out, workflow.ExecuteActivity(ctx, twice, s).Get(ctx, &out)
	}, workflow.RegisterOptions{Name: "team.Large"})
	wk.RegisterActivity(twice)
	require.NoError(t, wk.Start())
	t.Cleanup(wk.Stop)
	run, err := w.c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: w.id, TaskQueue: w.queue}, "team.Large", large)
	require.NoError(t, err)
	var got string
	require.NoError(t, run.Get(t.Context(), &got))
	require.True(t, got == large+large, "3 MiB in, 6 MiB out, and no payload of the server's may have more than 2")
	require.NotZero(t, w.claims())

	// Another store under the name of the driver is not taken for this one.
	other, err := storage.NewDriver(blob.NewMemory("other"), "")
	require.NoError(t, err)
	v := newWorld(t)
	v.offloading(0, other)
	err = v.c.GetWorkflow(t.Context(), w.id, "").Get(t.Context(), &got)
	require.ErrorContains(t, err, fmt.Sprintf(`the payload is in blob store %q, driver "assent.blob" has "other"`, w.blobs.ID()))
}

// A payload that is not there when its run goes on makes the run wait, as the SDK has it, and is found when it is back.
func TestAnOffloadedPayloadThatIsAwayForAWhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := filepath.Join(t.TempDir(), "payloads")
	store, err := blob.NewDir(dir)
	require.NoError(t, err)
	d, err := storage.NewDriver(store, "payloads")
	require.NoError(t, err)
	w.offloading(1, d)
	wk := w.work(askingWith(oneAsk))
	w.start(protocol.AgentInput{})
	key := w.pending(1)[0].Key
	wk.Stop()
	away := filepath.Join(dir, "away")
	require.NoError(t, os.Rename(filepath.Join(dir, "objects"), away))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "objects"), 0o700))
	w.work(askingWith(oneAsk))
	w.answer(key, approval.Allow)
	require.Eventually(t, func() bool {
		for _, e := range w.history() {
			if e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED {
				return strings.Contains(fmt.Sprint(e), "is not in store")
			}
		}
		return false
	}, patience, tick)
	// What was stored meanwhile is there too.
	require.NoError(t, os.CopyFS(filepath.Join(dir, "objects"), os.DirFS(away)))
	require.Equal(t, protocol.OK, w.result().Status)
	require.Equal(t, []string{"run a"}, w.ran())
}

// bucket is a team's driver: it chooses its addresses itself, and keeps them by run.
type bucket struct {
	mu   sync.Mutex
	held map[string]*commonpb.Payload
	// spoil changes what Retrieve returns.
	spoil func(*commonpb.Payload)
}

func (b *bucket) Name() string { return "payloads" }
func (b *bucket) Type() string { return "team.bucket" }

func (b *bucket) Store(ctx converter.StorageDriverStoreContext, payloads []*commonpb.Payload) ([]converter.StorageDriverClaim, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []converter.StorageDriverClaim
	for _, p := range payloads {
		target, ok := ctx.Target.(converter.StorageDriverWorkflowInfo)
		if !ok {
			return nil, errors.New("nobody says for which run")
		}
		key := fmt.Sprintf("%s/%s/%d", target.WorkflowID, target.WorkflowType, len(b.held))
		b.held[key] = proto.Clone(p).(*commonpb.Payload)
		out = append(out, converter.StorageDriverClaim{ClaimData: map[string]string{"key": key}})
	}
	return out, nil
}

func (b *bucket) Retrieve(_ converter.StorageDriverRetrieveContext, claims []converter.StorageDriverClaim) ([]*commonpb.Payload, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*commonpb.Payload
	for _, c := range claims {
		p, ok := b.held[c.ClaimData["key"]]
		if !ok {
			return nil, errors.New("no such key")
		}
		p = proto.Clone(p).(*commonpb.Payload)
		if b.spoil != nil {
			b.spoil(p)
		}
		out = append(out, p)
	}
	return out, nil
}

// An agent whose blobs are in the storage that a team has configured for Temporal: arguments, results and transcript are
// there, by run, and come back; what was altered there ends the agent, and it says so.
func TestTheirExternalStorageIsOurStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := &bucket{held: map[string]*commonpb.Payload{}}
	store, err := storage.FromDriver(b, storage.Config{})
	require.NoError(t, err)
	w.offloading(2000, b)
	s := askingWith(fmt.Sprintf(`
turns:
  - calls: [{tool: look, args: {text: %q}}, {tool: big, args: {bytes: 100000}}, {tool: run, args: {text: a}}]
  - say: done
  - say: never
`, strings.Repeat("large ", 10<<10)))
	p, done, err := plugin(s, w.c, w.effects, store)
	require.NoError(t, err)
	t.Cleanup(done)
	w.workWith(p)
	w.start(protocol.AgentInput{})
	w.answer(w.pending(1)[0].Key, approval.Allow)
	res := w.result()
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, "external:payloads", res.Store)
	require.Len(t, w.ran(), 2)
	msgs, err := activities.ReadTranscript(t.Context(), store, res.Transcript)
	require.NoError(t, err)
	results := msgs[2].Results
	require.Len(t, results, 3)
	for _, r := range results {
		require.Equal(t, tool.OK, r.Result.Code)
	}
	ref := results[1].Result.ValueRef
	require.NotEmpty(t, ref.Claim)
	raw, err := store.Get(t.Context(), *ref)
	require.NoError(t, err)
	var text string
	require.NoError(t, json.Unmarshal(raw, &text))
	require.Len(t, text, 100000)
	for key := range maps.Keys(b.held) {
		require.True(t, strings.HasPrefix(key, w.id+"/"+protocol.WorkflowAgent+"/"), key)
	}
	require.Equal(t, model.Assistant, msgs[3].Role)

	v := newWorld(t)
	p, done, err = plugin(s, v.c, v.effects, store)
	require.NoError(t, err)
	t.Cleanup(done)
	v.workWith(p)
	v.start(protocol.AgentInput{})
	asked := v.pending(1)[0].Key
	b.mu.Lock()
	b.spoil = func(p *commonpb.Payload) { p.Data = append(p.Data, ' ') }
	b.mu.Unlock()
	v.answer(asked, approval.Allow)
	res = v.result()
	require.Equal(t, protocol.Failed, res.Status)
	require.Contains(t, res.Error, "is altered")
	require.Contains(t, res.Error, `"external:payloads"`)
	_, ok := storage.Offloaded(v.history()[0])
	require.False(t, ok)
}

// Somebody has changed files of the store while an agent waits: it ends at once, and says which blob it cannot use. If they
// are gone they may come back, and for that it waits a while.
func TestAnAgentWhoseStoreWasTouched(t *testing.T) {
	t.Parallel()
	for name, touch := range map[string]func(path string) error{
		"altered": func(path string) error { return os.WriteFile(path, []byte("something else"), 0o600) },
		"gone":    os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "gone" && os.Getenv("ASSENT_LONG") == "" {
				t.Skip("it takes four minutes; set ASSENT_LONG=1")
			}
			w := newWorld(t)
			dir := filepath.Join(filepath.Dir(w.effects), "blobs", "objects")
			w.work(askingWith(oneAsk))
			w.start(protocol.AgentInput{})
			key := w.pending(1)[0].Key
			touched := 0
			require.NoError(t, filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				touched++
				return touch(p)
			}))
			require.NotZero(t, touched)
			w.answer(key, approval.Allow)
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			var res protocol.AgentResult
			require.NoError(t, w.c.GetWorkflow(ctx, w.id, "").Get(ctx, &res))
			require.Equal(t, protocol.Failed, res.Status)
			require.Contains(t, res.Error, map[string]string{"altered": "is altered", "gone": "is not in store"}[name])
			require.Contains(t, res.Error, w.blobs.ID())
			require.Equal(t, []string{"run a"}, w.ran(), "the arguments were in history")
			failures := 0
			for _, e := range w.history() {
				if a := e.GetActivityTaskFailedEventAttributes(); a != nil {
					failures++
					require.Equal(t, map[string]string{"altered": protocol.ErrorBlobAltered, "gone": protocol.ErrorBlobMissing}[name],
						a.GetFailure().GetApplicationFailureInfo().GetType())
				}
			}
			require.Equal(t, 1, failures)
		})
	}
}
