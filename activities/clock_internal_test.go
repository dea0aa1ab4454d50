package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A worker whose clock is an hour off starts a call by the clock of the server.
func TestTheClockOfTheServer(t *testing.T) {
	server := time.Now().Add(time.Hour)
	require.Equal(t, server, started(activity.Info{StartedTime: server}))
	require.WithinDuration(t, time.Now(), started(activity.Info{StartedTime: server, IsLocalActivity: true}), time.Minute)
	require.WithinDuration(t, time.Now(), started(activity.Info{}), time.Minute)
	// The SDK makes 1970 of a time that was not sent: by that nothing would ever have expired.
	require.WithinDuration(t, time.Now(), started(activity.Info{StartedTime: (*timestamppb.Timestamp)(nil).AsTime()}), time.Minute)
}
