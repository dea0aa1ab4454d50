package pipeline_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

// everything registers one of each and records the order of undoing.
func everything(t testing.TB, undone *[]string) func(*pipeline.Scope) error {
	return func(s *pipeline.Scope) error {
		return errors.Join(
			s.OnClose(func() { *undone = append(*undone, "first") }),
			s.Tool(echo(t, "t")),
			s.Guard("g", func(context.Context, call) error { return nil }),
			s.Pre(func(context.Context, call, ask) (pipeline.Answer, error) { return pipeline.Ask("p"), nil }),
			s.Wrap(func(context.Context, call, run) (tool.Result, error) { return tool.Fail(tool.Skipped, "w"), nil }),
			s.Post(posts(pipeline.Block("b"))),
			s.Observe(func(context.Context, call, tool.Result) error { *undone = append(*undone, "observed"); return nil }),
			s.Approver(func(context.Context, call, permission.Decision) (pipeline.Answer, error) {
				return pipeline.Allow(), nil
			}),
			s.OnClose(func() { panic("contained") }),
			s.OnClose(func() { *undone = append(*undone, "last") }),
		)
	}
}

// assertEmpty checks that nothing is mounted that a call could notice.
func assertEmpty(t testing.TB, p *pipeline.Pipeline) {
	t.Helper()
	assert.Empty(t, p.Tools())
	assert.Empty(t, p.GuardNames())
	_, ok := p.Lookup("t")
	assert.False(t, ok)
	assert.Equal(t, permission.Allow, p.Judge(t.Context(), call{Name: "t"}, nil, nil).Verdict)
	assert.True(t, p.Run(t.Context(), call{Name: "t"}, nil, value(`1`)).IsOK())
}

func TestScopeClose(t *testing.T) {
	p := quiet()
	var undone []string
	s := mount(t, p, "all", everything(t, &undone))
	assert.Len(t, p.Tools(), 1)
	assert.Equal(t, []string{"g"}, p.GuardNames())
	assert.Equal(t, tool.Blocked, p.Execute(t.Context(), "t", []byte(`{}`)).Code)
	s.Close()
	s.Close()
	assert.Equal(t, []string{"observed", "last", "first"}, undone)
	assertEmpty(t, p)

	closed := &pipeline.ClosedError{Plugin: "all"}
	assert.Equal(t, closed, s.Tool(echo(t, "t")))
	assert.Equal(t, closed, s.Guard("g", refuses("x")))
	assert.Equal(t, closed, s.OnClose(func() {}))
	assert.EqualError(t, closed, `plugin "all": already closed`)
	assertEmpty(t, p)
	mount(t, p, "again", everything(t, &undone)).Close()
	assertEmpty(t, p)
}

func TestMountFails(t *testing.T) {
	cause := errors.New("no index")
	for name, fail := range map[string]func(*pipeline.Scope) error{
		"an error": func(*pipeline.Scope) error { return cause },
		"a panic":  func(*pipeline.Scope) error { panic("x") },
		"a scope closed by its own plugin": func(s *pipeline.Scope) error {
			s.Close()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := quiet()
			var undone []string
			s, err := p.Mount(pipeline.PluginFunc("all", func(s *pipeline.Scope) error {
				require.NoError(t, everything(t, &undone)(s))
				assertEmpty(t, p) // nothing shows before all has succeeded
				return fail(s)
			}))
			assert.Nil(t, s)
			require.Error(t, err)
			assert.Contains(t, err.Error(), `mount plugin "all": `)
			assert.Equal(t, []string{"last", "first"}, undone)
			assertEmpty(t, p)
			if name == "an error" {
				assert.ErrorIs(t, err, cause)
			}
		})
	}
	t.Run("the end of the goroutine", func(t *testing.T) {
		p := quiet()
		var undone []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = p.Mount(pipeline.PluginFunc("all", func(s *pipeline.Scope) error {
				_ = everything(t, &undone)(s)
				runtime.Goexit()
				return nil
			}))
		}()
		<-done
		assert.Equal(t, []string{"last", "first"}, undone)
		assertEmpty(t, p)
	})
}

type oddPlugin struct{ name func() string }

func (o oddPlugin) Name() string              { return o.name() }
func (oddPlugin) Mount(*pipeline.Scope) error { return nil }

func TestMountRefuses(t *testing.T) {
	p := quiet()
	for name, plugin := range map[string]pipeline.Plugin{
		"nil": nil, "without a name": pipeline.PluginFunc("", func(*pipeline.Scope) error { return nil }),
		"with an endless name": pipeline.PluginFunc(strings.Repeat("x", 201), func(*pipeline.Scope) error { return nil }),
	} {
		_, err := p.Mount(plugin)
		assert.True(t, fault.IsConfig(err), name)
	}
	_, err := p.Mount(pipeline.PluginFunc("p", nil))
	assert.EqualError(t, err, `mount plugin "p": the mount function is nil`)
	_, err = p.Mount(oddPlugin{func() string { panic("x") }})
	assert.EqualError(t, err, "mount plugin: its name: panic: x")

	mount(t, p, "p", func(s *pipeline.Scope) error {
		for _, err := range []error{
			s.Tool(nil), s.Pre(nil), s.Guard("g", nil), s.Wrap(nil), s.Post(nil), s.Observe(nil), s.Approver(nil), s.OnClose(nil),
			s.Guard("", refuses("x")), s.Guard("a b", refuses("x")), s.Guard("a\n", refuses("x")),
		} {
			assert.True(t, fault.IsConfig(err), "%v", err)
		}
		return nil
	})
	assertEmpty(t, p)
}

func TestNamesAreTakenOnce(t *testing.T) {
	p := quiet()
	first := mount(t, p, "first", func(s *pipeline.Scope) error {
		return errors.Join(s.Tool(echo(t, "t")), s.Guard("g", func(context.Context, call) error { return nil }))
	})
	_, err := p.Mount(pipeline.PluginFunc("second", func(s *pipeline.Scope) error { return s.Tool(echo(t, "t")) }))
	assert.True(t, fault.IsConfig(err))
	assert.EqualError(t, err, `mount plugin "second": tool t: plugin "second" registers it, but plugin "first" already has`)
	_, err = p.Mount(pipeline.PluginFunc("second", func(s *pipeline.Scope) error { return s.Guard("g", refuses("x")) }))
	assert.True(t, fault.IsConfig(err))
	first.Close()
	mountTool(t, p, echo(t, "t"))
	mount(t, p, "twice", func(s *pipeline.Scope) error {
		require.NoError(t, s.Tool(echo(t, "u")))
		assert.True(t, fault.IsConfig(s.Tool(echo(t, "u"))), "also while it is mounting")
		return nil
	})
	names := []string{}
	for _, d := range p.Tools() {
		names = append(names, d.Name())
	}
	assert.Equal(t, []string{"t", "u"}, names)
}

func TestScopeStaysOpen(t *testing.T) {
	p := quiet()
	s := mount(t, p, "p", func(*pipeline.Scope) error { return nil })
	require.NoError(t, s.Tool(echo(t, "t")))
	_, ok := p.Lookup("t")
	assert.True(t, ok)
	s.Close()
	assertEmpty(t, p)
}

func TestPipelineClose(t *testing.T) {
	p := quiet()
	var order []string
	for _, name := range []string{"a", "b", "c"} {
		mount(t, p, name, func(s *pipeline.Scope) error { return s.OnClose(func() { order = append(order, name); p.Close() }) })
	}
	p.Close()
	p.Close()
	assert.Equal(t, []string{"c", "b", "a"}, order)
	_, err := p.Mount(pipeline.Timeout())
	assert.Equal(t, &pipeline.ClosedError{Plugin: "timeout"}, err)
}

func TestNewestApproverAnswersUntilItsScopeCloses(t *testing.T) {
	p := quiet()
	mountTool(t, p, echo(t, "t", tool.NeedsApproval()))
	approver := func(a pipeline.Answer) *pipeline.Scope {
		return mount(t, p, "human", func(s *pipeline.Scope) error {
			return s.Approver(func(context.Context, call, permission.Decision) (pipeline.Answer, error) { return a, nil })
		})
	}
	approver(pipeline.Allow())
	newest := approver(pipeline.Deny("no"))
	assert.Equal(t, tool.Deny(tool.ByPerson, "human", "no"), p.Execute(t.Context(), "t", []byte(`{}`)))
	newest.Close()
	assert.True(t, p.Execute(t.Context(), "t", []byte(`{}`)).IsOK())
}

// Calls, mounts and closes race; a guard that comes with its tool must hold in every call of the tool.
func TestMountingRacesWithCalls(t *testing.T) {
	p := quiet()
	def := echo(t, "t")
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if code := p.Execute(t.Context(), "t", []byte(`{}`)).Code; code != tool.Denied && code != tool.UnknownTool {
					t.Errorf("the tool ran without its guard: %s", code)
					return
				}
				p.Tools()
				p.GuardNames()
			}
		})
	}
	for range 300 {
		s, err := p.Mount(pipeline.PluginFunc("p", func(s *pipeline.Scope) error {
			return errors.Join(s.Tool(def), s.Guard("g", refuses("no")), s.Observe(func(context.Context, call, tool.Result) error { return nil }))
		}))
		require.NoError(t, err)
		go s.Close()
		s.Close()
		for len(p.Tools()) > 0 {
			runtime.Gosched()
		}
	}
	close(stop)
	callers.Wait()
}
