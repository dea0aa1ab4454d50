package activities

import (
	"time"

	"go.temporal.io/sdk/activity"
)

// An allow may be good until a moment. Which one it is now, the server says: a worker whose clock is behind would run what has
// expired, and deadlines and histories are by the server's clock too.

// now is the time that was sent, or the worker's if none was: by a workflow's worker of an older version, or by a server, of
// which the SDK makes 1970.
func now(sent time.Time) time.Time {
	if sent.Unix() <= 0 {
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
