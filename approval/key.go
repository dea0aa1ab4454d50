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
		given := l.stem(stem)
		if given == nil {
			l.issued = append(l.issued, Issued{Stem: stem, ContentKey: contentKey, Count: 1})
			return stem
		}
		if given.ContentKey == contentKey || n >= len(contentKey) {
			given.ContentKey = contentKey
			given.Count++
			return fmt.Sprintf("%s.%d", stem, given.Count)
		}
		n = min(n+keyHexStep, len(contentKey))
		stem = toolName + "-" + contentKey[:n]
	}
}

// stem returns the record of a stem; nil if it was never given.
func (l *Ledger) stem(stem string) *Issued {
	for i := range l.issued {
		if l.issued[i].Stem == stem {
			return &l.issued[i]
		}
	}
	return nil
}
