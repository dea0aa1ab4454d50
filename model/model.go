package model

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/assent-dev/assent/tool"
)

// Role says who speaks.
type Role string

// The roles of a transcript.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	// Tool messages carry results; there is exactly one result for each call of the assistant message before.
	Tool Role = "tool"
)

// Message is one entry of a transcript. JSON is its storage form.
type Message struct {
	Role    Role         `json:"role"`
	Text    string       `json:"text,omitempty"`
	Calls   []ToolCall   `json:"calls,omitempty"`
	Results []ToolResult `json:"results,omitempty"`
	// Opaque is provider data that must be sent back verbatim, such as thinking blocks.
	Opaque json.RawMessage `json:"opaque,omitempty"`
	// Summary is set on a message of the user that stands in the place of older turns.
	Summary *Summary `json:"summary,omitempty"`
}

// Summary says what a summary stands for.
type Summary struct {
	// Number counts the summaries of a conversation, from 1.
	Number int `json:"number"`
	// Turns and Messages are those of the whole conversation that it replaces, earlier summaries included.
	Turns    int `json:"turns"`
	Messages int `json:"messages"`
}

// ToolCall is one tool_use of a model. Input is kept as sent; it may be invalid JSON, then it is a JSON string in Raw.
type ToolCall struct {
	// ID is the provider's id; it need not be unique and is only sent back.
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input,omitempty"`
	// Raw holds arguments that are not valid JSON.
	Raw string `json:"raw,omitempty"`
}

// ToolResult answers one ToolCall.
type ToolResult struct {
	CallID string `json:"callId"`
	Name   string `json:"name"`
	// Result is the outcome; a ValueRef is resolved before a driver sees it.
	Result tool.Result `json:"result"`
}

// Spec is a tool as a model sees it.
type Spec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// Request asks for one turn.
type Request struct {
	// Model is the provider's name for the model, without the provider prefix.
	Model    string
	System   string
	Messages []Message
	// Tools is empty on a last turn without tools.
	Tools []Spec
	// MaxOutputTokens bounds the turn; zero lets the driver choose.
	MaxOutputTokens int
	// OutputSchema is the JSON Schema of the text of a turn without calls; a driver tells it to the model in the way that
	// its provider has for it. The engine checks the text.
	OutputSchema json.RawMessage
	// Summary is set when no turn is asked for but the text of a summary of what is in Messages.
	Summary *Summary
}

// Stop says why a turn ended.
type Stop string

// The stop reasons.
const (
	StopEnd       Stop = "end"
	StopToolUse   Stop = "tool_use"
	StopMaxTokens Stop = "max_tokens"
	StopRefusal   Stop = "refusal"
)

// Response is one turn.
type Response struct {
	Text   string          `json:"text,omitempty"`
	Calls  []ToolCall      `json:"calls,omitempty"`
	Stop   Stop            `json:"stop"`
	Usage  Usage           `json:"usage"`
	Opaque json.RawMessage `json:"opaque,omitempty"`
}

// Usage counts tokens. CachedInputTokens and CacheWriteTokens are parts of InputTokens: read from the provider's cache,
// and put into it.
type Usage struct {
	InputTokens       int64 `json:"inputTokens"`
	CachedInputTokens int64 `json:"cachedInputTokens,omitempty"`
	CacheWriteTokens  int64 `json:"cacheWriteTokens,omitempty"`
	OutputTokens      int64 `json:"outputTokens"`
}

// Add returns the sum.
func (u Usage) Add(o Usage) Usage {
	return Usage{u.InputTokens + o.InputTokens, u.CachedInputTokens + o.CachedInputTokens, u.CacheWriteTokens + o.CacheWriteTokens,
		u.OutputTokens + o.OutputTokens}
}

// Model is one provider's driver, bound to one endpoint. It makes one attempt and is safe for concurrent use.
type Model interface {
	Generate(ctx context.Context, r Request) (Response, error)
}

// Named is a Model that knows the names it serves, so that a wrong one is found at start.
type Named interface {
	// Knows returns nil, or a *fault.ConfigError that lists the names.
	Knows(name string) error
}

// Priced is a Model that knows what its own models cost. A worker's table goes before it.
type Priced interface {
	// Price returns what is known of a name; the zero value is nothing.
	Price(name string) Price
}

// KindTooLong is the kind of an error that says that the input does not fit into the model's context window.
const KindTooLong = "input_too_long"

// Error is a failed Generate.
type Error struct {
	// Kind is a short stable word, for example rate_limit, overloaded, bad_request, script_ended.
	Kind  string
	Msg   string
	Retry bool
	// After is the least time to wait before trying again; zero leaves it to the caller.
	After time.Duration
	// Begun says that the provider had taken the request and its answer broke off: it may charge for it.
	Begun bool
	Cause error
}

func (e *Error) Error() string {
	s := fmt.Sprintf("model: %s: %s", e.Kind, e.Msg)
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }
