package verify_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"google.golang.org/protobuf/proto"

	"github.com/assent-dev/assent/internal/verify"
	"github.com/assent-dev/assent/protocol"
)

func TestFormsOfAHistory(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "workflows", "testdata", "histories", "asked-and-allowed.json"))
	require.NoError(t, err)
	want, err := verify.Read(bytes.NewReader(text))
	require.NoError(t, err)

	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = z.Write(text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	shorthand, err := temporalproto.CustomJSONMarshalOptions{Indent: "  ", Metadata: map[string]any{commonpb.EnablePayloadShorthandMetadataKey: true}}.
		Marshal(&historypb.History{Events: want})
	require.NoError(t, err)
	require.Contains(t, string(shorthand), `"text": "a"`)
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &members))

	for name, form := range map[string][]byte{
		"gzip": packed.Bytes(), "payloads as plain JSON": shorthand, "the events alone": members["events"],
		"enums in camel case": bytes.ReplaceAll(text, []byte("EVENT_TYPE_WORKFLOW_EXECUTION_STARTED"), []byte("WorkflowExecutionStarted")),
		"other members":       append([]byte(`{"workflow":{"id":"x"},`), bytes.TrimSpace(text)[1:]...),
	} {
		events, err := verify.Read(bytes.NewReader(form))
		require.NoError(t, err, name)
		require.Len(t, events, len(want), name)
		r := verify.History(events, verify.Options{})
		require.Empty(t, r.Findings, name)
		require.Len(t, r.Calls, 1, name)
		if name != "payloads as plain JSON" {
			for i := range events {
				require.True(t, proto.Equal(want[i], events[i]), "%s, event %d", name, i+1)
			}
		}
	}
}

// endless is a history that never ends.
type endless struct{ text string }

func (e *endless) Read(p []byte) (int, error) {
	if e.text == "" {
		e.text = strings.Repeat(" ", 1<<16)
	}
	n := copy(p, e.text)
	e.text = e.text[n:]
	return n, nil
}

func TestWhatIsNoHistory(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "workflows", "testdata", "histories", "allowed.json"))
	require.NoError(t, err)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = z.Write(text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	for name, tc := range map[string]struct {
		in  io.Reader
		say string
	}{
		"nothing":           {strings.NewReader(""), "ends in the middle"},
		"a word":            {strings.NewReader(`"history"`), `no list "events"`},
		"no JSON":           {strings.NewReader("apiVersion: v1"), "invalid character"},
		"another object":    {strings.NewReader(`{"items":[]}`), `no list "events"`},
		"events of no list": {strings.NewReader(`{"events":{}}`), `no list "events"`},
		"events twice":      {strings.NewReader(`{"events":[],"events":[]}`), "twice"},
		"null":              {strings.NewReader(`{"events":[null]}`), "event 1: it is no object"},
		"wrong types":       {strings.NewReader(`{"events":[{"eventId":{}}]}`), "event 1"},
		"an unknown enum":   {strings.NewReader(`{"events":[{"eventId":"1","eventType":true}]}`), "event 1"},
		"cut":               {bytes.NewReader(text[:len(text)/2]), "ends in the middle"},
		"cut in gzip":       {bytes.NewReader(packed.Bytes()[:packed.Len()/2]), "ends in the middle"},
		"two":               {io.MultiReader(bytes.NewReader(text), bytes.NewReader(text)), "follows"},
		"very deep":         {strings.NewReader(`{"events":[{"a":` + strings.Repeat("[", 5_000_000)), "depth"},
		"without an end":    {io.MultiReader(strings.NewReader(`{"events":[`), &endless{}), "more than 256 MiB"},
		"blanks":            {strings.NewReader(`{"events":[` + strings.Repeat(" ", 32<<20)), "ends in the middle"},
		"gzip of nothing":   {strings.NewReader("\x1f\x8b"), "ends in the middle"},
	} {
		_, err := verify.Read(tc.in)
		var bad *verify.ReadError
		require.ErrorAs(t, err, &bad, name)
		require.ErrorContains(t, err, tc.say, name)
	}
	events, err := verify.Read(strings.NewReader(`{"events":[]}`))
	require.NoError(t, err)
	r := verify.History(events, verify.Options{})
	require.Equal(t, verify.Incomplete, r.Findings[0].Kind, "no event is not a clean history")
}

// FuzzHistory: whatever a file holds is read or refused, and whatever is read is judged. Nothing that was tampered with
// in one byte is judged to be clean while it has a call that nobody decided on.
func FuzzHistory(f *testing.F) {
	p := record(f, "asked-and-allowed")
	started := p.events[0]
	p.events = []*historypb.HistoryEvent{started, p.events[p.at(0, decide)], p.events[p.at(0, signaled)], p.events[p.at(0, admit)], p.events[p.at(0, run)]}
	small, err := temporalproto.CustomJSONMarshalOptions{Metadata: map[string]any{commonpb.EnablePayloadShorthandMetadataKey: true}}.
		Marshal(&historypb.History{Events: p.whole()})
	require.NoError(f, err)
	f.Add(small)
	f.Add([]byte(`{"events":[{"eventId":"1","eventType":"EVENT_TYPE_WORKFLOW_EXECUTION_STARTED"},{"eventId":"2","eventType":"EVENT_TYPE_MARKER_RECORDED"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		events, err := verify.Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		r := verify.History(events, verify.Options{Keys: keys(t), Namespace: "default"})
		for _, c := range r.Calls {
			if r.OK() {
				require.NotZero(t, c.DecisionID, "%+v", c)
			}
		}
		verify.Decisions(events, nil)
	})
}

// FuzzPayload puts other bytes into the payloads of one event of a history that is clean.
func FuzzPayload(f *testing.F) {
	f.Add(20, []byte(`{}`))
	f.Add(25, []byte(`{"key":"run-06dc9abe","how":"allowed"}`))
	f.Add(28, []byte{0xff})
	events := record(f, "asked-and-allowed").events
	f.Fuzz(func(t *testing.T, at int, data []byte) {
		changed := make([]*historypb.HistoryEvent, len(events))
		for i, e := range events {
			if changed[i] = e; i == at {
				changed[i] = proto.Clone(e).(*historypb.HistoryEvent)
				overwrite(changed[i], data)
			}
		}
		r := verify.History(changed, verify.Options{})
		for _, c := range r.Calls {
			if r.OK() && c.Key == "" {
				require.Failf(t, "not asked", "%+v", c)
			}
		}
		verify.Decisions(changed, nil)
	})
}

func overwrite(e *historypb.HistoryEvent, data []byte) {
	for _, p := range e.GetMarkerRecordedEventAttributes().GetDetails() {
		for _, q := range p.GetPayloads() {
			q.Data = data
		}
	}
	for _, list := range []*commonpb.Payloads{e.GetWorkflowExecutionSignaledEventAttributes().GetInput(), e.GetActivityTaskCompletedEventAttributes().GetResult(),
		e.GetActivityTaskScheduledEventAttributes().GetInput(), e.GetWorkflowExecutionStartedEventAttributes().GetInput()} {
		for _, q := range list.GetPayloads() {
			q.Data = data
		}
	}
	if p := e.GetActivityTaskScheduledEventAttributes().GetHeader().GetFields()[protocol.HeaderGrant]; p != nil {
		p.Data = data
	}
}
