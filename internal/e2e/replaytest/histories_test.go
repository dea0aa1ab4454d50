package replaytest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/internal/e2e/replaytest"
)

// Every history that was ever committed replays. A change that breaks one needs a version gate, or, before the
// first release, a new recording: go test ./internal/e2e -run TestShapes -record.
func TestCommittedHistories(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "workflows", "testdata", "histories", "*.json"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 20)
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".json"), func(t *testing.T) {
			r, err := os.Open(f)
			require.NoError(t, err)
			defer r.Close()
			h, err := client.HistoryFromJSON(r, client.HistoryJSONOptions{})
			require.NoError(t, err)
			replaytest.Replay(t, h)
		})
	}
}

// A replayer without the Plugin says clearly what is missing, but for the history that never met the guard.
func TestWithoutThePlugin(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "workflows", "testdata", "histories", "*.json"))
	require.NoError(t, err)
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".json")
		t.Run(name, func(t *testing.T) {
			r, err := sdkworker.NewWorkflowReplayerWithOptions(sdkworker.WorkflowReplayerOptions{DisableDeadlockDetection: true})
			require.NoError(t, err)
			replaytest.Register(r)
			err = r.ReplayWorkflowHistoryFromJSONFile(nil, f)
			switch {
			case name == "before-the-guard", name == "drained":
				require.NoError(t, err)
			case strings.HasPrefix(name, "spawned"):
				require.ErrorContains(t, err, "TMPRL1100")
			case strings.HasPrefix(name, "guarded-"):
				// docs/embedding.md says what these words mean.
				require.ErrorContains(t, err, "TMPRL1100")
				require.Regexp(t, `assent-[0-9]|Assent[A-Z]`, err.Error())
			default:
				require.ErrorContains(t, err, "unable to find workflow type: assent.Agent")
			}
		})
	}
}
