package assenttest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/assent-dev/assent"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/assenttest"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

type order struct {
	Amount int `json:"amount"`
}

func refund(_ context.Context, _ *tool.Context, o order) (string, error) {
	return fmt.Sprintf("refunded %d", o.Amount), nil
}

// clerk is the configuration that a team has for its worker.
var clerk = assent.Config{
	Profiles:    map[string]config.Profile{"clerk": {Name: "clerk", Models: []string{"anthropic:claude-opus-5"}, Tools: []string{"refund"}}},
	Tools:       []*tool.Def{tool.MustNew("refund", "Pays an order back.", refund, tool.Execute)},
	Permissions: permission.Layer{Preset: permission.Standard},
}

// The model wants two refunds; a person allows the small one.
func Example() {
	model := assenttest.Turns{
		{Say: "I refund both.", Calls: []assenttest.Call{{Tool: "refund", Args: order{5}}, {Tool: "refund", Args: order{5000}}}},
		{Say: "One was refused."},
	}
	agent := assenttest.New(&testing.T{}, clerk, model).Answer(func(q approval.Approval) *protocol.Resolution {
		if string(q.Input) == `{"amount":5}` {
			return assenttest.Allow(q)
		}
		return &protocol.Resolution{Decision: approval.Deny, Reason: "too much"}
	})
	run := agent.Run(protocol.AgentInput{AgentType: "clerk", Prompt: "Refund the orders 1 and 2."})
	fmt.Println(run.Result.Status, run.Result.Output)
	fmt.Println(run.Codes())
	// Output:
	// ok One was refused.
	// [refund OK refund DENIED]
}
