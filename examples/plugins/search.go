package main

import (
	"context"
	"strings"
	"time"

	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

type searchInput struct {
	Query string `json:"query"`
}

// search brings a tool over an index, which whoever mounts it injects.
func search(index []string) pipeline.Plugin {
	return pipeline.PluginFunc("search", func(s *pipeline.Scope) error {
		def, err := tool.New("search", "Searches the index.", func(ctx context.Context, _ *tool.Context, in searchInput) ([]string, error) {
			found := []string{}
			for _, line := range index {
				if strings.Contains(line, in.Query) {
					found = append(found, line)
				}
			}
			if in.Query == "" {
				<-ctx.Done() // everything takes too long
			}
			return found, ctx.Err()
		}, tool.Read, tool.Timeout(2*time.Second))
		if err != nil {
			return err
		}
		return s.Tool(def)
	})
}
