package tool_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/assent-dev/assent/tool"
)

type deployInput struct {
	Service  string `json:"service" jsonschema:"description=The service to deploy,minLength=1"`
	Replicas int    `json:"replicas,omitempty" jsonschema:"default=2,maximum=9"`
}

func Example() {
	deploy := func(_ context.Context, _ *tool.Context, in deployInput) (string, error) {
		if in.Service == "db" {
			return "", tool.ModelRetry{Message: "databases are not deployed; name a service"}
		}
		return fmt.Sprintf("%s runs %d times", in.Service, in.Replicas), nil
	}
	def, err := tool.New("deploy", "Deploys a service", deploy, tool.Write, tool.NeedsApproval(), tool.Version("1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(def.Info().Parameters))
	for _, input := range []string{`{"service":"api"}`, `{"service":"db"}`, `{"service":"","replicas":12}`} {
		result := def.Invoke(context.Background(), nil, json.RawMessage(input))
		text, _ := json.Marshal(result)
		fmt.Println(string(text))
	}
	// Output:
	// {"properties":{"service":{"type":"string","minLength":1,"description":"The service to deploy"},"replicas":{"type":"integer","maximum":9,"default":2}},"additionalProperties":false,"type":"object","required":["service"]}
	// {"code":"OK","value":"api runs 2 times"}
	// {"code":"TOOL_ERROR","failure":{"message":"databases are not deployed; name a service","retry":true}}
	// {"code":"INVALID_ARGUMENTS","failure":{"message":"arguments do not fit the schema","issues":[{"pointer":"/replicas","message":"maximum: got 12, want 9"},{"pointer":"/service","message":"minLength: got 0, want 1"}]}}
}

// An activity that a billing team has, called as refund(orderId, amount), becomes a tool of agents.
func ExampleFromActivity() {
	schema := json.RawMessage(`{"type":"object","properties":{"orderId":{"type":"string"},"amount":{"type":"integer"}},"required":["orderId","amount"]}`)
	def, err := tool.FromActivity("refund", "Refunds a part of an order.", schema, "RefundOrder", "billing",
		tool.Write, tool.NeedsApproval(), tool.Positional("orderId", "amount"))
	if err != nil {
		fmt.Println(err)
		return
	}
	r := def.Info().Remote
	args, err := r.Arguments(json.RawMessage(`{"amount":5,"orderId":"a-17"}`))
	fmt.Printf("%s: %s %v\n", r, args, err)
	fmt.Println(r.Timeouts.StartToClose, r.Retry.MaximumAttempts)
	// Output:
	// the activity "RefundOrder" on task queue "billing": ["a-17" 5] <nil>
	// 10m0s 1
}
