package garbage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/internal/history"
)

// Source is one namespace whose runs may use the store.
type Source struct {
	Client    client.Client
	Namespace string
	// Query narrows the runs that are asked, in the language of visibility. Whoever sets it says that no other run uses the
	// store.
	Query string
}

// Options say whom to ask.
type Options struct {
	Sources []Source
	// Since is when a run may have closed to be asked still; open ones always are.
	Since time.Time
	// Drivers have the payloads of histories that were offloaded.
	Drivers []converter.StorageDriver
	// Codecs are those of the team's data converter, in its order: without them nothing can be read that they encrypt.
	Codecs []converter.PayloadCodec
}

// Run is one run that needs a blob.
type Run struct {
	Namespace  string `json:"namespace"`
	WorkflowID string `json:"workflowId"`
	RunID      string `json:"runId"`
}

// Report is what a store holds and who needs it.
type Report struct {
	// Entries are the blobs of the store, the oldest first.
	Entries []blob.Entry
	// Open and Closed count the runs that were asked.
	Open, Closed int
	needed       map[string][]Run
}

// UsedBy lists runs that need a blob, a few of them if they are many.
func (r *Report) UsedBy(ref blob.Ref) []Run { return r.needed[ref.SHA256] }

// Needed is how many blobs some run needs. None at all may mean that the store belongs to another server.
func (r *Report) Needed() int { return len(r.needed) }

// Unused are the blobs that no run needs and whose last Put was before the given time, the oldest first.
func (r *Report) Unused(before time.Time) []blob.Entry {
	var out []blob.Entry
	for _, e := range r.Entries {
		if _, used := r.needed[e.Ref.SHA256]; !used && e.Time.Before(before) {
			out = append(out, e)
		}
	}
	return out
}

const (
	// mostNamed bounds the runs that are named for one blob.
	mostNamed = 8
	// atOnce bounds the histories that are read at a time.
	atOnce = 8
	// mostRounds bounds how often runs are looked for that began meanwhile.
	mostRounds = 10
)

// UnreadableError reports a run whose history says nothing certain of what it needs.
type UnreadableError struct {
	Run   Run
	Cause error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("what workflow %q, run %s of namespace %q, needs cannot be read: %v", e.Run.WorkflowID, e.Run.RunID, e.Run.Namespace, e.Cause)
}

// Unwrap returns the cause.
func (e *UnreadableError) Unwrap() error { return e.Cause }

// Entries lists a store, the oldest blob first.
func Entries(ctx context.Context, store blob.Inventory) ([]blob.Entry, error) {
	var out []blob.Entry
	for e, err := range store.List(ctx) {
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b blob.Entry) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Ref.SHA256, b.Ref.SHA256))
	})
	return out, nil
}

// Look finds out who needs what. Errors are *UnreadableError and those of store and server.
func Look(ctx context.Context, store blob.Inventory, o Options) (*Report, error) {
	s := &survey{store: store, options: o, held: map[string]blob.Entry{}, seen: map[Run]bool{}, report: &Report{needed: map[string][]Run{}}}
	// What the store holds comes first: what is stored later is not in the report and cannot be taken for unused.
	var err error
	if s.report.Entries, err = Entries(ctx, store); err != nil {
		return nil, err
	}
	for _, e := range s.report.Entries {
		s.held[e.Ref.SHA256] = e
	}
	// Runs that began while others were read are read too.
	for range mostRounds {
		found, err := s.round(ctx)
		if err != nil {
			return nil, err
		}
		if found == 0 {
			return s.report, nil
		}
	}
	return nil, errors.New("runs begin faster than their histories can be read")
}

// survey is one Look.
type survey struct {
	store   blob.Inventory
	options Options
	held    map[string]blob.Entry
	seen    map[Run]bool

	mu     sync.Mutex
	report *Report
}

// listed is a run as visibility tells of it.
type listed struct {
	Run
	source Source
	open   bool
}

// open finds the runs that have not ended: there are more ways of that than to be running, and there may be new ones.
const open = "ExecutionStatus NOT IN ('Completed', 'Failed', 'Canceled', 'Terminated', 'ContinuedAsNew', 'TimedOut')"

// round reads the runs that are not known yet and returns how many there were.
func (s *survey) round(ctx context.Context) (int, error) {
	var runs []listed
	for _, src := range s.options.Sources {
		// Open ones first: one that closes meanwhile is in both lists, and none is in neither.
		for _, query := range []string{open, fmt.Sprintf("CloseTime > '%s'", s.options.Since.UTC().Format(time.RFC3339))} {
			if src.Query != "" {
				query += " AND (" + src.Query + ")"
			}
			err := list(ctx, src, query, func(w *workflowpb.WorkflowExecutionInfo) {
				run := Run{src.Namespace, w.GetExecution().GetWorkflowId(), w.GetExecution().GetRunId()}
				if !s.seen[run] {
					s.seen[run] = true
					runs = append(runs, listed{run, src, w.GetCloseTime() == nil})
				}
			})
			if err != nil {
				return 0, err
			}
		}
	}
	return len(runs), s.all(ctx, runs)
}

func list(ctx context.Context, src Source, query string, each func(*workflowpb.WorkflowExecutionInfo)) error {
	var token []byte
	for {
		resp, err := src.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: src.Namespace, Query: query, NextPageToken: token})
		if err != nil {
			return fmt.Errorf("list the runs of namespace %q with %q: %w", src.Namespace, query, err)
		}
		for _, w := range resp.GetExecutions() {
			each(w)
		}
		if token = resp.GetNextPageToken(); len(token) == 0 {
			return nil
		}
	}
}

// all reads the histories of runs, a few at a time. The first error ends it.
func (s *survey) all(ctx context.Context, runs []listed) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	room := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for _, r := range runs {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			if ctx.Err() != nil {
				return
			}
			var gone *serviceerror.NotFound
			switch err := s.one(ctx, r); {
			case errors.As(err, &gone) && !r.open:
				// Its time is up: the server has deleted it since it was listed.
			case err != nil:
				stop(&UnreadableError{Run: r.Run, Cause: err})
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// one marks what a run needs, and what that needs.
func (s *survey) one(ctx context.Context, r listed) error {
	found := map[string]bool{}
	for e, err := range history.Read(ctx, r.source.Client, r.WorkflowID, r.RunID) {
		if err != nil {
			return err
		}
		if err := s.options.read(ctx, e, found); err != nil {
			return err
		}
	}
	if err := s.reach(ctx, r.Run, found); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.open {
		s.report.Open++
	} else {
		s.report.Closed++
	}
	return nil
}

// reach marks blobs and whatever they refer to. What one run has reached is read once for all.
func (s *survey) reach(ctx context.Context, run Run, found map[string]bool) error {
	var queue []string
	for sum := range found {
		queue = append(queue, sum)
	}
	for len(queue) > 0 {
		sum := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		held, ok := s.held[sum]
		if !ok || !s.mark(sum, run) {
			continue
		}
		data, err := s.store.Get(ctx, held.Ref)
		if err != nil {
			return err
		}
		next := map[string]bool{}
		hashes(data, next)
		for sum := range next {
			queue = append(queue, sum)
		}
	}
	return nil
}

// mark notes that a run needs a blob, and reports whether what the blob refers to is still to be marked.
func (s *survey) mark(sum string, run Run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	runs := s.report.needed[sum]
	if slices.Contains(runs, run) || len(runs) >= mostNamed {
		return false
	}
	s.report.needed[sum] = append(runs, run)
	return true
}
