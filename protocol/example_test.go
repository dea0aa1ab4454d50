package protocol_test

import (
	"encoding/json"
	"fmt"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// A service starts an agent by the workflow type assent.Agent with this argument.
func Example() {
	in := protocol.AgentInput{
		Prompt:      "Fix the failing test.",
		AgentType:   "fixer",
		Permissions: &protocol.Tighten{Ask: []permission.Rule{{Tool: permission.One("shell")}}},
		Limits:      &protocol.Limits{MaxTurns: 8},
	}
	if err := in.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	text, _ := json.MarshalIndent(in, "", "  ")
	fmt.Println(protocol.WorkflowAgent, string(text))

	answer, _ := json.Marshal(protocol.Resolution{Key: "shell-14b9be7d", Decision: "allow", By: "alice"})
	fmt.Println(protocol.SignalApproval, string(answer))
	// Output:
	// assent.Agent {
	//   "prompt": "Fix the failing test.",
	//   "agentType": "fixer",
	//   "permissions": {
	//     "ask": [
	//       {
	//         "tool": "shell"
	//       }
	//     ]
	//   },
	//   "limits": {
	//     "maxTurns": 8
	//   }
	// }
	// approval {"key":"shell-14b9be7d","decision":"allow","by":"alice"}
}
