// Package history reads the histories of runs from a server: the events that are written, each once.
package history

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
)

// Source is what a history is read from, such as a client.
type Source interface {
	GetWorkflowHistory(ctx context.Context, workflowID, runID string, wait bool, filter enumspb.HistoryEventFilterType) client.HistoryEventIterator
}

// ErrRewritten says that an event that was given is not in the history: the server took it back, which it may after a write
// that it could not make certain of.
var ErrRewritten = errors.New("the server has rewritten the history while it was read")

const (
	tries = 5
	pause = 200 * time.Millisecond
)

// Read yields the events that a run has now. Where the server says that the history has changed under the reader, it is read
// from its start again, and what was given is not given again; one that was given and is gone ends it with [ErrRewritten].
// After an error nothing more comes.
func Read(ctx context.Context, s Source, workflowID, runID string) iter.Seq2[*historypb.HistoryEvent, error] {
	return func(yield func(*historypb.HistoryEvent, error) bool) {
		var seen Seen
		for try := 1; ; try++ {
			on, err := once(ctx, s, workflowID, runID, &seen, yield)
			if !on {
				return
			}
			if err == nil || !Changed(err) || try == tries {
				if err != nil {
					yield(nil, err)
				}
				return
			}
			select {
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			case <-time.After(time.Duration(try) * pause):
			}
		}
	}
}

// once reads from the start, and reports whether the caller wants more.
func once(ctx context.Context, s Source, workflowID, runID string, seen *Seen, yield func(*historypb.HistoryEvent, error) bool) (bool, error) {
	it := s.GetWorkflowHistory(ctx, workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	n := 0
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return true, err
		}
		if !Written(e) {
			continue
		}
		fresh, err := seen.Take(n, e)
		if err != nil {
			return true, err
		}
		n++
		if fresh && !yield(e, nil) {
			return false, nil
		}
	}
	if n < len(*seen) {
		return true, ErrRewritten
	}
	return true, nil
}

// First is the first event of a run, or nil where the server has none.
func First(ctx context.Context, s Source, workflowID, runID string) (*historypb.HistoryEvent, error) {
	for e, err := range Read(ctx, s, workflowID, runID) {
		return e, err
	}
	return nil, nil //nolint:nilnil // a history that is empty is no error
}

// Written reports whether an event is in the history for good. Servers from 1.31 on show clients also the workflow task that
// is under way, under ids that another event gets where that task fails or was for an update that is refused.
func Written(e *historypb.HistoryEvent) bool {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED:
		// The server numbers what it writes by transactions.
		return e.GetTaskId() != 0
	}
	return true
}

// Changed reports the server's error for a reader whose place in the history is not there: the server has lost its last write,
// or has told the reader of one that it then did not make. To read from the start helps. The error is one of servers to
// each other, and reaches clients as an invalid argument.
func Changed(err error) bool {
	var invalid *serviceerror.InvalidArgument
	if !errors.As(err, &invalid) {
		return false
	}
	for _, d := range serviceerror.ToStatus(invalid).Proto().GetDetails() {
		if strings.HasSuffix(d.GetTypeUrl(), ".CurrentBranchChangedFailure") {
			return true
		}
	}
	return strings.HasPrefix(invalid.Error(), "Current and request branch tokens")
}

// Seen are the events that a reader was given.
type Seen []mark

// mark tells an event from another one of the same id.
type mark struct {
	id, task int64
}

// Take notes the nth event, from zero, and reports whether it is a new one. It is [ErrRewritten] if there was another one.
func (s *Seen) Take(n int, e *historypb.HistoryEvent) (fresh bool, err error) {
	m := mark{e.GetEventId(), e.GetTaskId()}
	switch {
	case n >= len(*s):
		*s = append(*s, m)
		return true, nil
	case (*s)[n] != m:
		return false, ErrRewritten
	}
	return false, nil
}
