package history_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/assent-dev/assent/internal/history"
)

// reading is one reading of a history: its events, and then an error.
type reading struct {
	events []*historypb.HistoryEvent
	err    error
}

// server gives one reading after the other, and the last for ever.
type server struct{ readings []reading }

func (s *server) GetWorkflowHistory(context.Context, string, string, bool, enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	r := s.readings[0]
	if len(s.readings) > 1 {
		s.readings = s.readings[1:]
	}
	return &r
}

func (r *reading) HasNext() bool { return len(r.events) > 0 || r.err != nil }

func (r *reading) Next() (*historypb.HistoryEvent, error) {
	if len(r.events) == 0 {
		return nil, r.err
	}
	e := r.events[0]
	r.events = r.events[1:]
	return e, nil
}

func event(id, task int64) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{EventId: id, TaskId: task, EventType: enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED}
}

// changed is the server's error as it reaches a client.
func changed(t testing.TB, detail, message string) error {
	t.Helper()
	s := status.New(codes.InvalidArgument, message).Proto()
	if detail != "" {
		s.Details = []*anypb.Any{{TypeUrl: "type.googleapis.com/temporal.server.api.errordetails.v1." + detail}}
	}
	err := serviceerror.FromStatus(status.FromProto(s))
	require.IsType(t, &serviceerror.InvalidArgument{}, err)
	return err
}

const moved = "Current and request branch tokens, or current and request versioned transitions, don't match."

func TestChanged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{changed(t, "CurrentBranchChangedFailure", moved), true},
		{changed(t, "CurrentBranchChangedFailure", "in other words"), true},
		{changed(t, "", moved), true},
		{fmt.Errorf("read: %w", changed(t, "", moved)), true},
		{changed(t, "ShardOwnershipLostFailure", "x"), false},
		{serviceerror.NewInvalidArgument("Invalid NextPageToken."), false},
		{serviceerror.NewUnavailable(moved), false},
		{errors.New(moved), false},
		{nil, false},
	} {
		require.Equal(t, c.want, history.Changed(c.err), "%v", c.err)
	}
}

func TestWritten(t *testing.T) {
	t.Parallel()
	require.True(t, history.Written(event(1, 7)))
	require.False(t, history.Written(event(1, 0)))
	require.False(t, history.Written(&historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED}))
	// Only such tasks are shown before they are written.
	require.True(t, history.Written(&historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED}))
}

func TestRead(t *testing.T) {
	t.Parallel()
	gone := serviceerror.NewNotFound("no such run")
	list := func(of ...*historypb.HistoryEvent) []*historypb.HistoryEvent { return of }
	for name, c := range map[string]struct {
		readings []reading
		ids      []int64
		err      error
	}{
		"whole":                  {[]reading{{list(event(1, 1), event(2, 1), event(3, 4)), nil}}, []int64{1, 2, 3}, nil},
		"nothing":                {[]reading{{nil, nil}}, nil, nil},
		"a task that is not yet": {[]reading{{list(event(1, 1), event(2, 0), event(3, 0)), nil}}, []int64{1}, nil},
		"its ids given anew":     {[]reading{{list(event(1, 1), event(2, 0), event(2, 5), event(3, 5)), nil}}, []int64{1, 2, 3}, nil},
		"changed": {[]reading{{list(event(1, 1), event(2, 2)), changed(t, "", moved)}, {list(event(1, 1)), changed(t, "", moved)},
			{list(event(1, 1), event(2, 2), event(3, 3)), nil}}, []int64{1, 2, 3}, nil},
		"changed and shorter": {[]reading{{list(event(1, 1), event(2, 2)), changed(t, "", moved)}, {list(event(1, 1)), nil}}, []int64{1, 2}, history.ErrRewritten},
		"rewritten": {[]reading{{list(event(1, 1), event(2, 2)), changed(t, "", moved)}, {list(event(1, 1), event(2, 9), event(3, 9)), nil}},
			[]int64{1, 2}, history.ErrRewritten},
		"changed for ever": {[]reading{{list(event(1, 1)), changed(t, "", moved)}}, []int64{1}, changed(t, "", moved)},
		"another error":    {[]reading{{list(event(1, 1)), gone}, {list(event(1, 1), event(2, 2)), nil}}, []int64{1}, gone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &server{c.readings}
			var ids []int64
			var end error
			for e, err := range history.Read(context.Background(), s, "w", "r") {
				require.NoError(t, end, "nothing comes after an error")
				if end = err; err == nil {
					ids = append(ids, e.GetEventId())
				}
			}
			require.Equal(t, c.ids, ids)
			if c.err == nil {
				require.NoError(t, end)
				return
			}
			require.EqualError(t, end, c.err.Error())
		})
	}
}

func TestReadEndsWithItsReaderAndItsContext(t *testing.T) {
	t.Parallel()
	s := &server{[]reading{{[]*historypb.HistoryEvent{event(1, 1), event(2, 2)}, changed(t, "", moved)}}}
	e, err := history.First(context.Background(), s, "w", "r")
	require.NoError(t, err)
	require.EqualValues(t, 1, e.GetEventId())
	e, err = history.First(context.Background(), &server{[]reading{{nil, nil}}}, "w", "r")
	require.NoError(t, err)
	require.Nil(t, e)
	_, err = history.First(context.Background(), &server{[]reading{{nil, errors.New("down")}}}, "w", "r")
	require.EqualError(t, err, "down")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var end error
	for _, err := range history.Read(ctx, s, "w", "r") {
		end = err
	}
	require.ErrorIs(t, end, context.Canceled)
}
