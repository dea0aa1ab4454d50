package protocol

import (
	"regexp"

	"github.com/assent-dev/assent/internal/canonjson"
)

var notInToolNames = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// ToolName is the name by which rules, keys and results know an activity type, workflow type or operation: itself, when
// a tool can have that name. Otherwise each character that no tool name has becomes "_"; of a name over 64 characters the
// first 55 stay, with "-" and 8 hex digits of its SHA-256.
func ToolName(name string) string {
	clean := notInToolNames.ReplaceAllString(name, "_")
	const most, head = 64, 55
	if len(clean) > most {
		clean = clean[:head] + "-" + canonjson.SHA256([]byte(name))[:most-head-1]
	}
	return clean
}
