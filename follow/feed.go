package follow

import (
	"context"
	"errors"
	"sync"

	"go.temporal.io/sdk/client"
)

// Feed is a run that is being followed.
type Feed struct {
	// Events are those of the run, in order, each once. The channel is closed when the run has ended, when Options.Wait is
	// not set and all that is there was read, and when following failed; Wait says which. It has no buffer: whoever reads
	// slowly holds up this feed, and neither the run nor another feed. Whoever stops reading ends the context.
	Events <-chan Event

	client client.Client
	events chan Event
	all    sync.WaitGroup

	mu  sync.Mutex
	end *Ended
	err error
}

// Start follows a run until it ends; an empty run id means the latest. It returns an error if there is no such run, and then
// reads in the background until ctx ends. It needs no worker.
func Start(ctx context.Context, c client.Client, workflowID, runID string, o Options) (*Feed, error) {
	f, err := find(ctx, c, workflowID, runID, o)
	if err != nil {
		return nil, err
	}
	events := make(chan Event)
	feed := &Feed{Events: events, events: events, client: c}
	feed.all.Add(1)
	go func() {
		defer feed.all.Done()
		feed.ended(f.all(ctx, func(e Event) bool {
			told := feed.send(ctx, e, o)
			if told && e.Kind == AgentEnd {
				feed.result(e.End)
			}
			return told
		}))
	}()
	go func() {
		feed.all.Wait()
		close(events)
	}()
	return feed, nil
}

// send hands an event to the reader, and starts to follow the child that it tells of.
func (f *Feed) send(ctx context.Context, e Event, o Options) bool {
	select {
	case f.events <- e:
	case <-ctx.Done():
		f.ended(ctx.Err())
		return false
	}
	if e.Kind == ChildStart && o.Children {
		f.all.Add(1)
		go f.child(ctx, *e.Child, o)
	}
	return true
}

// child follows an agent that the run has started. It is read in the background, and what the server no longer has of it is
// no fault of the run.
func (f *Feed) child(ctx context.Context, c Child, o Options) {
	defer f.all.Done()
	reading, err := find(ctx, f.client, c.WorkflowID, c.RunID, o)
	for p := (patience{}); err != nil; reading, err = find(ctx, f.client, c.WorkflowID, c.RunID, o) {
		if err = p.outlast(ctx, o, err); err != nil {
			break
		}
	}
	if err == nil {
		err = reading.all(ctx, func(e Event) bool { return f.send(ctx, e, o) })
	}
	if err != nil && !errors.Is(err, errStopped) {
		f.ended(&ChildError{WorkflowID: c.WorkflowID, Err: err})
	}
}

// ChildError says that a child could not be followed to its end.
type ChildError struct {
	WorkflowID string
	Err        error
}

func (e *ChildError) Error() string { return "follow child \"" + e.WorkflowID + "\": " + e.Err.Error() }

// Unwrap is the cause.
func (e *ChildError) Unwrap() error { return e.Err }

func (f *Feed) result(end *Ended) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end = end
}

// ended keeps the first error.
func (f *Feed) ended(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && f.err == nil && !errors.Is(err, errStopped) {
		f.err = err
	}
}

// Wait returns how the run ended, and drops the events that nobody has read. Without an error, nil says that the run goes on:
// it was to be read as far as it is. The end of the context is an error.
func (f *Feed) Wait() (*Ended, error) {
	for range f.Events {
		continue
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.end, f.err
}
