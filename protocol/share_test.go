package protocol_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/protocol"
)

func TestShare(t *testing.T) {
	usd := 1.5
	made := func(dir string) protocol.ResolveResponse {
		return protocol.ResolveResponse{Models: []string{"m"}, ToolsetHash: t.Name(), Dir: dir, BudgetUSD: &usd}
	}
	a, b, c := protocol.Share(made("/a")), protocol.Share(made("/a")), protocol.Share(made("/b"))
	require.Same(t, a, b)
	require.NotSame(t, a, c)
	require.Equal(t, made("/a"), *a)
	require.Equal(t, made("/b"), *c)

	// Many at once get one, also while those before are collected.
	for range 50 {
		got := make(chan *protocol.ResolveResponse, 8)
		for range cap(got) {
			go func() { got <- protocol.Share(made("/c")) }()
		}
		first := <-got
		for range cap(got) - 1 {
			require.Same(t, first, <-got)
		}
		runtime.GC()
	}
}

func TestShareKeepsNothing(t *testing.T) {
	gone := make(chan struct{})
	func() {
		p := protocol.Share(protocol.ResolveResponse{ToolsetHash: t.Name()})
		runtime.AddCleanup(p, func(done chan struct{}) { close(done) }, gone)
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		select {
		case <-gone:
			return true
		default:
			return false
		}
	}, time.Minute, time.Millisecond)
	require.NotNil(t, protocol.Share(protocol.ResolveResponse{ToolsetHash: t.Name()}))
}
