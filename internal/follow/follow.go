package follow

import (
	"context"
	"iter"

	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
)

// Options say how a history is read.
type Options struct {
	// Wait goes on after the events that are there, until the run has ended.
	Wait bool
	// Converter is the team's data converter; nil means the SDK's default.
	Converter converter.DataConverter
}

// Follow yields the events of a run; an empty run id means the latest. It goes on with the run that a run was
// continued as or reset to. After an error it yields nothing more. The end of ctx is such an error.
func Follow(ctx context.Context, c client.Client, workflowID, runID string, o Options) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		r := NewReader(workflowID, o.Converter)
		for next := runID; ; {
			it := c.GetWorkflowHistory(ctx, workflowID, next, o.Wait, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
			next = ""
			for it.HasNext() {
				e, err := it.Next()
				if err != nil {
					yield(Event{}, err)
					return
				}
				for _, out := range r.Read(e) {
					if !yield(out, nil) {
						return
					}
				}
			}
			if next == "" {
				return
			}
		}
	}
}

// Reader is the state of one agent, fed with its history event by event.
type Reader struct {
	workflowID string
	converter  converter.DataConverter
}

// NewReader returns a reader for a history that begins.
func NewReader(workflowID string, c converter.DataConverter) *Reader {
	if c == nil {
		c = converter.GetDefaultDataConverter()
	}
	return &Reader{workflowID: workflowID, converter: c}
}

// Read takes the next event of the history and returns what it means.
func (r *Reader) Read(e *historypb.HistoryEvent) []Event {
	return nil
}
