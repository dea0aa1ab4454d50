package protocol

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Argument is one argument of a team's own activity, workflow or operation as it is judged, from its payload's encoding
// and data. What is not JSON, such as bytes or binary protobuf, is named by its hash: rules about the tool hold, and an
// approval is for exactly these bytes.
func Argument(encoding string, data []byte) json.RawMessage {
	switch {
	case encoding == "binary/null":
		return json.RawMessage("null")
	case encoding != "binary/plain" && json.Valid(data):
		return data
	}
	sum := sha256.Sum256(data)
	out, _ := json.Marshal(map[string]any{"$binary": map[string]any{
		"encoding": encoding, "bytes": len(data), "sha256": hex.EncodeToString(sum[:])}})
	return out
}

// Input is what is judged of a call with these arguments: the only one, if it is an object, else {"args": […]}.
func Input(arguments []json.RawMessage) (json.RawMessage, error) {
	if len(arguments) == 1 && bytes.HasPrefix(bytes.TrimSpace(arguments[0]), []byte("{")) {
		return arguments[0], nil
	}
	if arguments == nil {
		arguments = []json.RawMessage{}
	}
	return json.Marshal(map[string]any{"args": arguments})
}
