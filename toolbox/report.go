package toolbox

import (
	"context"

	"github.com/assent-dev/assent/tool"
)

// Escalation is what an agent says when it cannot or should not go on. It is the argument of escalate; the agent
// workflow ends the agent with it.
type Escalation struct {
	Kind            string    `json:"kind" jsonschema:"enum=scope_bigger,enum=scope_different,enum=blocked" jsonschema_description:"the task is bigger than planned, is another one than planned, or cannot go on"`
	Summary         string    `json:"summary" jsonschema:"minLength=1" jsonschema_description:"what was found, in a few sentences"`
	Blockers        []string  `json:"blockers,omitempty" jsonschema_description:"what stands in the way"`
	RevisedEstimate *Estimate `json:"revisedEstimate,omitempty" jsonschema_description:"what the whole task would take"`
}

// Estimate is what a task is thought to take.
type Estimate struct {
	USD   float64 `json:"usd,omitempty" jsonschema:"minimum=0" jsonschema_description:"cost in US dollars"`
	Turns int     `json:"turns,omitempty" jsonschema:"minimum=0" jsonschema_description:"number of turns"`
}

// Progress is what an agent has so far. It is the argument of report_progress; the agent workflow returns the last
// one as a partial result when a limit ends the agent.
type Progress struct {
	Facts     []string `json:"facts,omitempty" jsonschema_description:"what is established"`
	Evidence  []string `json:"evidence,omitempty" jsonschema_description:"where it can be seen: files, lines, commands and their output"`
	Questions []string `json:"questions,omitempty" jsonschema_description:"what is open"`
	Note      string   `json:"note,omitempty" jsonschema_description:"anything else, in a sentence"`
}

// Escalated is the result of escalate.
type Escalated struct {
	Escalated bool `json:"escalated"`
	Escalation
}

// Reported is the result of report_progress.
type Reported struct {
	Reported bool `json:"reported"`
	Progress
}

// Escalate returns the tool escalate. It has no effect of its own.
func Escalate() *tool.Def {
	return tool.MustNew("escalate",
		"Stop working and hand the task back, because it is bigger or another one than planned, or because something blocks it. "+
			"This ends your work; nothing after it is done.",
		func(_ context.Context, _ *tool.Context, in Escalation) (Escalated, error) {
			return Escalated{Escalated: true, Escalation: in}, nil
		}, tool.Read, tool.Concurrent(false))
}

// ReportProgress returns the tool report_progress. It has no effect of its own.
func ReportProgress() *tool.Def {
	return tool.MustNew("report_progress",
		"Record what you know so far. It is what remains of your work if a limit ends it, so report whenever you have learned something.",
		func(_ context.Context, _ *tool.Context, in Progress) (Reported, error) {
			return Reported{Reported: true, Progress: in}, nil
		}, tool.Read, tool.Concurrent(false))
}
