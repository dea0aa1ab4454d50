package protocol

import (
	"time"

	"github.com/assent-dev/assent/permission"
)

// HeaderTrace is the header in which telemetry hands on a Trace, as json/plain. Nothing depends on it.
const HeaderTrace = "assent-trace"

// Trace says under which span something is done. It holds no arguments and no words of people.
type Trace struct {
	// Parent is the span, as in a W3C traceparent, and State what its tracestate says.
	Parent string `json:"traceparent,omitempty"`
	State  string `json:"tracestate,omitempty"`
	// Span is the id of the agent's own span, and Began when the agent began, where a run continues as new.
	Span  string     `json:"span,omitempty"`
	Began *time.Time `json:"began,omitempty"`
	// Agent is the agent type, Verdict and DecidedBy what was decided on the call.
	Agent     string             `json:"agent,omitempty"`
	Verdict   permission.Verdict `json:"verdict,omitempty"`
	DecidedBy permission.Decider `json:"decidedBy,omitempty"`
}
