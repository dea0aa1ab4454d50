package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sweeper says when it is asked, and then does what it is told.
type sweeper struct {
	asked chan struct{}
	do    func(ctx context.Context) error
}

func (s sweeper) Sweep(ctx context.Context) ([]string, error) {
	s.asked <- struct{}{}
	return []string{"a-0-00"}, s.do(ctx)
}

func TestTreesAreSweptAtOnceAndAgain(t *testing.T) {
	s := sweeper{make(chan struct{}), func(context.Context) error { return errors.New("the disk is gone") }}
	ticks := make(chan time.Time)
	stop := sweeping(s, &time.Ticker{C: ticks}, nil)
	<-s.asked
	for range 2 {
		ticks <- time.Now() // taken when the sweep before has ended, whatever came of it
		<-s.asked
	}
	stop()
}

func TestASweepEndsWithItsWorker(t *testing.T) {
	ended := false
	s := sweeper{make(chan struct{}), func(ctx context.Context) error {
		<-ctx.Done()
		ended = true
		return ctx.Err()
	}}
	stop := sweeping(s, time.NewTicker(time.Hour), nil)
	<-s.asked
	stop()
	require.True(t, ended)
}
