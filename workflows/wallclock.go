package workflows

import (
	"go.temporal.io/sdk/workflow"
)

// wallClock returns the context of the run, which the wall clock cancels if the agent has one, and what stops both.
func (a *agent) wallClock(ctx workflow.Context) (_ workflow.Context, stop func()) {
	d := a.frozen.Limits.WallClock
	if d <= 0 {
		return ctx, func() {}
	}
	runCtx, stopRun := workflow.WithCancel(ctx)
	why := &cause{}
	runCtx = workflow.WithValue(runCtx, causeKey{}, why)
	timerCtx, stopTimer := workflow.WithCancel(ctx)
	left := max(d-workflow.Now(ctx).Sub(a.started), 0)
	workflow.GoNamed(timerCtx, "wall clock", func(ctx workflow.Context) {
		if rang(workflow.NewTimerWithOptions(ctx, left, workflow.TimerOptions{Summary: "wall clock"}).Get(ctx, nil)) {
			why.text = errWallClock.Error()
			stopRun()
		}
	})
	return runCtx, func() {
		stopTimer()
		stopRun()
	}
}
