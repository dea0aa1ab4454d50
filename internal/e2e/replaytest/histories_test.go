package replaytest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/internal/e2e/replaytest"
)

// Every history that was ever committed replays. A change that breaks one needs a version gate, or, before the
// first release, a new recording: go test ./internal/e2e -run TestShapes -record.
func TestCommittedHistories(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "workflows", "testdata", "histories", "*.json"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 13)
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
