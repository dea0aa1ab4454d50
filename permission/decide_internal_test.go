package permission

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// An allow and the end of its time that come together are no allow.
func TestAnAnswerAfterItsTimeIsNone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		done := make(chan outcome, 1)
		done <- outcome{answer: AnswerAllow()}
		_, err := inTime(ctx, done)
		require.ErrorIs(t, err, context.Canceled)
	}
}
