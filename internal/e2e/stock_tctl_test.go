package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// tctl is what tctl makes of its --input options: it decodes each of them and encodes it again, so that numbers have
// been float64, members are sorted, and a member that was there twice is there once. The word null is no value.
func tctl(t *testing.T, inputs ...string) *commonpb.Payloads {
	t.Helper()
	values := make([]any, len(inputs))
	for i, in := range inputs {
		if !strings.EqualFold(in, "null") {
			require.NoError(t, json.Unmarshal([]byte(in), &values[i]))
		}
	}
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(values...)
	require.NoError(t, err)
	return payloads
}

// raw is one payload, byte by byte; an encoding of "-" means that there is no metadata at all.
func raw(encoding, data string) *commonpb.Payloads {
	p := &commonpb.Payload{Data: []byte(data)}
	switch encoding {
	case "-":
	case "":
		p.Metadata = map[string][]byte{"origin": []byte("elsewhere")}
	default:
		p.Metadata = map[string][]byte{"encoding": []byte(encoding)}
	}
	return &commonpb.Payloads{Payloads: []*commonpb.Payload{p}}
}

// wire sends a signal as it is.
func (w *world) wire(signal string, payloads *commonpb.Payloads) {
	w.t.Helper()
	_, err := w.c.WorkflowService().SignalWorkflowExecution(context.Background(), &workflowservice.SignalWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: w.id}, SignalName: signal, Input: payloads,
		Identity: "tctl@elsewhere", RequestId: uuid.NewString(),
	})
	require.NoError(w.t, err)
}

// oneBig asks for a call with a number in its arguments.
const oneBig = `
turns:
  - calls: [{tool: big, args: {bytes: 3}}]
  - say: done
`

// A signal that comes in another wire form means the same, or changes nothing and says why.
func TestSignalsInOtherWireForms(t *testing.T) {
	t.Parallel()
	again := func(s string) func(t *testing.T, key string) *commonpb.Payloads {
		return func(t *testing.T, key string) *commonpb.Payloads { return tctl(t, strings.ReplaceAll(s, "KEY", key)) }
	}
	as := func(encoding, s string) func(t *testing.T, key string) *commonpb.Payloads {
		return func(_ *testing.T, key string) *commonpb.Payloads {
			return raw(encoding, strings.ReplaceAll(s, "KEY", key))
		}
	}
	several := func(s ...string) func(t *testing.T, key string) *commonpb.Payloads {
		return func(t *testing.T, key string) *commonpb.Payloads {
			return tctl(t, strings.Split(strings.ReplaceAll(strings.Join(s, "\x00"), "KEY", key), "\x00")...)
		}
	}
	const allow = `{"key":"KEY","decision":"allow"}`
	for name, tc := range map[string]struct {
		payloads func(t *testing.T, key string) *commonpb.Payloads
		// code is what the model is told; empty means that the question stays open.
		code string
		// says is a part of what the model is told: of the result, or of why there is none.
		says string
		// ignored is the reason that is shown.
		ignored string
	}{
		"tctl":                         {again(allow), "OK", `"xxx"`, ""},
		"tctl, deny":                   {again(`{"reason":"<b>no</b> & never","decision":"deny","key":"KEY"}`), "DENIED/person", "<b>no</b> & never", ""},
		"tctl, a word":                 {again(`"allow"`), "OK", `"xxx"`, ""},
		"tctl, a string":               {again(`"{\"key\":\"KEY\",\"decision\":\"allow\"}"`), "OK", `"xxx"`, ""},
		"tctl, arguments":              {again(`{"key":"KEY","decision":"allow","input":{"bytes":5.0}}`), "OK", `"xxxxx"`, ""},
		"tctl, an exponent":            {again(`{"key":"KEY","decision":"allow","input":{"bytes":1e1}}`), "OK", `"xxxxxxxxxx"`, ""},
		"tctl, no integer":             {again(`{"key":"KEY","decision":"allow","input":{"bytes":5.5}}`), "DENIED/failure", "do not fit the tool's schema", ""},
		"tctl, a member of its own":    {again(`{"key":"KEY","decision":"allow","ticket":9007199254740993}`), "OK", `"xxx"`, ""},
		"tctl, a time":                 {again(`{"key":"KEY","decision":"allow","expiresAt":"2999-01-01T00:00:00Z"}`), "OK", `"xxx"`, ""},
		"tctl, a time that is over":    {again(`{"key":"KEY","decision":"allow","expiresAt":"2001-01-01T00:00:00Z"}`), "DENIED/expired", "too late", ""},
		"tctl, a time as a number":     {again(`{"key":"KEY","decision":"allow","expiresAt":32503680000}`), "DENIED/person", "no RFC 3339 time", ""},
		"tctl, null":                   {again(`null`), "", "", "it is empty"},
		"tctl, two answers":            {several(allow, `{"key":"KEY","decision":"deny"}`), "OK", `"xxx"`, "only the first counts"},
		"tctl, null before the answer": {several(`null`, allow), "", "", "it is empty"},
		"a newline at the end":         {as("json/plain", allow+"\n"), "OK", `"xxx"`, ""},
		"blanks round it":              {as("json/plain", "\r\n\t "+allow+" \r\n"), "OK", `"xxx"`, ""},
		"no metadata":                  {as("-", allow), "OK", `"xxx"`, ""},
		"no encoding":                  {as("", allow), "OK", `"xxx"`, ""},
		"as bytes":                     {as("binary/plain", allow), "OK", `"xxx"`, ""},
		"no value with data":           {as("binary/null", "\x00"), "", "", "it is no object"},
		"an encoding nobody knows":     {as("binary/encrypted", "\x9c\x01\x02"), "", "", "not UTF-8 text"},
		"verbatim number":              {as("json/plain", `{"key":"KEY","decision":"allow","input":{"bytes":5.0}}`), "OK", `"xxxxx"`, ""},
		"verbatim exponent":            {as("json/plain", `{"key":"KEY","decision":"allow","input":{"bytes":1e1}}`), "OK", `"xxxxxxxxxx"`, ""},
		"a mark before it":             {as("json/plain", "\ufeff"+allow), "", "", "it is no object"},
		"two documents":                {as("json/plain", allow+allow), "", "", "not valid JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.work(askingWith(oneBig))
			w.start(protocol.AgentInput{Permissions: &protocol.Tighten{Ask: []permission.Rule{{Tool: permission.One("big")}}}})
			key := w.pending(1)[0].Key
			w.wire(protocol.SignalApproval, tc.payloads(t, key))
			if tc.ignored != "" {
				require.Eventually(t, func() bool {
					l, err := w.list()
					return err == nil && len(l.Ignored) > 0 && strings.Contains(l.Ignored[len(l.Ignored)-1].Why, tc.ignored)
				}, patience, tick)
			}
			if tc.code == "" {
				require.Len(t, w.pending(1), 1)
				w.answer(key, approval.Deny)
				tc.code = "DENIED/person"
			}
			res := w.result()
			require.Equal(t, []string{tc.code}, w.codes(res))
			if r := w.results(res)[0].Result; r.IsOK() {
				require.JSONEq(t, tc.says, string(r.Value))
			} else {
				require.Contains(t, r.Failure.Message, tc.says)
			}
		})
	}
}

// The same in a workflow that is not an agent.
func TestGuardSignalsInOtherWireForms(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ encoding, data, end string }{
		"no metadata":          {"-", `{"key":"KEY","decision":"allow"}` + "\n", ""},
		"as bytes":             {"binary/plain", `{"decision":"allow","key":"KEY"}`, ""},
		"a string":             {"json/plain", `"{\"key\":\"KEY\",\"decision\":\"deny\"}"`, protocol.ErrorDenied},
		"a time as a number":   {"json/plain", `{"decision":"allow","expiresAt":1.7e9,"key":"KEY"}`, protocol.ErrorDenied},
		"arguments of its own": {"json/plain", `{"decision":"allow","input":{"what":"db"},"key":"KEY"}`, protocol.ErrorDenied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, run, q := guarded(t, "wire-"+uuid.NewString(), "Deploy")
			w.wire(protocol.GuardSignalApproval, raw(tc.encoding, strings.ReplaceAll(tc.data, "KEY", q.Key)))
			require.Equal(t, tc.end, ended(t, run))
		})
	}
}
