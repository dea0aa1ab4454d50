package assent_test

import (
	"fmt"

	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

// A team's worker gets a gate in front of one of its activities: DeployService asks before it runs.
func ExampleNewGuard() {
	guard, err := assent.NewGuard(assent.GuardConfig{
		Tools:       map[string]tool.Options{"DeployService": {Risk: tool.Execute}},
		Permissions: permission.Layer{Preset: permission.Standard},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	options := sdkworker.Options{Plugins: []sdkworker.Plugin{guard}}
	fmt.Println(options.Plugins[0].Name())
	// Output: assent-guard
}
