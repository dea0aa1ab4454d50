package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

// modelScope is what a scope should hold.
type modelScope struct {
	scope    *pipeline.Scope
	names    []string
	closed   bool
	pending  []int
	observed int
}

// FuzzScopes drives mounts, late registrations and closes, and holds the pipeline to a model of itself: two
// bytes are one step, the action and what it acts on.
func FuzzScopes(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 3, 0, 4, 1, 3, 1})
	f.Add([]byte{1, 1, 0, 1, 2, 2, 0, 1, 3, 0, 0, 1})
	f.Add([]byte{0, 3, 0, 3, 4, 0, 5, 0, 0, 1})
	tools := map[string]*tool.Def{} // made once, for a schema costs more than all that is tested
	for n := range 5 {
		name := fmt.Sprintf("n%d", n)
		tools[name] = echo(f, name)
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		m := &model{t: t, p: quiet(), tools: tools}
		for len(steps) >= 2 && len(m.scopes) < 64 {
			m.step(steps[0]%6, steps[1])
			m.check()
			steps = steps[2:]
		}
		m.close()
		m.check()
	})
}

type model struct {
	t      *testing.T
	tools  map[string]*tool.Def
	p      *pipeline.Pipeline
	scopes []*modelScope
	closed bool
	undone []int
	serial int
}

func (m *model) step(action, arg byte) {
	switch action {
	case 0, 1, 2:
		m.mount(action, arg)
	case 3:
		if s := m.pick(arg); s != nil {
			s.scope.Close()
			m.forget(s)
		}
	case 4:
		if s := m.pick(arg); s != nil {
			m.register(s, arg>>4)
		}
	case 5:
		if arg%8 != 0 {
			return
		}
		m.close()
	}
}

// close closes the pipeline: the youngest scope goes first.
func (m *model) close() {
	m.p.Close()
	m.closed = true
	for _, s := range slices.Backward(m.scopes) {
		m.forget(s)
	}
}

// mount mounts a plugin with up to three registrations that fails for the actions 1 and 2.
func (m *model) mount(action, arg byte) {
	s := &modelScope{}
	scope, err := m.p.Mount(pipeline.PluginFunc("p", func(sc *pipeline.Scope) error {
		s.scope = sc
		for i := range arg % 4 {
			m.register(s, arg>>2+i)
		}
		switch action {
		case 1:
			return errors.New("x")
		case 2:
			panic("x")
		}
		return nil
	}))
	if m.closed {
		var closed *pipeline.ClosedError
		require.ErrorAs(m.t, err, &closed)
		return
	}
	if action != 0 {
		require.Error(m.t, err)
		m.forget(s)
		return
	}
	require.NoError(m.t, err)
	require.Same(m.t, s.scope, scope)
	m.scopes = append(m.scopes, s)
}

func (m *model) register(s *modelScope, arg byte) {
	name := fmt.Sprintf("n%d", arg%5)
	taken := slices.Contains(s.names, name) || slices.ContainsFunc(m.scopes, func(o *modelScope) bool { return slices.Contains(o.names, name) })
	err := s.scope.Tool(m.tools[name])
	switch {
	case s.closed:
		var closed *pipeline.ClosedError
		require.ErrorAs(m.t, err, &closed)
		require.Error(m.t, s.scope.OnClose(func() { m.t.Error("must never run") }))
		return
	case taken:
		require.True(m.t, fault.IsConfig(err))
		return
	}
	require.NoError(m.t, err)
	require.NoError(m.t, s.scope.Guard(name, func(context.Context, call) error { return nil }))
	require.NoError(m.t, s.scope.Observe(func(context.Context, call, tool.Result) error { s.observed++; return nil }))
	m.serial++
	id := m.serial
	require.NoError(m.t, s.scope.OnClose(func() { m.undone = append(m.undone, id) }))
	s.names, s.pending = append(s.names, name), append(s.pending, id)
}

// forget closes the scope in the model and checks that the pipeline undid the same, newest first.
func (m *model) forget(s *modelScope) {
	if s.closed {
		return
	}
	slices.Reverse(s.pending)
	require.GreaterOrEqual(m.t, len(m.undone), len(s.pending))
	require.Equal(m.t, append([]int{}, s.pending...), append([]int{}, m.undone[:len(s.pending)]...))
	m.undone = m.undone[len(s.pending):]
	s.closed, s.names, s.pending = true, nil, nil
}

func (m *model) pick(arg byte) *modelScope {
	if len(m.scopes) == 0 {
		return nil
	}
	return m.scopes[int(arg)%len(m.scopes)]
}

func (m *model) check() {
	want, observers := []string{}, 0
	for _, s := range m.scopes {
		want = append(want, s.names...)
		observers += len(s.names)
		s.observed = 0
	}
	slices.Sort(want)
	got := []string{}
	for _, d := range m.p.Tools() {
		got = append(got, d.Name())
		found, ok := m.p.Lookup(d.Name())
		require.True(m.t, ok)
		require.Same(m.t, d, found)
	}
	require.Equal(m.t, want, got)
	require.Equal(m.t, want, m.p.GuardNames())
	require.Empty(m.t, m.undone)
	m.p.Observe(m.t.Context(), call{}, tool.Result{Code: tool.OK})
	seen := 0
	for _, s := range m.scopes {
		seen += s.observed
	}
	assert.Equal(m.t, observers, seen)
}
