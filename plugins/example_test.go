package plugins_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/plugins"
	"github.com/assent-dev/assent/tool"
)

// A tool that knows nothing of secrets gets a rule that finds them, and a limit to being asked the same thing.
func Example() {
	redact, err := plugins.Redact(plugins.RedactConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	loop, err := plugins.Loop(plugins.LoopConfig{Calls: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	connect := pipeline.PluginFunc("connect", func(s *pipeline.Scope) error {
		def, err := tool.New("connect", "Connects to the database.", func(context.Context, *tool.Context, struct{}) (string, error) {
			return "", errors.New("dial postgres://app:hunter2@db:5432: connection refused")
		}, tool.Network)
		if err != nil {
			return err
		}
		return s.Tool(def)
	})
	p := pipeline.New(pipeline.Config{})
	defer p.Close()
	for _, plugin := range []pipeline.Plugin{redact, loop, connect} {
		if _, err := p.Mount(plugin); err != nil {
			fmt.Println(err)
			return
		}
	}
	for range 2 {
		r := p.Execute(context.Background(), "connect", json.RawMessage(`{}`))
		fmt.Printf("%s: %.80s\n", r.Code, r.Failure.Message)
	}
	// Output:
	// TOOL_ERROR: dial postgres://app:[redacted:url-password]@db:5432: connection refused
	// DENIED: this is the same call of connect with the same arguments for the 2nd time; it wi
}
