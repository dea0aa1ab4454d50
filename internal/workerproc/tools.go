package workerproc

import (
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/toolbox"
)

// Tools returns the first-party tools that a worker with this file serves, and the names that stand for several of them.
func Tools(f *config.File) ([]*tool.Def, map[string][]string, error) {
	defs, err := toolbox.All(toolbox.Config{
		Shell: toolbox.ShellConfig{Engine: f.Worker.Shell.Engine, Env: f.Worker.Shell.Env},
		Exec:  toolbox.ExecConfig{Env: f.Worker.Shell.Env},
		Fetch: toolbox.FetchConfig{Allow: f.Worker.Fetch.Allow},
	})
	if err != nil {
		return nil, nil, err
	}
	var files []string
	for _, d := range toolbox.Files() {
		files = append(files, d.Name())
	}
	return defs, map[string][]string{toolbox.FilesSet: files}, nil
}
