package protocol

// SpeechTail is the most bytes of a text that a Speech carries; what was said before is in the one before, or in the turn.
const SpeechTail = 4 << 10

// Speech is what a model has said so far in a turn that goes on: the second detail of Generate's heartbeats, after the US
// dollars at risk. It is in no history and the next heartbeat replaces it. Generate makes it, whoever follows a run reads it.
type Speech struct {
	// Turn counts from 1, Attempt those of the activity from 1, and Request those of the attempt from 1. A later request begins
	// anew: what an earlier one said counts for nothing.
	Turn    int    `json:"turn"`
	Attempt int    `json:"attempt"`
	Request int    `json:"request"`
	Model   string `json:"model"`
	// Summary says that the model summarises older turns; the turn comes after that.
	Summary bool `json:"summary,omitempty"`
	// Text is what it says, Thinking what it shows of its reasoning.
	Text     *SpeechText `json:"text,omitempty"`
	Thinking *SpeechText `json:"thinking,omitempty"`
	// Calls are those that it writes, of which the last one may not be whole; at most MaxCallsPerTurn.
	Calls []SpeechCall `json:"calls,omitempty"`
}

// SpeechText is a text that grows.
type SpeechText struct {
	// Bytes is the length so far, Tail the end of it: at most SpeechTail bytes, of whole characters.
	Bytes int64  `json:"bytes"`
	Tail  string `json:"tail"`
}

// SpeechCall is a call whose arguments are being written.
type SpeechCall struct {
	Name string `json:"name"`
	// Bytes is the length of the arguments so far.
	Bytes int64 `json:"bytes"`
}
