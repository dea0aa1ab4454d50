package plugins_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/plugins"
	"github.com/assent-dev/assent/tool"
)

func records(t *testing.T, out string) (all []plugins.AuditRecord) {
	t.Helper()
	for line := range strings.Lines(out) {
		var r plugins.AuditRecord
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		require.NoError(t, dec.Decode(&r), line)
		all = append(all, r)
	}
	return all
}

// Every outcome is one line, and no line quotes arguments, results or messages.
func TestAudit(t *testing.T) {
	var out, log bytes.Buffer
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	p := mount(t, made(t)(plugins.Audit(plugins.AuditConfig{Writer: &out, Log: slog.New(slog.NewJSONHandler(&log, nil)),
		Now: func() time.Time { now = now.Add(time.Second); return now }})),
		having(doing("t", func(_ context.Context, in json.RawMessage) (any, error) {
			if bytes.Contains(in, []byte("fail")) {
				return nil, errors.New(secret)
			}
			return secret, nil
		}, tool.Read), doing("asks", fine, tool.NeedsApproval())),
		pipeline.PluginFunc("no", func(s *pipeline.Scope) error {
			return s.Guard("no-deny", func(_ context.Context, c pipeline.Call) error {
				if bytes.Contains(c.Input, []byte("deny")) {
					return errors.New("because of " + secret)
				}
				return nil
			})
		}),
		pipeline.PluginFunc("person", func(s *pipeline.Scope) error {
			return s.Approver(func(context.Context, pipeline.Call, permission.Decision) (pipeline.Answer, error) {
				return pipeline.Allow(), nil
			})
		}))
	inputs := [][2]string{{"t", `{"b":1, "x":"hunter2-input"}`}, {"t", `{"fail":1}`}, {"t", `{"deny":1}`}, {"asks", `{}`}, {"unheard", `nonsense`}, {"t", `[]`}}
	for _, c := range inputs {
		p.Execute(t.Context(), c[0], json.RawMessage(c[1]))
	}
	all := records(t, out.String())
	require.Len(t, all, len(inputs))
	second := time.Second
	ids := map[string]bool{}
	for n := range all {
		ids[all[n].Call] = true
		all[n].Call = ""
		if all[n].Approval != "" {
			all[n].Approval = "key"
		}
		all[n].Time = time.Time{}
	}
	assert.Len(t, ids, len(inputs))
	sum := func(s string) string { return canonjson.SHA256([]byte(s)) }
	assert.Equal(t, []plugins.AuditRecord{
		{Tool: "t", Risk: "read", Code: tool.OK, Attempt: 1, InputDigest: sum(`{"b":1,"x":"hunter2-input"}`), Duration: &second},
		{Tool: "t", Risk: "read", Code: tool.ToolError, Attempt: 1, InputDigest: sum(`{"fail":1}`), Duration: &second},
		{Tool: "t", Risk: "read", Code: tool.Denied, Reason: tool.ByGuard, By: "no-deny", Attempt: 1, InputDigest: sum(`{"deny":1}`)},
		{Tool: "asks", Risk: "undeclared", Code: tool.OK, Approval: "key", ApprovedBy: "person", Attempt: 1, InputDigest: sum(`{}`), Duration: &second},
		{Tool: "unheard", Risk: "undeclared", Code: tool.UnknownTool, Attempt: 1, InputDigest: "raw:" + sum(`nonsense`)},
		{Tool: "t", Risk: "read", Code: tool.InvalidArguments, Attempt: 1, InputDigest: sum(`[]`)},
	}, all)
	assert.Contains(t, out.String(), `{"time":"2026-01-02T02:04:07Z",`, "it is UTC")
	assert.Equal(t, len(inputs), strings.Count(log.String(), `"msg":"audit"`))
	assert.Equal(t, 2, strings.Count(log.String(), `"level":"INFO"`))
	assert.NotContains(t, out.String()+log.String(), "hunter2")
}

func TestAuditOfRunsAndInput(t *testing.T) {
	var out bytes.Buffer
	p := mount(t, made(t)(plugins.Audit(plugins.AuditConfig{Writer: &out, Input: true})))
	r := tool.Fail(tool.Aborted, "x")
	r.Failure.Started = true
	p.Observe(t.Context(), pipeline.Call{ID: "1", Name: "t", Input: json.RawMessage(`{"a":9007199254740993}`), Modified: true, Agent: &tool.Agent{RunID: "run", Type: "fixer"}}, r)
	p.Observe(t.Context(), pipeline.Call{ID: "2\n", Name: "t\n{}", Input: json.RawMessage("no\nJSON"), RunID: "other"}, tool.Fail(tool.UnknownTool, "x"))
	p.Observe(t.Context(), pipeline.Call{ID: "3", Name: "t"}, tool.Fail(tool.Denied, "x"))
	assert.Equal(t, 2, strings.Count(out.String(), "inputDigest"), "none where the arguments are not at hand")
	all := records(t, out.String())
	require.Len(t, all, 3)
	assert.Equal(t, "run", all[0].Run)
	assert.Equal(t, "fixer", all[0].Agent)
	assert.True(t, all[0].Modified && all[0].Started)
	assert.Zero(t, all[0].Attempt)
	assert.Equal(t, `{"a":9007199254740993}`, string(all[0].Input))
	assert.Equal(t, "other", all[1].Run)
	assert.Equal(t, "t\n{}", all[1].Tool)
	assert.Equal(t, `"no\nJSON"`, string(all[1].Input))
}

// pen is a writer that can be told to fail, and that shows writes that overlap.
type pen struct {
	mu    sync.Mutex
	out   bytes.Buffer
	fails func(p []byte) (int, error)
	busy  bool
}

func (w *pen) Write(p []byte) (int, error) {
	w.mu.Lock()
	if w.busy {
		panic("two writes at once")
	}
	w.busy = true
	w.mu.Unlock()
	defer func() { w.mu.Lock(); w.busy = false; w.mu.Unlock() }()
	if w.fails != nil {
		n, err := w.fails(p)
		w.out.Write(p[:n])
		return n, err
	}
	return w.out.Write(p)
}

// A writer that fails changes nothing for the call, is told to the log, and the line after it is whole.
func TestAuditWriterFails(t *testing.T) {
	for name, fails := range map[string]func(p []byte) (int, error){
		"nothing": func([]byte) (int, error) { return 0, errors.New("disk full") },
		"half":    func(p []byte) (int, error) { return len(p) / 2, errors.New("disk full") },
		"silent":  func(p []byte) (int, error) { return len(p) / 2, nil },
		"panic":   func([]byte) (int, error) { panic("disk full") },
		"late":    func(p []byte) (int, error) { return len(p), errors.New("disk full") },
	} {
		t.Run(name, func(t *testing.T) {
			w, log := &pen{}, &bytes.Buffer{}
			p := pipeline.New(pipeline.Config{Log: slog.New(slog.NewTextHandler(log, nil))})
			defer p.Close()
			for _, m := range []pipeline.Plugin{made(t)(plugins.Audit(plugins.AuditConfig{Writer: w})), having(doing("t", fine))} {
				_, err := p.Mount(m)
				require.NoError(t, err)
			}
			call := func() { require.True(t, p.Execute(t.Context(), "t", json.RawMessage(`{}`)).IsOK()) }
			call()
			w.fails = fails
			call()
			call()
			w.fails = nil
			call()
			call()
			assert.Equal(t, 2, strings.Count(log.String(), "observer failed"), "%s", log.String())
			lines := strings.Split(strings.TrimSuffix(w.out.String(), "\n"), "\n")
			for _, whole := range []string{lines[0], lines[len(lines)-2], lines[len(lines)-1]} {
				assert.Len(t, records(t, whole), 1)
			}
		})
	}
}

// Lines of many calls at once do not mix.
// A log that panics costs no line.
func TestAuditLogPanics(t *testing.T) {
	var out, log bytes.Buffer
	config := pipeline.Config{Log: slog.New(slog.NewTextHandler(&log, nil))}
	p := pipeline.New(config)
	for _, plugin := range []pipeline.Plugin{
		made(t)(plugins.Audit(plugins.AuditConfig{Writer: &out, Log: slog.New(badHandler{slog.DiscardHandler})})), having(doing("t", fine, tool.Read)),
	} {
		_, err := p.Mount(plugin)
		require.NoError(t, err)
	}
	require.Equal(t, tool.OK, p.Execute(t.Context(), "t", json.RawMessage(`{}`)).Code)
	assert.Len(t, records(t, out.String()), 1)
	assert.Contains(t, log.String(), "audit record")
}

type badHandler struct{ slog.Handler }

func (badHandler) Enabled(context.Context, slog.Level) bool { return true }

func (badHandler) Handle(context.Context, slog.Record) error { panic("full") }

func TestAuditConcurrently(t *testing.T) {
	w := &pen{}
	p := mount(t, made(t)(plugins.Audit(plugins.AuditConfig{Writer: w})), having(doing("t", fine)))
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() { p.Execute(t.Context(), "t", json.RawMessage(`{}`)) })
	}
	all.Wait()
	ids := map[string]bool{}
	for _, r := range records(t, w.out.String()) {
		ids[r.Call] = true
		assert.NotNil(t, r.Duration)
	}
	assert.Len(t, ids, 64)
}

func TestAuditConfigErrors(t *testing.T) {
	for name, c := range map[string]plugins.AuditConfig{"none": {}, "nil": {Writer: (*bytes.Buffer)(nil)}} {
		_, err := plugins.Audit(c)
		assert.True(t, fault.IsConfig(err), "%s: %v", name, err)
	}
	made(t)(plugins.Audit(plugins.AuditConfig{Writer: io.Discard}))
}
