// Command output runs an agent whose answer is a Go type, under a budget, and prints it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/scripted"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

type review struct {
	Verdict string   `json:"verdict" jsonschema:"enum=good,enum=bad"`
	Reasons []string `json:"reasons"`
}

// The first answer does not fit; the model is told so and mends it.
const script = `turns: [{say: It is good., usage: {outputTokens: 40}},
  {say: '{"verdict": "good", "reasons": ["it is short"]}', usage: {outputTokens: 60}}]`

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("output", flag.ContinueOnError)
	flags.SetOutput(stderr)
	address := flags.String("address", os.Getenv("TEMPORAL_ADDRESS"), "the Temporal server; empty means 127.0.0.1:7233")
	if flags.Parse(args) != nil {
		return 2
	}
	if err := ask(ctx, *address, stdout); err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	return 0
}

func ask(ctx context.Context, address string, stdout io.Writer) error {
	play, err1 := scripted.Parse("script", []byte(script))
	engine, err2 := assent.New(assent.Config{
		Models: map[string]model.Model{"scripted": scripted.Set{"review": play}}, Blobs: blob.NewMemory(""),
		Prices:   model.Prices{"scripted:review": {Rates: model.Rates{Input: 3, Output: 15}, AsOf: "2026-12-01"}},
		Profiles: map[string]config.Profile{"reviewer": {Name: "reviewer", Models: []string{"scripted:review"}, Output: tool.MustOutputFor[review]()}},
	})
	c, err3 := client.Dial(client.Options{HostPort: address, Plugins: []client.Plugin{engine}})
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	defer c.Close()
	w := worker.New(c, "output", worker.Options{})
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	usd, result, got := 0.50, protocol.AgentResult{}, review{}
	agent, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: "output"}, protocol.WorkflowAgent,
		protocol.AgentInput{AgentType: "reviewer", Prompt: "review the change", BudgetUSD: &usd})
	if err != nil {
		return err
	}
	if err := agent.Get(ctx, &result); err != nil {
		return err
	}
	err = json.Unmarshal(result.Structured, &got)
	fmt.Fprintf(stdout, "%s: %s, %v, for $%.4f\n", result.Status, got.Verdict, got.Reasons, result.CostUSD)
	return err
}
