package pipeline_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

// quitter is an error whose text ends the goroutine that asks for it.
type quitter struct{}

func (quitter) Error() string { runtime.Goexit(); return "" }

// The text of an error is foreign code too.
func TestErrorsThatEndTheirGoroutine(t *testing.T) {
	for name, mount := range map[string]func(*pipeline.Scope) error{
		"pre": func(s *pipeline.Scope) error {
			return s.Pre(func(context.Context, pipeline.Call, func(context.Context) pipeline.Answer) (pipeline.Answer, error) {
				return pipeline.Answer{}, quitter{}
			})
		},
		"guard": func(s *pipeline.Scope) error {
			return s.Guard("g", func(context.Context, pipeline.Call) error { return quitter{} })
		},
		"wrapper": func(s *pipeline.Scope) error {
			return s.Wrap(func(context.Context, pipeline.Call, func(context.Context) tool.Result) (tool.Result, error) {
				return tool.Result{}, quitter{}
			})
		},
		"post": func(s *pipeline.Scope) error {
			return s.Post(func(context.Context, pipeline.Call, tool.Result, func(context.Context) pipeline.PostAnswer) (pipeline.PostAnswer, error) {
				return pipeline.Accept(), quitter{}
			})
		},
		"observer": func(s *pipeline.Scope) error {
			return s.Observe(func(context.Context, pipeline.Call, tool.Result) error { return quitter{} })
		},
		"approver": func(s *pipeline.Scope) error {
			return errors.Join(
				s.Pre(func(context.Context, pipeline.Call, func(context.Context) pipeline.Answer) (pipeline.Answer, error) {
					return pipeline.Ask("why"), nil
				}),
				s.Approver(func(context.Context, pipeline.Call, permission.Decision) (pipeline.Answer, error) {
					return pipeline.Allow(), quitter{}
				}))
		},
		"body": func(*pipeline.Scope) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			p := pipeline.New(pipeline.Config{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
			_, err := p.Mount(pipeline.PluginFunc("quits", mount))
			require.NoError(t, err)
			_, err = p.Mount(pipeline.PluginFunc("tools", func(s *pipeline.Scope) error {
				return s.Tool(tool.MustNew("run", "Runs.", func(context.Context, *tool.Context, struct{}) (string, error) {
					if name == "body" {
						return "", quitter{}
					}
					return "ran", nil
				}, tool.Execute))
			}))
			require.NoError(t, err)
			var result *tool.Result
			done := make(chan struct{})
			go func() {
				defer close(done)
				r := p.Execute(t.Context(), "run", []byte(`{}`))
				result = &r
			}()
			<-done
			require.NotNil(t, result, "the call never came back")
			require.Equal(t, name == "observer", result.IsOK(), "%+v", result)
		})
	}
}
