package approval

import (
	"encoding/json"
	"fmt"

	"github.com/assent-dev/assent/internal/canonjson"
)

// ContentKey is the lower-case hex SHA-256 of the canonical JSON of {input, kind: "approval", toolName}.
func ContentKey(toolName string, input json.RawMessage) (string, error) {
	if len(input) == 0 {
		input = json.RawMessage("null")
	}
	raw, err := json.Marshal(struct {
		Input    json.RawMessage `json:"input"`
		Kind     string          `json:"kind"`
		ToolName string          `json:"toolName"`
	}{input, "approval", toolName})
	if err != nil {
		return "", fmt.Errorf("content key of %q: %w", toolName, err)
	}
	canonical, err := canonjson.Canonical(raw)
	if err != nil {
		return "", fmt.Errorf("content key of %q: %w", toolName, err)
	}
	return canonjson.SHA256(canonical), nil
}

// InRun is the content key that a run begun anew by the server uses instead of contentKey. It knows nothing of the keys of
// the run before, and must not give one of them again: an answer that comes late is for that run.
func InRun(contentKey, runID string) string {
	return canonjson.SHA256([]byte(contentKey + "\n" + runID))
}

const (
	keyHex     = 8
	keyHexStep = 4
)

// issue returns the next key for a content key and remembers it: `tool-1a2b3c4d`, `.2` for the second question
// about the same call, more digits when another call has the same first ones.
func (l *Ledger) issue(toolName, contentKey string) string {
	n := min(keyHex, len(contentKey)) // it is recorded, and a workflow must not panic on what a worker recorded
	stem := toolName + "-" + contentKey[:n]
	for {
		owner, taken := l.stems[stem]
		if !taken || owner == contentKey || n >= len(contentKey) {
			break
		}
		n = min(n+keyHexStep, len(contentKey))
		stem = toolName + "-" + contentKey[:n]
	}
	if l.issued[stem] == 0 {
		l.order = append(l.order, stem)
	}
	l.stems[stem] = contentKey
	l.issued[stem]++
	if k := l.issued[stem]; k > 1 {
		return fmt.Sprintf("%s.%d", stem, k)
	}
	return stem
}
