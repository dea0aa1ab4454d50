package pipeline_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/tool"
)

// row is one line of testdata/pipeline.jsonl: plugins, a call, and what the reference made of it. Where
// reconciled is present it is the law, as far as it goes; otherwise the reference's outcome is.
type row struct {
	ID       string          `json:"id"`
	Pre      []step          `json:"pre"`
	Guards   []step          `json:"guards"`
	Execute  []step          `json:"execute"`
	Post     []step          `json:"post"`
	Approver json.RawMessage `json:"approver"`
	Tool     step            `json:"tool"`
	Call     struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"call"`
	Observers   []step   `json:"observers"`
	Mount       []string `json:"mount"`
	CancelAfter *float64 `json:"cancel_after"`

	Outcome       outcome   `json:"outcome"`
	Observed      bool      `json:"observed"`
	ObservedCodes []*string `json:"observed_codes"`
	BodyCalls     int       `json:"body_calls"`
	Asks          int       `json:"asks"`
	Trace         []string  `json:"trace"`
	CallerAfter   any       `json:"caller_arguments_after"`
	StillRunning  *bool     `json:"work_still_running_at_return"`
	Reconciled    *partial  `json:"reconciled"`
}

type outcome struct {
	OK      *bool           `json:"ok"`
	Code    *string         `json:"code"`
	Value   json.RawMessage `json:"value"`
	Message *string         `json:"message"`
}

// partial is checked where a member is present; value is present when its bytes are.
type partial struct {
	OK        *bool           `json:"ok"`
	Code      *string         `json:"code"`
	Value     json.RawMessage `json:"value"`
	Observed  *bool           `json:"observed"`
	BodyCalls *int            `json:"body_calls"`
	Asks      *int            `json:"asks"`
	InnerRuns *int            `json:"trace_inner_wrapper_runs"`
}

// step is one plugin's behaviour; see step_test.go for the verbs.
type step struct {
	Do       string          `json:"do"`
	Name     string          `json:"name"`
	Reason   string          `json:"reason"`
	Message  string          `json:"message"`
	Feedback string          `json:"feedback"`
	Code     string          `json:"code"`
	Value    json.RawMessage `json:"value"`
	WhenPath *string         `json:"when_path"`
	Times    int             `json:"times"`
	Seconds  float64         `json:"seconds"`
	More     float64         `json:"more"`
	TimeoutS float64         `json:"timeout_s"`
}

// otherInGo are rows whose law cannot be kept to the letter in Go, with what is checked instead and why.
var otherInGo = map[string]struct {
	want partial
	why  string
}{
	"pre-set-field-on-frozen": {
		partial{OK: new(true), BodyCalls: new(1)},
		"assigning to a field of a Call writes to the listener's own copy; the language has no error to raise, " +
			"and the call goes on unchanged",
	},
}

// otherWords are rows whose message the reference words without naming the plugin; the codes are the same.
var otherWords = map[string]string{
	"pre-return-none":   "denied by a pre-execute listener of plugin \"pre0\"",
	"pre-forgot-return": "denied by a pre-execute listener of plugin \"pre0\"",
	"pre-return-true":   "pre-execute listener of plugin \"pre0\" returned an unrecognised verdict",
	"pre-return-string": "pre-execute listener of plugin \"pre0\" returned an unrecognised verdict",

	"cancel-caller-during-body":                     "the call was cancelled while the tool ran: context canceled",
	"cancel-caller-during-body-with-timeout-policy": "the call was cancelled while the tool ran: context canceled",
}

func TestVectors(t *testing.T) {
	file, err := os.Open("testdata/pipeline.jsonl")
	require.NoError(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	rows, other := 0, 0
	for lines.Scan() {
		var r row
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		rows++
		if special, ok := otherInGo[r.ID]; ok {
			r.Reconciled = &special.want
			other++
		}
		t.Run(r.ID, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { r.check(t) })
		})
	}
	require.NoError(t, lines.Err())
	assert.Equal(t, 90, rows)
	assert.Len(t, otherInGo, other, "every exception belongs to a row")
}

func (r row) check(t *testing.T) {
	b := newBench(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.cancel = cancel
	if r.CancelAfter != nil {
		go func() {
			_ = sleep(ctx, *r.CancelAfter)
			cancel()
		}()
	}
	args := slices.Clone(r.Call.Arguments)
	got := b.pipeline.Execute(ctx, r.Call.Name, args)
	running := b.running.Load() > 0
	// Time is not real here: let what was left running come to its end.
	time.Sleep(time.Hour)
	assert.JSONEq(t, string(r.Call.Arguments), string(args), "the caller's bytes are the caller's")
	if r.StillRunning != nil {
		assert.Equal(t, *r.StillRunning, running)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Reconciled != nil {
		r.checkReconciled(t, b, got)
		return
	}
	require.NotNil(t, r.Outcome.OK, "a row without an outcome needs a reconciled one")
	assert.Equal(t, *r.Outcome.OK, got.IsOK(), "%+v", got)
	assert.Equal(t, deref(r.Outcome.Code), codeOf(got))
	assertValue(t, r.Outcome.Value, got)
	if r.Outcome.Message != nil {
		require.NotNil(t, got.Failure)
		want := *r.Outcome.Message
		if words, ok := otherWords[r.ID]; ok {
			want = words
		}
		assert.Equal(t, want, got.Failure.Message)
	}
	assert.Equal(t, r.Observed, len(b.codes) > 0)
	want := []string{}
	for _, c := range r.ObservedCodes {
		want = append(want, deref(c))
	}
	assert.Equal(t, want, b.codes)
	assert.Equal(t, r.BodyCalls, b.bodies)
	assert.Equal(t, r.Asks, b.asks)
	// Our guards also run before anyone is asked, so only the rest of the order can be the reference's.
	assert.Equal(t, withoutGuards(r.Trace), withoutGuards(b.trace))
}

func (r row) checkReconciled(t *testing.T, b *bench, got tool.Result) {
	want := r.Reconciled
	if want.OK != nil {
		assert.Equal(t, *want.OK, got.IsOK(), "%+v", got)
	} else if r.Outcome.OK != nil {
		assert.Equal(t, *r.Outcome.OK, got.IsOK(), "%+v", got)
	}
	if want.Code != nil {
		assert.Equal(t, *want.Code, codeOf(got))
	}
	if want.Value != nil {
		assertValue(t, want.Value, got)
	}
	assert.Len(t, b.codes, 1, "every outcome is observed, once")
	assert.Equal(t, codeOf(got), b.codes[0])
	if want.BodyCalls != nil {
		assert.Equal(t, *want.BodyCalls, b.bodies)
	}
	if want.Asks != nil {
		assert.Equal(t, *want.Asks, b.asks)
	}
	if want.InnerRuns != nil {
		runs := 0
		for _, s := range b.trace {
			if s == "exec1" {
				runs++
			}
		}
		assert.Equal(t, *want.InnerRuns, runs)
	}
}

func assertValue(t *testing.T, want json.RawMessage, got tool.Result) {
	t.Helper()
	if string(want) == "null" && !got.IsOK() {
		assert.Empty(t, got.Value)
		return
	}
	assert.JSONEq(t, string(want), string(got.Value))
}

// codeOf is the reference's code of a result: it has none for success.
func codeOf(r tool.Result) string {
	if r.IsOK() {
		return ""
	}
	return string(r.Code)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func withoutGuards(trace []string) []string {
	return slices.DeleteFunc(slices.Clone(trace), func(s string) bool { return strings.HasPrefix(s, "guard") })
}
