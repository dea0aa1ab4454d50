// Command plugins mounts plugins that never heard of each other: two tools, a rule over both, a record of both and a budget for
// both. It adds a tool, which inherits all three, and unmounts the rule while it runs: the rule is gone, the others stay.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/plugins"
)

// mount puts the plugins on a pipeline and returns the scope of the rule.
func mount(p *pipeline.Pipeline, record io.Writer) (rule *pipeline.Scope, err error) {
	audit, err := plugins.Audit(plugins.AuditConfig{Writer: record})
	if err != nil {
		return nil, err
	}
	index := []string{"the kernel", "a colonel"}
	for _, plugin := range []pipeline.Plugin{search(index), remove, audit, pipeline.Timeout()} {
		if _, err := p.Mount(plugin); err != nil {
			return nil, err
		}
	}
	return p.Mount(pipeline.PluginFunc("safety", safety))
}

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(ctx context.Context, _ []string, _ io.Reader, stdout, stderr io.Writer) int {
	p := pipeline.New(pipeline.Config{})
	defer p.Close()
	rule, err := mount(p, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	call := func(name, input string) {
		text, _ := json.Marshal(p.Execute(ctx, name, json.RawMessage(input)))
		fmt.Fprintln(stdout, name, input, string(text))
	}
	call("search", `{"query":"kernel"}`)
	call("search", `{"query":""}`)
	call("delete", `{"path":"/tmp/a"}`)
	call("delete", `{"path":"/"}`)
	if _, err := p.Mount(wipe); err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	call("wipe", `{"path":"/"}`)
	rule.Close()
	call("delete", `{"path":"/"}`)
	call("wipe", `{"path":"/"}`)
	return 0
}
