package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

// deleteTool knows nothing of this package, nor of the tool package.
type deleteTool struct{}

func (deleteTool) Name() string        { return "delete" }
func (deleteTool) Description() string { return "Delete a path." }

func (deleteTool) Execute(_ context.Context, args json.RawMessage) (any, error) {
	return "gone", nil
}

func deleting(s *pipeline.Scope) error {
	def, err := tool.FromObject(deleteTool{}, tool.Destructive)
	if err != nil {
		return err
	}
	return s.Tool(def)
}

// safety was written without knowing which tools there are.
func safety(s *pipeline.Scope) error {
	return s.Guard("no-root", func(_ context.Context, call pipeline.Call) error {
		var args struct{ Path string }
		if err := json.Unmarshal(call.Input, &args); err != nil {
			return err
		}
		if args.Path == "/" {
			return errors.New("refusing to delete the root filesystem")
		}
		return nil
	})
}

func audit(s *pipeline.Scope) error {
	return s.Observe(func(_ context.Context, call pipeline.Call, result tool.Result) error {
		fmt.Println("audit:", call.Name, string(call.Input), result.Code)
		return nil
	})
}

// Three plugins that never heard of each other: a tool, a rule over all tools, and a record of all calls.
func Example() {
	p := pipeline.New(pipeline.Config{})
	defer p.Close()
	for _, plugin := range []pipeline.Plugin{
		pipeline.PluginFunc("delete", deleting),
		pipeline.PluginFunc("safety", safety),
		pipeline.PluginFunc("audit", audit),
		pipeline.Timeout(),
	} {
		if _, err := p.Mount(plugin); err != nil {
			fmt.Println(err)
			return
		}
	}
	ctx := context.Background()
	for _, args := range []string{`{"path":"/tmp/a"}`, `{"path":"/"}`} {
		result := p.Execute(ctx, "delete", json.RawMessage(args))
		if result.IsOK() {
			fmt.Println(string(result.Value))
		} else {
			fmt.Println(result.Failure.By+":", result.Failure.Message)
		}
	}
	// Output:
	// audit: delete {"path":"/tmp/a"} OK
	// "gone"
	// audit: delete {"path":"/"} DENIED
	// no-root: refusing to delete the root filesystem
}
