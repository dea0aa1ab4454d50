package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
)

// A worker whose clock is an hour off starts a call by the clock of the server.
func TestTheClockOfTheServer(t *testing.T) {
	server := time.Now().Add(time.Hour)
	require.Equal(t, server, started(activity.Info{StartedTime: server}))
	require.WithinDuration(t, time.Now(), started(activity.Info{StartedTime: server, IsLocalActivity: true}), time.Minute)
	require.WithinDuration(t, time.Now(), started(activity.Info{}), time.Minute)
}
