// Command plugins mounts three plugins that never heard of each other, a tool, a rule over all tools and an audit, and
// unmounts the rule while the program runs: the rule is gone, the others stay.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/plugins"
	"github.com/assent-dev/assent/tool"
)

type deleteInput struct {
	Path string `json:"path"`
}

// files brings a tool. It knows no rule and no audit.
func files(s *pipeline.Scope) error {
	def, err := tool.New("delete", "Deletes a path.", func(_ context.Context, _ *tool.Context, in deleteInput) (string, error) {
		return "deleted " + in.Path, nil
	}, tool.Destructive)
	if err != nil {
		return err
	}
	return s.Tool(def)
}

// safety is a rule about everybody's tools. It was written without knowing which there are.
func safety(s *pipeline.Scope) error {
	return s.Guard("no-root", func(_ context.Context, call pipeline.Call) error {
		var in struct{ Path string }
		if err := json.Unmarshal(call.Input, &in); err != nil {
			return err
		}
		if in.Path == "/" {
			return errors.New("refusing to touch the root of the file system")
		}
		return nil
	})
}

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(ctx context.Context, _ []string, _ io.Reader, stdout, stderr io.Writer) int {
	audit, err := plugins.Audit(plugins.AuditConfig{Writer: stderr})
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	p := pipeline.New(pipeline.Config{})
	defer p.Close()
	var rule *pipeline.Scope
	for _, plugin := range []pipeline.Plugin{audit, pipeline.PluginFunc("files", files), pipeline.PluginFunc("safety", safety)} {
		// The last one is the rule.
		if rule, err = p.Mount(plugin); err != nil {
			fmt.Fprintln(stderr, "error:", err)
			return 1
		}
	}
	remove := func(path string) {
		input, _ := json.Marshal(deleteInput{Path: path})
		text, _ := json.Marshal(p.Execute(ctx, "delete", input))
		fmt.Fprintln(stdout, path, string(text))
	}
	remove("/tmp/a")
	remove("/")
	rule.Close()
	remove("/")
	return 0
}
