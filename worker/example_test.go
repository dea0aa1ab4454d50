package worker_test

import (
	"fmt"
	"os"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/worker"
)

// A bad rule is found when the Plugin is made, before its worker takes a task.
func ExampleNew() {
	place, err := os.MkdirTemp("", "blobs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(place)
	store, err := blob.NewDir(place)
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := worker.Config{Profiles: map[string]config.Profile{"fixer": {Name: "fixer"}}, Blobs: store}
	plugin, err := worker.New(cfg)
	fmt.Println(plugin.Name(), err)

	cfg.Permissions = permission.Layer{Deny: []permission.Rule{{Risk: permission.Many("dangerous")}}}
	_, err = worker.New(cfg)
	fmt.Println(err)
	// Output:
	// assent <nil>
	// engine.deny[0].risk[0]: unknown risk "dangerous"; one of read, write, network, execute, destructive, undeclared
}
