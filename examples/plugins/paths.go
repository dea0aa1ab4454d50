package main

import (
	"context"

	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

type pathInput struct {
	Path string `json:"path"`
}

// remove and wipe bring a tool each. They know no rule, no audit and no budget.
var (
	remove = onPaths("delete", "Deletes a path.", "deleted ")
	wipe   = onPaths("wipe", "Overwrites a path.", "wiped ")
)

func onPaths(name, description, done string) pipeline.Plugin {
	return pipeline.PluginFunc(name, func(s *pipeline.Scope) error {
		def, err := tool.New(name, description, func(_ context.Context, _ *tool.Context, in pathInput) (string, error) {
			return done + in.Path, nil
		}, tool.Destructive)
		if err != nil {
			return err
		}
		return s.Tool(def)
	})
}
