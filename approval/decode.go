package approval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxAnswer is the largest answer that is looked at, in bytes.
const MaxAnswer = 64 << 10

// DecodeError reports an answer that names no question, with the reason for people.
type DecodeError struct {
	Why string
	// Key is set when the answer names a key that is not pending, and By when it also says who gave it.
	Key, By string
}

func (e *DecodeError) Error() string { return "answer ignored: " + e.Why }

// Decode reads what a person or service sent as a signal, given the keys of the open questions in order of asking, and
// the keys of allowed calls that have not ended: see Ledger.Asked and Ledger.Standing. It forgives form: a bare "allow"
// or "deny", an object, or a JSON string that holds either. It fails closed in substance: what names a key without
// explicitly allowing it denies it, and what names none is a *DecodeError and changes nothing. data nil means that no
// argument came.
func Decode(data []byte, pending, standing []string) ([]Resolution, error) {
	switch {
	case len(data) == 0:
		return nil, &DecodeError{Why: "it is empty"}
	case len(data) > MaxAnswer:
		return nil, &DecodeError{Why: fmt.Sprintf("it has %d bytes, at most %d are read", len(data), MaxAnswer)}
	case !utf8.Valid(data):
		return nil, &DecodeError{Why: "it is not UTF-8 text"}
	}
	// A UI or a shell quoting slip sends the object as a JSON string; one level is unwrapped.
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '"' {
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return nil, &DecodeError{Why: "it is not JSON"}
		}
		if inner := strings.TrimSpace(s); strings.HasPrefix(inner, "{") {
			data = []byte(inner)
		} else {
			return bare(inner, pending)
		}
	}
	if len(data) == 0 || data[0] != '{' {
		return nil, &DecodeError{Why: "it is no object with a key and a decision"}
	}
	return object(data, pending, standing)
}

// bare reads the word allow or deny without a key.
func bare(word string, pending []string) ([]Resolution, error) {
	switch {
	case word == string(Allow) && len(pending) == 1:
		return []Resolution{{Key: pending[0], Decision: Allow}}, nil
	case word == string(Allow):
		return nil, &DecodeError{Why: fmt.Sprintf("a bare allow needs exactly one pending question, there are %d", len(pending))}
	case word == string(Deny) && len(pending) == 0:
		return nil, &DecodeError{Why: "nothing is pending"}
	case word == string(Deny):
		all := make([]Resolution, len(pending))
		for i, k := range pending {
			all[i] = Resolution{Key: k, Decision: Deny}
		}
		return all, nil
	}
	return nil, &DecodeError{Why: fmt.Sprintf("the word %s is neither allow nor deny", quote(word))}
}

// object reads an answer object. Its members are read one by one, so that a wrong type in one of them cannot
// hide the key: an answer that names a pending key and is not well formed denies it.
func object(data []byte, pending, standing []string) ([]Resolution, error) {
	members, dup, err := exactMembers(data)
	if err != nil {
		return nil, &DecodeError{Why: "it is not valid JSON"}
	}
	var key string
	if raw, ok := members["key"]; !ok || json.Unmarshal(raw, &key) != nil || key == "" {
		return nil, &DecodeError{Why: "it names no key"}
	}
	var by string
	if json.Unmarshal(members["by"], &by) != nil {
		by = "" // it names nobody
	}
	if !slices.Contains(pending, key) && !slices.Contains(standing, key) {
		return nil, &DecodeError{Why: fmt.Sprintf("the key %s is not pending", quote(key)), Key: key, By: by}
	}
	if dup != "" {
		return []Resolution{malformed(key, by, fmt.Sprintf("the member %s appears twice", quote(dup)))}, nil
	}
	r, why := strict(members)
	if why != "" {
		return []Resolution{malformed(key, by, why)}, nil
	}
	return []Resolution{r}, nil
}

// malformed is the deny that an unreadable answer to a pending question becomes.
func malformed(key, by, why string) Resolution {
	return Resolution{Key: key, Decision: Deny, By: by, Reason: "malformed answer: " + why}
}

// Parse reads one well-formed answer and refuses everything else, for callers that can be told at once.
func Parse(data []byte) (Resolution, error) {
	if len(data) > MaxAnswer {
		return Resolution{}, &DecodeError{Why: fmt.Sprintf("it has %d bytes, at most %d are read", len(data), MaxAnswer)}
	}
	if !utf8.Valid(data) {
		return Resolution{}, &DecodeError{Why: "it is not UTF-8 text"}
	}
	members, dup, err := exactMembers(data)
	if err != nil {
		return Resolution{}, &DecodeError{Why: "it is no JSON object"}
	}
	if dup != "" {
		return Resolution{}, &DecodeError{Why: fmt.Sprintf("the member %s appears twice", quote(dup))}
	}
	r, why := strict(members)
	if why != "" {
		return Resolution{}, &DecodeError{Why: why}
	}
	return r, nil
}

// strict decodes members by their exact names and types; why is empty when all is well.
func strict(members map[string]json.RawMessage) (r Resolution, why string) {
	fields := map[string]any{"key": &r.Key, "decision": &r.Decision, "reason": &r.Reason, "by": &r.By,
		"always": &r.Always, "signature": &r.Signature}
	// A fixed order keeps the message the same on every replay.
	for _, name := range []string{"key", "decision", "reason", "by", "always", "signature"} {
		raw, ok := members[name]
		if !ok {
			continue
		}
		if err := json.Unmarshal(raw, fields[name]); err != nil {
			return r, fmt.Sprintf("the member %q has the wrong type", name)
		}
	}
	if raw, ok := members["input"]; ok && string(raw) != "null" {
		r.Input = raw
	}
	if raw, ok := members["expiresAt"]; ok && string(raw) != "null" {
		var t time.Time
		if err := json.Unmarshal(raw, &t); err != nil {
			return r, "expiresAt is no RFC 3339 time"
		}
		r.ExpiresAt = &t
	}
	if r.Key == "" {
		return r, "it names no key"
	}
	switch r.Decision {
	case Allow, Deny, Revoke:
		return r, ""
	case "":
		return r, "it has no decision"
	}
	return r, fmt.Sprintf("the decision %s is none of allow, deny, revoke", quote(string(r.Decision)))
}

// exactMembers splits an object into its members by exact name: encoding/json alone would take KEY for key and
// the last of two. dup names a member that appears twice.
func exactMembers(data []byte) (members map[string]json.RawMessage, dup string, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	tok, err := dec.Token()
	if err != nil {
		return nil, "", err
	}
	if tok != json.Delim('{') {
		return nil, "", errors.New("not an object")
	}
	members = map[string]json.RawMessage{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, "", err
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, "", err
		}
		n := name.(string)
		if _, seen := members[n]; seen && dup == "" {
			dup = n
		}
		members[n] = raw
	}
	if _, err := dec.Token(); err != nil {
		return nil, "", err
	}
	// Not dec.More: it takes a closing bracket too many for the end.
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, "", errors.New("data after the object")
	}
	return members, dup, nil
}

// quote shows foreign text on one line, escaped and shortened.
func quote(s string) string {
	const most = 64
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return fmt.Sprintf("%+q", s)
}
