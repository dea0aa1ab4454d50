package follow_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/follow"
)

// A server may go away after it has given a run's last event and before it has said that there is no other one.
func TestAFeedKnowsAnEndThatItHasSeen(t *testing.T) {
	t.Parallel()
	whole := history(t, "asked-and-allowed")
	s := &server{runs: map[string][]run{"w": {{"r", whole}}}, cuts: map[string]int{"r": len(whole)}}
	feed, err := follow.Start(context.Background(), s, "w", "", follow.Options{Wait: true})
	require.NoError(t, err)
	require.Equal(t, kinds(read(t, "asked-and-allowed")), kinds(collect(feed)))
	end, err := feed.Wait()
	require.NoError(t, err)
	require.NotNil(t, end)
}
