package activities

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// behaving is a source that does what its test wants.
type behaving struct {
	do    func() []*tool.Def
	asked int
}

func (*behaving) Name() string { return "far" }

func (b *behaving) Tools(context.Context) ([]*tool.Def, error) {
	b.asked++
	return b.do(), nil
}

// Whatever a source does, nobody waits for it for ever, and what it offered before is still there.
func TestASourceThatNeverAnswers(t *testing.T) {
	page := tool.MustNew("page", "Gets a page.", func(context.Context, *tool.Context, struct{}) (int, error) { return 0, nil })
	src := &behaving{do: func() []*tool.Def { runtime.Goexit(); return nil }}
	list, err := newSources([]tool.Source{src}, func(string) bool { return false })
	require.NoError(t, err)
	s := list[0]
	_, err = s.list(t.Context())
	require.ErrorContains(t, err, "ended without an answer")
	src.do = func() []*tool.Def { return []*tool.Def{page} }
	_, err = s.list(t.Context())
	require.NoError(t, err)

	stuck := make(chan struct{})
	src.do = func() []*tool.Def { <-stuck; return nil }
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err = s.list(ctx)
		cancel()
		require.ErrorContains(t, err, "does not answer")
		kept, _ := s.kept("page")
		require.Same(t, page, kept)
	}
	s.mu.Lock()
	l := s.running
	s.mu.Unlock()
	close(stuck)
	<-l.done
	require.Equal(t, 3, src.asked, "it is not asked again while it has not answered")
	kept, _ := s.kept("page")
	require.Nil(t, kept)
}

// announcing is a source that says when it has changed.
type announcing struct {
	behaving
	at time.Time
}

func (a *announcing) Changed() time.Time {
	if a.at.IsZero() {
		panic("boom")
	}
	return a.at
}

// A source that says that it has changed is asked again before the next call, but not without a pause.
func TestASourceThatSaysThatItHasChanged(t *testing.T) {
	page := tool.MustNew("page", "Gets a page.", func(context.Context, *tool.Context, struct{}) (int, error) { return 0, nil })
	src := &announcing{behaving: behaving{do: func() []*tool.Def { return []*tool.Def{page} }}}
	list, err := newSources([]tool.Source{src}, func(string) bool { return false })
	require.NoError(t, err)
	s := list[0]
	const never = -1
	fresh := func(age, changed time.Duration) bool {
		now := time.Now()
		s.listed = now.Add(-age)
		if src.at = now.Add(-changed); changed == never {
			src.at = time.Time{}
		}
		_, fresh := s.kept("page")
		return fresh
	}
	require.True(t, fresh(2*time.Second, time.Hour))
	require.False(t, fresh(2*time.Second, time.Second))
	require.True(t, fresh(-time.Minute, -2*time.Minute), "a flood of it costs a listing a second")
	require.True(t, fresh(2*time.Second, never), "it panics")
	require.False(t, fresh(time.Hour, time.Hour))
}

// A source that answered again after it had failed is one like any other, and what it says of a change counts.
func TestASourceThatListsAgain(t *testing.T) {
	page := tool.MustNew("page", "Gets a page.", func(context.Context, *tool.Context, struct{}) (int, error) { return 0, nil })
	src := &announcing{behaving: behaving{do: func() []*tool.Def { return []*tool.Def{page} }}, at: time.Now().Add(-time.Hour)}
	list, err := newSources([]tool.Source{src}, func(string) bool { return false })
	require.NoError(t, err)
	s := list[0]
	fresh := func() bool {
		_, fresh := s.kept("page")
		return fresh
	}
	s.listed = time.Now().Add(-time.Hour)
	s.silent()
	require.True(t, fresh())
	src.at = time.Now().Add(time.Second)
	require.False(t, fresh(), "it has changed since it failed")
	s.silent()
	_, err = s.list(t.Context())
	require.NoError(t, err)
	s.listed, src.at = time.Now().Add(-time.Minute/2), time.Now().Add(-time.Second)
	require.False(t, fresh(), "it has changed since it answered")
}

// hanging is a source that does not say whether it has changed.
type hanging struct {
	behaving
	stuck chan struct{}
	asked atomic.Int64
}

func (h *hanging) Changed() time.Time {
	h.asked.Add(1)
	<-h.stuck
	return time.Time{}
}

// A source that does not say whether it has changed, because it is asked what it offers, holds up nobody. It is asked again then.
func TestASourceThatDoesNotSayWhetherItHasChanged(t *testing.T) {
	page := tool.MustNew("page", "Gets a page.", func(context.Context, *tool.Context, struct{}) (int, error) { return 0, nil })
	src := &hanging{behaving: behaving{do: func() []*tool.Def { return []*tool.Def{page} }}, stuck: make(chan struct{})}
	list, err := newSources([]tool.Source{src}, func(string) bool { return false })
	require.NoError(t, err)
	s := list[0]
	s.listed, s.defs = time.Now().Add(-time.Minute/2), []*tool.Def{page}
	for range 3 {
		d, fresh := s.kept("page")
		require.Same(t, page, d)
		require.False(t, fresh)
	}
	require.Equal(t, int64(1), src.asked.Load(), "one goroutine waits for it, and not one for each call")
	_, err = s.list(t.Context())
	require.NoError(t, err)
	_, fresh := s.kept("page")
	require.True(t, fresh, "it was asked just now")
	close(src.stuck)
}

// A source whose listing fails while its calls work costs one call a minute its time, and not each.
func TestASourceThatDoesNotListAnyMore(t *testing.T) {
	page := tool.MustNew("page", "Gets a page.", func(context.Context, *tool.Context, struct{}) (int, error) { return 0, nil })
	src := &behaving{do: func() []*tool.Def { return []*tool.Def{page} }}
	list, err := newSources([]tool.Source{src}, func(string) bool { return false })
	require.NoError(t, err)
	e := &Engine{sources: list, log: slog.New(slog.DiscardHandler)}
	facts := protocol.ToolFacts{Name: "page", Source: "far", ContractHash: page.ContractHash()}
	_, err = list[0].list(t.Context())
	require.NoError(t, err)
	list[0].listed = time.Now().Add(-2 * sourceFresh)
	src.do = func() []*tool.Def { runtime.Goexit(); return nil }
	env := new(testsuite.WorkflowTestSuite).NewTestActivityEnvironment()
	calls := func(ctx context.Context) error {
		for range 3 {
			def, drift := e.frozen(ctx, facts, true)
			require.Empty(t, drift)
			require.Same(t, page, def)
		}
		require.Equal(t, 2, src.asked)
		facts.ContractHash = "another"
		_, drift := e.frozen(ctx, facts, true)
		require.Contains(t, drift, "another description")
		require.Equal(t, 3, src.asked, "what is not offered is asked for")
		return nil
	}
	env.RegisterActivity(calls)
	_, err = env.ExecuteActivity(calls)
	require.NoError(t, err)
}
