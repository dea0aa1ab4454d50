package follow

import (
	"context"
	"errors"
	"iter"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/storage"
)

// Options say how a history is read.
type Options struct {
	// Wait goes on after the events that are there, until the run has ended.
	Wait bool
	// Converter is the team's data converter; nil means the SDK's default.
	Converter converter.DataConverter
	// Drivers are those of the team's external storage: they have the payloads that were offloaded. Of what lies with
	// another driver a Problem tells.
	Drivers []converter.StorageDriver
	// Patience is how long a server that went away is waited for; zero means 30 s.
	Patience time.Duration
}

const (
	defaultPatience = 30 * time.Second
	pause           = time.Second
)

// Follow yields the events of a run; an empty run id means the latest. It goes on with the run that a run was
// continued as or reset to. After an error it yields nothing more. The end of ctx is such an error.
func Follow(ctx context.Context, c client.Client, workflowID, runID string, o Options) iter.Seq2[Event, error] {
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	return func(yield func(Event, error) bool) {
		f := &follower{client: storage.Reading(c, o.Drivers...), options: o, workflowID: workflowID, run: runID, yield: yield}
		if err := f.all(ctx); err != nil && !errors.Is(err, errStopped) {
			yield(Event{}, err)
		}
	}
}

// errStopped says that the caller wants no more events.
var errStopped = errors.New("stopped")

// follower reads one run after the other.
type follower struct {
	client     client.Client
	options    Options
	workflowID string
	reader     *Reader
	yield      func(Event, error) bool
	// run is the run being read and last its last event; a read that was cut short begins again behind it.
	run  string
	last int64
	// quiet is set while a reset history is read up to the point of the reset: its events were told before.
	quiet bool
}

func (f *follower) all(ctx context.Context) error {
	// The latest run is held on to: a later one of the same id is another agent.
	now, err := f.client.DescribeWorkflow(ctx, f.workflowID, f.run)
	if err != nil {
		return err
	}
	f.run = now.RawResponse.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	f.reader = NewReader(f.workflowID, f.run, f.options.Converter)
	for {
		end, err := f.history(ctx)
		if err != nil || end == nil {
			return err
		}
		next, reset, err := f.after(ctx, end)
		if err != nil {
			return err
		}
		if next == "" {
			return f.tell(f.reader.Read(end))
		}
		if reset {
			f.reader, f.quiet = NewReader(f.workflowID, next, f.options.Converter), true
		} else {
			err = f.tell(f.reader.Read(end))
			f.reader.runID = next
		}
		if err != nil {
			return err
		}
		f.run, f.last = next, 0
	}
}

// history reads one run and returns its closing event, or nil if the run goes on and nobody waits for more.
func (f *follower) history(ctx context.Context) (*historypb.HistoryEvent, error) {
	var since time.Time
	for {
		before := f.last
		end, err := f.read(ctx)
		if err == nil || ctx.Err() != nil || !f.options.Wait || !passing(err) {
			return end, err
		}
		// A server that restarts is waited for; what was told is not told again.
		if f.last > before || since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) > f.options.Patience {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// passing reports errors of a server that may come back.
func passing(err error) bool {
	var gone *serviceerror.Unavailable
	var late *serviceerror.DeadlineExceeded
	return errors.As(err, &gone) || errors.As(err, &late)
}

func (f *follower) read(ctx context.Context) (*historypb.HistoryEvent, error) {
	it := f.client.GetWorkflowHistory(ctx, f.workflowID, f.run, f.options.Wait, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	var closing *historypb.HistoryEvent
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return nil, err
		}
		if e.GetEventId() <= f.last {
			continue
		}
		f.last = e.GetEventId()
		if closes(e) {
			closing = e
			continue
		}
		if err := f.tell(f.reader.Read(e)); err != nil {
			return nil, err
		}
	}
	if closing == nil {
		return nil, f.tell(f.reader.Flush())
	}
	return closing, nil
}

// tell yields events, unless they were told before.
func (f *follower) tell(events []Event) error {
	for _, e := range events {
		if e.Kind == Reset {
			f.quiet = false
		}
		if f.quiet {
			continue
		}
		if !f.yield(e, nil) {
			return errStopped
		}
	}
	return nil
}

// after returns the run that goes on where a run ended, and whether that is because of a reset.
func (f *follower) after(ctx context.Context, end *historypb.HistoryEvent) (run string, reset bool, err error) {
	if a := end.GetWorkflowExecutionContinuedAsNewEventAttributes(); a != nil {
		return a.GetNewExecutionRunId(), false, nil
	}
	if end.GetEventType() != enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED {
		return "", false, nil
	}
	// A reset terminates the run it starts from. The new run has the same original run id; a new agent under the
	// same workflow id has not.
	latest, err := f.client.DescribeWorkflow(ctx, f.workflowID, "")
	if err != nil {
		return "", false, err
	}
	id := latest.RawResponse.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	if id == f.run || id == "" {
		return "", false, nil
	}
	it := f.client.GetWorkflowHistory(ctx, f.workflowID, id, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	if !it.HasNext() {
		return "", false, nil
	}
	first, err := it.Next()
	if err != nil {
		return "", false, err
	}
	if first.GetWorkflowExecutionStartedEventAttributes().GetOriginalExecutionRunId() != f.reader.originalRun {
		return "", false, nil
	}
	return id, true, nil
}

func closes(e *historypb.HistoryEvent) bool {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		return true
	}
	return false
}
