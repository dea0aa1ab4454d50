package activities

import (
	"time"

	"go.temporal.io/sdk/activity"
)

// An allow may be good until a moment. Which one it is now, the server says: a worker whose clock is behind would run what has
// expired, and deadlines and histories are by the server's clock too.

// now is the time of a request, or the worker's if the workflow's worker is of a version that does not send it.
func now(sent time.Time) time.Time {
	if sent.IsZero() {
		return time.Now()
	}
	return sent
}

// started is when the server has given an attempt to this worker. A local activity is known to no server, and runs where its
// workflow does.
func started(info activity.Info) time.Time {
	if info.IsLocalActivity {
		return time.Now()
	}
	return now(info.StartedTime)
}
