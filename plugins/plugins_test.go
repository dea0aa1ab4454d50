package plugins_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/plugins"
	"github.com/assent-dev/assent/tool"
)

// Every plugin is undone with its scope, rolled back when mounting goes wrong, and can be mounted again.
func TestScopesUndoEverything(t *testing.T) {
	var counts plugins.Counts
	var out bytes.Buffer
	for name, plugin := range map[string]pipeline.Plugin{
		"retry":   made(t)(plugins.Retry(plugins.RetryConfig{Log: discard})),
		"metrics": made(t)(plugins.Metrics(plugins.MetricsConfig{Recorder: &counts})),
		"redact":  made(t)(plugins.Redact(plugins.RedactConfig{})),
		"audit":   made(t)(plugins.Audit(plugins.AuditConfig{Writer: &out})),
		"loop":    made(t)(plugins.Loop(plugins.LoopConfig{Calls: 2})),
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, name, plugin.Name())
			p := mount(t, having(doing("t", fine)))
			for range 2 {
				counts, out = plugins.Counts{}, bytes.Buffer{}
				scope, err := p.Mount(plugin)
				require.NoError(t, err)
				require.True(t, p.Execute(t.Context(), "t", json.RawMessage(`{}`)).IsOK())
				scope.Close()
				said := counts.String() + out.String()
				for range 3 {
					require.True(t, p.Execute(t.Context(), "t", json.RawMessage(`{}`)).IsOK())
				}
				assert.Equal(t, said, counts.String()+out.String(), "an unmounted plugin is silent")
				assert.False(t, p.HasObservers())
			}
			_, err := p.Mount(pipeline.PluginFunc("failing", func(s *pipeline.Scope) error {
				return errors.Join(plugin.Mount(s), errors.New("not this time"))
			}))
			require.Error(t, err)
			assert.False(t, p.HasObservers())
			p.Close()
			_, err = p.Mount(plugin)
			require.ErrorAs(t, err, new(*pipeline.ClosedError))
		})
	}
}

// All of them together, in the order that the package describes.
func TestAllTogether(t *testing.T) {
	var counts plugins.Counts
	var out bytes.Buffer
	n := 0
	p := mount(t,
		made(t)(plugins.Redact(plugins.RedactConfig{})), made(t)(plugins.Loop(plugins.LoopConfig{Calls: 2})),
		made(t)(plugins.Metrics(plugins.MetricsConfig{Recorder: &counts})), made(t)(plugins.Audit(plugins.AuditConfig{Writer: &out})),
		made(t)(plugins.Retry(plugins.RetryConfig{Backoff: 1, Log: discard})), pipeline.Timeout(), pipeline.Readonly(),
		having(failingOnce(&n)))
	first := p.Execute(t.Context(), "t", json.RawMessage(`{"try":1}`))
	assert.Equal(t, tool.Result{Code: tool.OK, Value: json.RawMessage(`"password=[redacted:password]"`)}, first)
	assert.Equal(t, 2, n)
	assert.Equal(t, tool.Denied, p.Execute(t.Context(), "t", json.RawMessage(`{"try":1}`)).Code)
	assert.EqualValues(t, 1, counts.Value(plugins.MetricExecutions, plugins.Labels{Tool: "t"}))
	assert.EqualValues(t, 1, counts.Value(plugins.MetricResults, plugins.Labels{Tool: "t", Code: tool.Denied}))
	all := records(t, out.String())
	require.Len(t, all, 2)
	assert.Equal(t, []any{tool.OK, tool.Denied, tool.ByListener, "loop"}, []any{all[0].Code, all[1].Code, all[1].Reason, all[1].By})
}
