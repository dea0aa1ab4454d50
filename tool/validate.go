package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/assent-dev/assent/internal/canonjson"
)

// Validate returns every reason why input cannot be the arguments of the tool, or nil: it is not exactly one
// JSON object, has duplicate keys, does not fit the schema or the tool's own validation. Each Issue has the JSON
// pointer of the place. It has no effects.
func (d *Def) Validate(input json.RawMessage) []Issue {
	_, issues := d.accept(input)
	return issues
}

// accept returns the canonical arguments with defaults filled in, or what is wrong with them.
func (d *Def) accept(input json.RawMessage) (json.RawMessage, []Issue) {
	canonical, err := canonjson.Canonical(input)
	if err != nil {
		return nil, jsonIssues(err)
	}
	if canonical[0] != '{' {
		return nil, []Issue{{Message: "arguments must be one JSON object"}}
	}
	if d.defaults != nil {
		if canonical, err = d.defaults.fill(canonical); err != nil {
			return nil, jsonIssues(err)
		}
	}
	if issues := d.schema.validate(canonical); issues != nil {
		return nil, issues
	}
	if d.check == nil {
		return canonical, nil
	}
	if issues := guarded(func() []Issue { return d.check(input, canonical) }); issues != nil {
		return nil, issues
	}
	return canonical, nil
}

// guarded turns a panic of foreign code, a validate function or an UnmarshalJSON, into an Issue.
func guarded(check func() []Issue) (issues []Issue) {
	defer func() {
		if p := recover(); p != nil {
			issues = []Issue{{Message: bounded(fmt.Sprintf("the value cannot be checked: %v", p))}}
		}
	}()
	return check()
}

// jsonIssues turns an error of canonjson into an Issue.
func jsonIssues(err error) []Issue {
	var bad *canonjson.Error
	if !errors.As(err, &bad) {
		return []Issue{{Message: err.Error()}}
	}
	text := fmt.Sprintf("%v at byte %d", bad.Err, bad.Offset)
	if bad.Detail != "" {
		text += ": " + bad.Detail
	}
	return []Issue{{Pointer: shortened(bad.Pointer), Message: text}}
}

// maxJoined bounds how many joined errors are looked at; an error may join itself.
const maxJoined = 10_000

// issuesOf lists the errors that err joins, or err itself.
func issuesOf(err error) []Issue {
	var issues []Issue
	left, more := maxJoined, 0
	var visit func(err error)
	visit = func(err error) {
		joined, ok := err.(interface{ Unwrap() []error })
		if left--; ok && left > 0 {
			parts := joined.Unwrap()
			for _, part := range parts {
				visit(part)
			}
			if len(parts) > 0 {
				return
			}
		}
		if len(issues) == maxIssues {
			more++
			return
		}
		issues = append(issues, Issue{Message: shortened(message(err))})
	}
	if err != nil {
		visit(err)
	}
	return atMost(issues, more)
}

// decodeIssues turns the error of decoding arguments that fit their schema into Issues: a number beyond its Go
// type, bytes that are not base64, or what a type's own UnmarshalJSON refuses.
func decodeIssues(err error) []Issue {
	if err == nil {
		return nil
	}
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) {
		return []Issue{{Message: shortened(message(err))}}
	}
	pointer := ""
	if mismatch.Field != "" {
		pointer = "/" + strings.ReplaceAll(mismatch.Field, ".", "/")
	}
	return []Issue{{Pointer: pointer, Message: fmt.Sprintf("%s does not fit %s", mismatch.Value, mismatch.Type)}}
}
