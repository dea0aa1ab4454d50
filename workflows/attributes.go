package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/protocol"
)

// attributes is what a run knows of its namespace's search attributes. Writing one that the namespace does not have fails
// the workflow task, so what was known is taken for granted only for a while: a task that is tried again comes to doubt it.
type attributes struct {
	// has is the last answer, since when it was given, and asking says that the next one is on its way.
	has, asking bool
	since       time.Time
	// ask starts the local activity that asks anew; nil never doubts.
	ask func(workflow.Context) workflow.Future
}

// attributesHold is how long an answer is taken for granted.
const attributesHold = 20 * time.Second

// learn notes an answer that came with something else; nil says nothing.
func (a *attributes) learn(ctx workflow.Context, has *bool) {
	if has != nil {
		a.has, a.since = *has, workflow.Now(ctx)
	}
}

func (a *attributes) doubtful(ctx workflow.Context) bool {
	return a.has && a.ask != nil && workflow.Now(ctx).Sub(a.since) > attributesHold
}

// sure asks anew. It blocks for a moment, also in a context that was cancelled.
func (a *attributes) sure(ctx workflow.Context) {
	ctx, stop := workflow.NewDisconnectedContext(ctx)
	defer stop()
	if a.asking {
		// The context is never cancelled.
		_ = workflow.Await(ctx, func() bool { return !a.asking })
		return
	}
	a.asking = true
	var now protocol.AttributesResponse
	if err := recorded(ctx, a.ask(ctx), &now); err != nil {
		workflow.GetLogger(ctx).Warn("assent: not known whether search attributes can be written", "error", err)
	}
	a.asking = false
	a.learn(ctx, &now.Attributes)
}
