// Command activity gives an agent a tool that is an activity of another team's worker, and allows the call it asks for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

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

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("activity", flag.ContinueOnError)
	flags.SetOutput(stderr)
	address := flags.String("address", os.Getenv("TEMPORAL_ADDRESS"), "the Temporal server; empty means 127.0.0.1:7233")
	blobs := flags.String("blobs", "blobs", "the folder of transcripts and large values")
	if flags.Parse(args) != nil {
		return 2
	}
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	if err := serve(ctx, *address, *blobs, stdout); err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, address, blobs string, stdout io.Writer) error {
	store, err1 := blob.NewDir(blobs)
	script, err2 := scripted.Parse("script", []byte("turns: [{calls: [{tool: invoice, args: {customer: ada, cents: 1200}}]}, {say: done}]"))
	invoice, err3 := tool.FromActivity("invoice", "Sends an invoice.", []byte(schema), "SendInvoice", "billing",
		tool.Write, tool.NeedsApproval(), tool.Positional("customer", "cents"))
	engine, err4 := assent.New(assent.Config{
		Models: map[string]model.Model{"scripted": scripted.Set{"s": script}}, Tools: []*tool.Def{invoice}, Blobs: store, DecideTimeout: 20 * time.Second, // a decision that comes late denies
		Profiles: map[string]config.Profile{"clerk": {Name: "clerk", Models: []string{"scripted:s"}, Tools: []string{"invoice"}}},
	})
	c, err5 := client.Dial(client.Options{HostPort: address})
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	defer c.Close()
	theirs, ours := billing{stdout}.worker(c), worker.New(c, "agents", worker.Options{Plugins: []worker.Plugin{engine}})
	if err := errors.Join(theirs.Start(), ours.Start()); err != nil {
		return err
	}
	defer theirs.Stop()
	defer ours.Stop()
	task := protocol.AgentInput{AgentType: "clerk", Prompt: "Send Ada her invoice."}
	agent, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: "agents"}, protocol.WorkflowAgent, task)
	for asked := (protocol.Approvals{}); err == nil && len(asked.Pending) == 0; err = errors.Join(err, ctx.Err()) {
		time.Sleep(time.Second / 10)
		if value, e := c.QueryWorkflow(ctx, agent.GetID(), "", protocol.QueryApprovals); e == nil && value.Get(&asked) == nil && len(asked.Pending) > 0 {
			fmt.Fprintf(stdout, "allowed: %s %s\n", asked.Pending[0].Tool, asked.Pending[0].Input)
			err = c.SignalWorkflow(ctx, agent.GetID(), "", protocol.SignalApproval, protocol.Resolution{Key: asked.Pending[0].Key, Decision: "allow"})
		}
	}
	var result protocol.AgentResult
	if err == nil {
		err = agent.Get(ctx, &result)
	}
	fmt.Fprintf(stdout, "agent: %s, %s\n", result.Status, result.Output)
	return err
}
