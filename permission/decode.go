package permission

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/assent-dev/assent/fault"
)

// decodeStrict decodes a JSON object into v and refuses any member but the allowed ones, a repeated member and a
// null. encoding/json alone would take the last of two members, and `Tool` for `tool`.
func decodeStrict(b []byte, what string, v any, allowed ...string) error {
	seen := map[string]bool{}
	err := members(b, func(key string, value json.RawMessage) error {
		switch {
		case !slices.Contains(allowed, key):
			e := fault.Configf(what, "unknown key %q", key)
			e.Allowed = allowed
			return e
		case seen[key]:
			return fault.Configf(what, "key %q stands twice", key)
		case string(value) == "null":
			return fault.Configf(what, "key %q is null", key)
		}
		seen[key] = true
		return nil
	})
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err == nil || fault.IsConfig(err) {
		return err
	}
	bad := fault.Configf(what, "cannot be decoded")
	bad.Cause = err
	return bad
}

// errNotObject reports JSON that is not one object.
var errNotObject = errors.New("not a JSON object")

// members calls visit for each member of a JSON object in the order written, repeated ones included, and stops at
// the first error.
func members(b []byte, visit func(key string, value json.RawMessage) error) error {
	if !json.Valid(b) {
		return errNotObject
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if first, _ := dec.Token(); first != json.Delim('{') {
		return errNotObject
	}
	for dec.More() {
		key, _ := dec.Token() // valid JSON has a string here
		var value json.RawMessage
		_ = dec.Decode(&value)
		if err := visit(key.(string), value); err != nil {
			return err
		}
	}
	return nil
}
