package model

import "context"

// Streamer is a Model that tells what it says while it says it.
type Streamer interface {
	Model
	// Stream is Generate, and calls progress for each piece in order, from the goroutine of the caller. What progress was told
	// counts for nothing: the Response holds all of it, and after an error the next attempt begins anew. Progress must not block
	// for long.
	Stream(ctx context.Context, r Request, progress func(Delta)) (Response, error)
}

// Delta is a piece of a turn that is being said. Exactly one field is set.
type Delta struct {
	// Text is appended to the text so far.
	Text string `json:"text,omitempty"`
	// Thinking is appended to what the model shows of its reasoning. It is for people who watch and is in no Response.
	Thinking string     `json:"thinking,omitempty"`
	Call     *CallDelta `json:"call,omitempty"`
}

// CallDelta is a piece of a call's arguments.
type CallDelta struct {
	// Index counts the calls of the turn, from 0.
	Index int    `json:"index"`
	Name  string `json:"name,omitempty"`
	// Input is appended to the text of the arguments so far; it is empty when a call begins.
	Input string `json:"input,omitempty"`
}

// Stream asks m, and tells progress what it says meanwhile if m can do that and progress is not nil.
func Stream(ctx context.Context, m Model, r Request, progress func(Delta)) (Response, error) {
	if s, ok := m.(Streamer); ok && progress != nil {
		return s.Stream(ctx, r, progress)
	}
	return m.Generate(ctx, r)
}
