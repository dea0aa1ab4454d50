package garbage_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/garbage"
	"github.com/assent-dev/assent/storage"
)

// server has runs and their histories.
type server struct {
	client.Client
	mu   sync.Mutex
	runs []run
	// listing and reading fail with these.
	listing error
	reading map[string]error
	// later are runs that begin while others are read, one at each reading.
	later   []run
	endless bool
	queries []string
}

type run struct {
	id     string
	closed bool
	events []*historypb.HistoryEvent
}

func (s *server) ListWorkflow(_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	s.queries = append(s.queries, r.GetQuery())
	open := strings.Contains(r.GetQuery(), "ExecutionStatus NOT IN")
	var all []*workflowpb.WorkflowExecutionInfo
	for _, r := range s.runs {
		if r.closed == open {
			continue
		}
		w := &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: r.id, RunId: "run of " + r.id}}
		if r.closed {
			w.CloseTime = timestamppb.Now()
		}
		all = append(all, w)
	}
	resp := &workflowservice.ListWorkflowExecutionsResponse{}
	// One to a page.
	at := len(r.GetNextPageToken())
	if at < len(all) {
		resp.Executions = all[at : at+1]
	}
	if at+1 < len(all) {
		resp.NextPageToken = make([]byte, at+1)
	}
	return resp, s.listing
}

func (s *server) GetWorkflowHistory(_ context.Context, id, runID string, _ bool, _ enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endless {
		s.runs = append(s.runs, run{id: fmt.Sprint("run ", len(s.runs)), closed: true})
	}
	s.runs, s.later = append(s.runs, s.later...), nil
	for _, r := range s.runs {
		if r.id == id && runID == "run of "+id {
			return &iterator{events: r.events, err: s.reading[id]}
		}
	}
	return &iterator{err: errors.New("no such run")}
}

type iterator struct {
	events []*historypb.HistoryEvent
	err    error
}

func (i *iterator) HasNext() bool { return i.err != nil || len(i.events) > 0 }

func (i *iterator) Next() (*historypb.HistoryEvent, error) {
	if i.err != nil {
		return nil, i.err
	}
	e := i.events[0]
	i.events = i.events[1:]
	return e, nil
}

func signal(payloads ...*commonpb.Payload) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{EventId: 1, Attributes: &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
		WorkflowExecutionSignaledEventAttributes: &historypb.WorkflowExecutionSignaledEventAttributes{Input: &commonpb.Payloads{Payloads: payloads}}}}
}

func payload(t *testing.T, v any) *commonpb.Payload {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayload(v)
	require.NoError(t, err)
	return p
}

func put(t *testing.T, s blob.Store, v any) blob.Ref {
	t.Helper()
	data, ok := v.(string)
	if !ok {
		raw, err := json.Marshal(v)
		require.NoError(t, err)
		data = string(raw)
	}
	ref, err := s.Put(t.Context(), []byte(data))
	require.NoError(t, err)
	return ref
}

// claim is what the SDK leaves of a payload that it has offloaded.
func claim(t *testing.T, d converter.StorageDriver, p *commonpb.Payload) *commonpb.Payload {
	t.Helper()
	claims, err := d.Store(converter.StorageDriverStoreContext{Context: t.Context()}, []*commonpb.Payload{p})
	require.NoError(t, err)
	data, err := json.Marshal(map[string]any{"driverName": d.Name(), "claimData": claims[0].ClaimData})
	require.NoError(t, err)
	return &commonpb.Payload{Data: data, Metadata: map[string][]byte{"encoding": []byte("json/protobuf"),
		"messageType": []byte("temporal.api.sdk.v1.ExternalStorageReference")}}
}

func options(s *server, drivers ...converter.StorageDriver) garbage.Options {
	return garbage.Options{Sources: []garbage.Source{{Client: s, Namespace: "ns"}}, Since: time.Now().Add(-time.Hour), Drivers: drivers}
}

func TestWhatRunsNeedIsFoundWhereverItIs(t *testing.T) {
	m := blob.NewMemory("m")
	d, err := storage.NewDriver(m, "")
	require.NoError(t, err)
	// A transcript: a chain of nodes, with a result by reference.
	result := put(t, m, "a large result")
	first := put(t, m, map[string]any{"messages": []any{map[string]any{"results": []any{map[string]any{"valueRef": result}}}}})
	last := put(t, m, map[string]any{"prev": first, "messages": []any{}})
	quoted := put(t, m, "in JSON in JSON")
	text, err := json.Marshal(map[string]any{"input": fmt.Sprintf(`{"$blob":{"sha256":%q}}`, quoted.SHA256)})
	require.NoError(t, err)
	inside := put(t, m, "named in an offloaded payload")
	header := put(t, m, "in a header")
	binary := put(t, m, "at the beginning of bytes")
	garbageRef := put(t, m, "nobody needs this")
	away := claim(t, d, payload(t, map[string]any{"ref": inside}))
	_, offloaded, _ := storage.Claimed(away)

	e := signal(payload(t, last), away, payload(t, json.RawMessage(text)), &commonpb.Payload{
		Metadata: map[string][]byte{"encoding": []byte("binary/plain")}, Data: []byte(binary.SHA256 + "-" + strings.Repeat("z", 32))})
	e.GetWorkflowExecutionSignaledEventAttributes().Header = &commonpb.Header{Fields: map[string]*commonpb.Payload{"h": payload(t, header)}}
	s := &server{runs: []run{{id: "w", events: []*historypb.HistoryEvent{e}}, {id: "over", closed: true, events: []*historypb.HistoryEvent{signal(payload(t, first))}}}}
	r, err := garbage.Look(t.Context(), m, options(s, d))
	require.NoError(t, err)
	require.Equal(t, 1, r.Open)
	require.Equal(t, 1, r.Closed)
	require.Len(t, r.Entries, 9)
	w, over := garbage.Run{Namespace: "ns", WorkflowID: "w", RunID: "run of w"}, garbage.Run{Namespace: "ns", WorkflowID: "over", RunID: "run of over"}
	for what, ref := range map[string]blob.Ref{"last": last, "inside": inside, "quoted": quoted, "header": header, "binary": binary,
		"offloaded": {SHA256: offloaded.ClaimData["sha256"]}} {
		require.Equal(t, []garbage.Run{w}, r.UsedBy(ref), what)
	}
	for what, ref := range map[string]blob.Ref{"first": first, "result": result} {
		require.ElementsMatch(t, []garbage.Run{w, over}, r.UsedBy(ref), what)
	}
	require.Empty(t, r.UsedBy(garbageRef))
	require.Empty(t, r.Unused(time.Now().Add(-time.Minute)), "it is young")
	unused := r.Unused(time.Now().Add(time.Minute))
	require.Len(t, unused, 1)
	require.Equal(t, garbageRef, unused[0].Ref)
	require.Contains(t, s.queries[0], "NOT IN")
	require.Contains(t, s.queries[1], "CloseTime > ")
}

// hidden is a payload after a codec.
func hidden(t *testing.T) *commonpb.Payload {
	p := payload(t, "x")
	p.Metadata["encoding"] = []byte("binary/zlib")
	return p
}

// damaged is a store in which a blob that is needed is altered.
type damaged struct {
	*blob.Memory
	err error
}

func (d damaged) Get(context.Context, blob.Ref) ([]byte, error) { return nil, d.err }

// unlisted is a store that cannot be listed to its end.
type unlisted struct {
	*blob.Memory
	err error
}

func (u unlisted) List(ctx context.Context) iter.Seq2[blob.Entry, error] {
	return func(yield func(blob.Entry, error) bool) { yield(blob.Entry{}, u.err) }
}

func TestInDoubtNothingIsKnown(t *testing.T) {
	m := blob.NewMemory("m")
	ref := put(t, m, "x")
	d, err := storage.NewDriver(m, "theirs")
	require.NoError(t, err)
	broken := errors.New("broken")
	good := []*historypb.HistoryEvent{signal(payload(t, ref))}
	gone := serviceerror.NewNotFound("gone")
	for name, tc := range map[string]struct {
		server *server
		store  blob.Inventory
		says   string
	}{
		"runs cannot be listed":      {&server{listing: broken}, m, `list the runs of namespace "ns"`},
		"a history cannot be read":   {&server{runs: []run{{id: "w"}}, reading: map[string]error{"w": broken}}, m, `workflow "w", run run of w of namespace "ns"`},
		"one is gone that is open":   {&server{runs: []run{{id: "w"}}, reading: map[string]error{"w": gone}}, m, "gone"},
		"a codec hides payloads":     {&server{runs: []run{{id: "w", events: []*historypb.HistoryEvent{signal(hidden(t))}}}}, m, `event 1 has a payload of encoding "binary/zlib"`},
		"payloads are elsewhere":     {&server{runs: []run{{id: "w", events: []*historypb.HistoryEvent{signal(claim(t, d, payload(t, "x")))}}}}, m, `external storage "theirs"`},
		"a needed blob is altered":   {&server{runs: []run{{id: "w", events: good}}}, damaged{m, &blob.CorruptError{Store: "m", Ref: ref}}, "is altered"},
		"the store cannot be listed": {&server{}, unlisted{m, broken}, "broken"},
		"runs begin without end":     {&server{runs: []run{{id: "w"}}, endless: true}, m, "runs begin faster"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := garbage.Look(t.Context(), tc.store, options(tc.server))
			require.ErrorContains(t, err, tc.says)
			require.Nil(t, r)
		})
	}
	// What the server has deleted since it was listed needs nothing.
	s := &server{runs: []run{{id: "w", closed: true}}, reading: map[string]error{"w": gone}}
	r, err := garbage.Look(t.Context(), m, options(s))
	require.NoError(t, err)
	require.Zero(t, r.Closed)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = garbage.Look(ctx, m, options(s))
	require.ErrorIs(t, err, context.Canceled)
}

func TestRunsThatBeginMeanwhileAreAsked(t *testing.T) {
	m := blob.NewMemory("m")
	ref := put(t, m, "x")
	s := &server{runs: []run{{id: "w"}}, later: []run{{id: "late", events: []*historypb.HistoryEvent{signal(payload(t, ref))}}}}
	r, err := garbage.Look(t.Context(), m, options(s))
	require.NoError(t, err)
	require.Equal(t, 2, r.Open)
	require.Len(t, r.UsedBy(ref), 1)
}

func TestANarrowerQuery(t *testing.T) {
	s := &server{}
	o := options(s)
	o.Sources[0].Query = "WorkflowType='x' OR WorkflowType='y'"
	_, err := garbage.Look(t.Context(), blob.NewMemory("m"), o)
	require.NoError(t, err)
	for _, q := range s.queries {
		require.True(t, strings.HasSuffix(q, " AND (WorkflowType='x' OR WorkflowType='y')"), q)
	}
}

// A blob that many runs share is told of a few of them.
func TestABlobOfManyRuns(t *testing.T) {
	m := blob.NewMemory("m")
	leaf := put(t, m, "leaf")
	ref := put(t, m, leaf)
	s := &server{}
	for n := range 40 {
		s.runs = append(s.runs, run{id: fmt.Sprint(n), events: []*historypb.HistoryEvent{signal(payload(t, ref))}})
	}
	r, err := garbage.Look(t.Context(), m, options(s))
	require.NoError(t, err)
	require.Equal(t, 40, r.Open)
	require.Len(t, r.UsedBy(ref), 8)
	require.NotEmpty(t, r.UsedBy(leaf))
	require.Empty(t, r.Unused(time.Now().Add(time.Hour)))
}

// A team that encrypts gives its codec too.
func TestPayloadsBehindACodec(t *testing.T) {
	m := blob.NewMemory("m")
	ref := put(t, m, "x")
	codec := converter.NewZlibCodec(converter.ZlibCodecOptions{AlwaysEncode: true})
	encoded, err := codec.Encode([]*commonpb.Payload{payload(t, ref)})
	require.NoError(t, err)
	s := &server{runs: []run{{id: "w", events: []*historypb.HistoryEvent{signal(encoded[0], payload(t, "plain"))}}}}
	_, err = garbage.Look(t.Context(), m, options(s))
	var hidden *garbage.EncodingError
	require.ErrorAs(t, err, &hidden)
	o := options(s)
	o.Codecs = []converter.PayloadCodec{codec}
	r, err := garbage.Look(t.Context(), m, o)
	require.NoError(t, err)
	require.Len(t, r.UsedBy(ref), 1)
	encoded[0].Data = []byte("broken")
	_, err = garbage.Look(t.Context(), m, o)
	require.ErrorContains(t, err, "decode a payload of event 1")
}
