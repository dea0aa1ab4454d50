package permission_test

import (
	"encoding/json"
	"fmt"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

func Example() {
	chain, err := permission.Compile(permission.Spec{
		Engine: permission.Layer{
			Vetted: []permission.Vetted{{Tool: permission.One("shell"), Argv: permission.One("go test **")}},
			Deny:   []permission.Rule{{Tool: permission.One("shell"), Argv: permission.One("git push --force **")}},
		},
		Profile: permission.Layer{Preset: permission.Standard},
	})
	if err != nil {
		panic(err)
	}
	shell := tool.Info{Name: "shell", Risk: tool.Execute}
	for _, command := range []string{"go test ./...", "go build", "cd x && git push --force origin"} {
		input, _ := json.Marshal(map[string]string{"command": command})
		d := permission.Explain(chain, shell, input)
		fmt.Println(d.Verdict, d.DecidedBy, d.Reason)
	}
	// Output:
	// allow hook vetted "go test **"
	// ask ask-rule {risk: [network, execute, destructive]} (preset standard)
	// deny deny-rule {tool: shell, argv: "git push --force **"} (engine)
}
