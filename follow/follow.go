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

	"github.com/assent-dev/assent/internal/history"
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
	// Children follows the agents that the run starts, and theirs, as well; a Feed alone can. Their events come between those
	// of the run, told apart by WorkflowID.
	Children bool
	// Live tells what a model says while it says it, as Said events; a Feed that waits alone can. They come from the server's
	// pending activities, twice a second at most, and not from history: a feed that begins late gets the end of what was said.
	Live bool
	// FromFirst begins with the first run of those that continued each other as new, and not with the one that was asked for.
	// A run that the server has no more is left out.
	FromFirst bool
}

const (
	defaultPatience = 30 * time.Second
	pause           = time.Second
)

// Follow yields the events of a run; an empty run id means the latest. It goes on with the run that a run was
// continued as or reset to. After an error it yields nothing more. The end of ctx is such an error.
func Follow(ctx context.Context, c client.Client, workflowID, runID string, o Options) iter.Seq2[Event, error] {
	o.Live = false
	return func(yield func(Event, error) bool) {
		f, err := find(ctx, c, workflowID, runID, o)
		if err == nil {
			err = f.all(ctx, func(e Event) bool { return yield(e, nil) })
		}
		if err != nil && !errors.Is(err, errStopped) {
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
	yield      func(Event) bool
	// run is the run being read and seen its events until now; a read that was cut short begins again behind them.
	run  string
	seen history.Seen
	// told counts what was told of the run, and now what its present reader has told or left out: after the server took an
	// event back, the run is read anew. resets are those of the runs before.
	told, now map[about]int
	resets    map[about]bool
	// live tells what is being said; nil if nobody wants that.
	live *live
	// quiet is set while a reset history is read up to the point of the reset: its events were told before. again says that
	// the run is a reset one.
	quiet, again bool
	// since is when the run began that the reset has ended: a reset from before is no news.
	since time.Time
	// begun says that the first event of the run was read. No rewriting takes that back, and a new reader would tell of what
	// the run took over from the one before.
	begun bool
}

// about knows an event of a run again, in another run that was reset from it too.
type about struct {
	kind   Kind
	id, at int64
}

// find looks the run up. The latest one is held on to: a later one of the same id is another agent.
func find(ctx context.Context, c client.Client, workflowID, runID string, o Options) (*follower, error) {
	c = storage.Reading(c, o.Drivers...)
	now, err := c.DescribeWorkflow(ctx, workflowID, runID)
	if err != nil {
		return nil, err
	}
	run := now.RawResponse.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	if o.FromFirst {
		if run, err = oldest(ctx, c, workflowID, run); err != nil {
			return nil, err
		}
	}
	f := &follower{client: c, options: o, workflowID: workflowID, run: run, reader: NewReader(workflowID, run, o.Converter),
		told: map[about]int{}, now: map[about]int{}, resets: map[about]bool{}}
	if o.Live && o.Wait {
		f.live = &live{}
	}
	return f, nil
}

// oldest walks back to the run that was the first to continue as new. A run that the server began by itself, by a schedule or
// after one that failed, begins an agent of its own.
func oldest(ctx context.Context, c client.Client, workflowID, run string) (string, error) {
	for {
		first, err := history.First(ctx, c, workflowID, run)
		if err != nil {
			return "", err
		}
		a := first.GetWorkflowExecutionStartedEventAttributes()
		before := a.GetContinuedExecutionRunId()
		if before == "" || a.GetInitiator() != enumspb.CONTINUE_AS_NEW_INITIATOR_WORKFLOW {
			return run, nil
		}
		var gone *serviceerror.NotFound
		switch _, err := c.DescribeWorkflow(ctx, workflowID, before); {
		case errors.As(err, &gone):
			return run, nil
		case err != nil:
			return "", err
		}
		run = before
	}
}

// all gives every event to yield, until it says that it wants no more.
func (f *follower) all(ctx context.Context, yield func(Event) bool) error {
	f.yield = yield
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
			// Its last decisions may be held back still.
			err = f.tell(f.reader.Flush())
			f.since = f.reader.since
			f.reader = NewReader(f.workflowID, next, f.options.Converter)
		} else {
			err = f.tell(f.reader.Read(end))
			f.reader.runID = next
		}
		if err != nil {
			return err
		}
		for a := range f.told {
			if a.kind == Reset {
				f.resets[a] = true
			}
		}
		f.run, f.seen, f.quiet, f.again, f.begun = next, nil, reset, reset, false
		f.told, f.now = map[about]int{}, map[about]int{}
	}
}

// history reads one run and returns its closing event, or nil if the run goes on and nobody waits for more.
func (f *follower) history(ctx context.Context) (*historypb.HistoryEvent, error) {
	var p patience
	wait := f.options.Wait
	for {
		before := len(f.seen)
		end, err := f.read(ctx, wait)
		switch {
		case err == nil && end == nil && wait != f.options.Wait:
			// What there is can be had: the server is there again, however long nothing happens now.
			p, wait = patience{}, true
			continue
		case err == nil && end == nil:
			return nil, f.tell(f.reader.Flush())
		case err == nil:
			return end, nil
		}
		if len(f.seen) > before {
			p = patience{}
		}
		if err := p.outlast(ctx, f.options, err); err != nil {
			return nil, err
		}
		wait = false
	}
}

// patience waits for a server that went away, since it did.
type patience struct{ since time.Time }

// outlast waits a little after an error that may go away by itself; one that does not, or has not for too long, it returns.
func (p *patience) outlast(ctx context.Context, o Options, err error) error {
	again := history.Changed(err) || errors.Is(err, history.ErrRewritten)
	if ctx.Err() != nil || !again && !(o.Wait && passing(err)) {
		return err
	}
	if p.since.IsZero() {
		p.since = time.Now()
	}
	most := o.Patience
	if most == 0 {
		most = defaultPatience
	}
	if time.Since(p.since) > most {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
	}
	return nil
}

// passing reports errors of a server that may come back, or have less to do.
func passing(err error) bool {
	var gone *serviceerror.Unavailable
	var away *serviceerror.NamespaceUnavailable
	var late *serviceerror.DeadlineExceeded
	var busy *serviceerror.ResourceExhausted
	var aborted *serviceerror.Aborted
	return errors.As(err, &gone) || errors.As(err, &away) || errors.As(err, &late) || errors.As(err, &busy) || errors.As(err, &aborted)
}

// read tells what is new in the run, and begins with its first event each time. It returns the closing event, if that is there.
func (f *follower) read(ctx context.Context, wait bool) (*historypb.HistoryEvent, error) {
	it := f.client.GetWorkflowHistory(ctx, f.workflowID, f.run, wait, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	var closing *historypb.HistoryEvent
	n := 0
	for {
		hush := f.listen(ctx)
		more := it.HasNext()
		hush()
		if !more {
			break
		}
		e, err := it.Next()
		if err != nil {
			return nil, err
		}
		if !history.Written(e) {
			continue
		}
		fresh, err := f.seen.Take(n, e)
		if err != nil {
			return nil, f.rewritten()
		}
		n++
		if closes(e) {
			// It is told of by the caller alone, also where a reading broke behind it.
			closing = e
			continue
		}
		if !fresh {
			continue
		}
		if events := f.reader.Read(e); n > 1 || !f.begun {
			f.begun = true
			if err := f.tell(events); err != nil {
				return nil, err
			}
		}
	}
	if n < len(f.seen) {
		return nil, f.rewritten()
	}
	return closing, nil
}

// rewritten has the run read anew: what the reader took from the events that are gone must go too.
func (f *follower) rewritten() error {
	f.reader, f.seen, f.quiet, f.now = NewReader(f.workflowID, f.run, f.options.Converter), nil, f.again, map[about]int{}
	return history.ErrRewritten
}

// tell yields events, unless they were told before.
func (f *follower) tell(events []Event) error {
	for _, e := range events {
		a := about{e.Kind, e.EventID, e.Time.UnixNano()}
		if e.Kind == Reset && !f.resets[a] && !e.Time.Before(f.since) {
			f.quiet = false
		}
		if f.quiet {
			continue
		}
		if f.now[a]++; f.now[a] <= f.told[a] {
			continue
		}
		f.told[a]++
		if !f.yield(e) {
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
	// A reset terminates the latest run, whichever it starts from.
	for p := (patience{}); ; {
		if run, err = f.reset(ctx); err == nil {
			return run, run != "", nil
		}
		if err := p.outlast(ctx, f.options, err); err != nil {
			return "", false, err
		}
	}
}

// reset is the run with which a reset went on after it terminated this one, the first of them if there were more, or one that
// continues it; or empty. A new agent under the same workflow id is none.
func (f *follower) reset(ctx context.Context) (found string, err error) {
	latest, err := f.client.DescribeWorkflow(ctx, f.workflowID, "")
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
		// To delete a workflow that runs terminates it.
		return "", nil
	case err != nil:
		return "", err
	}
	for id := latest.RawResponse.GetWorkflowExecutionInfo().GetExecution().GetRunId(); id != "" && id != f.run; {
		first, at, err := f.peek(ctx, id)
		switch {
		case errors.As(err, &gone):
			return found, nil
		case err != nil:
			return "", err
		}
		started := first.GetWorkflowExecutionStartedEventAttributes()
		since := f.reader.since
		switch {
		case !f.reader.kin(started):
			return found, nil
		case !at.Before(since):
			found = id
		case first.GetEventTime().AsTime().Before(since):
			// It was there before.
			return found, nil
		}
		id = started.GetContinuedExecutionRunId()
	}
	return found, nil
}

// peek returns the first event of a run, and when it was last reset; the zero time is never.
func (f *follower) peek(ctx context.Context, run string) (first *historypb.HistoryEvent, reset time.Time, err error) {
	for e, err := range history.Read(ctx, f.client, f.workflowID, run) {
		if err != nil {
			return nil, reset, err
		}
		if first == nil {
			first = e
		}
		if e.GetWorkflowTaskFailedEventAttributes().GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW {
			reset = e.GetEventTime().AsTime()
		}
	}
	return first, reset, nil
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
