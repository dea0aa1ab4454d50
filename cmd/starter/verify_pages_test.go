package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// renamed is a recorded history under another workflow id and run id, and with other text wherever it stands.
func renamed(t *testing.T, name string, replace ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(recorded(t), name+".json"))
	require.NoError(t, err)
	var h map[string]any
	require.NoError(t, json.Unmarshal(text, &h))
	started := h["events"].([]any)[0].(map[string]any)["workflowExecutionStartedEventAttributes"].(map[string]any)
	r := strings.NewReplacer(append([]string{started["workflowId"].(string), "fix-1", started["originalExecutionRunId"].(string), "01a2306a-6cfc"}, replace...)...)
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k, member := range v {
				if s, ok := member.(string); ok && k == "data" {
					v[k] = encodeBase64(r.Replace(decodeBase64(t, s)))
				} else {
					v[k] = walk(member)
				}
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case string:
			return r.Replace(v)
		}
		return v
	}
	text, err = json.Marshal(walk(h))
	require.NoError(t, err)
	return text
}

// The commands of docs/operators.md that read histories print what stands below them.
func TestHistoryPage(t *testing.T) {
	path, err := filepath.Abs(filepath.Join("..", "..", "docs", "operators.md"))
	require.NoError(t, err)
	dir := t.TempDir()
	for name, text := range map[string][]byte{
		"fix-1.json": renamed(t, "parallel-questions"),
		// The one byte is in the scheduled call alone.
		"forged.json": renamed(t, "parallel-questions", `{"input":{"text":"c"},"contractHash"`, `{"input":{"text":"d"},"contractHash"`),
		"policy.yaml": []byte("engine:\n  deny: [{tool: look, reason: not any more}]\nprofiles:\n  p: {tools: [files], permissions: {preset: standard}}\n"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	// A finding is no error of the page.
	require.Equal(t, 3, tellsPage(t, path, dir, true))
}
