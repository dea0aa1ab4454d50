// Command service starts an agent, answers what it asks and prints what it hands back. A service of yours needs no
// more than this does: Temporal's SDK and the package protocol.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/protocol"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("service", flag.ContinueOnError)
	flags.SetOutput(stderr)
	address := flags.String("address", os.Getenv("TEMPORAL_ADDRESS"), "the Temporal server; empty means 127.0.0.1:7233")
	id := flags.String("id", "fix-1234", "the workflow id; starting it again finds the same agent, also when it has ended")
	queue := flags.String("queue", protocol.DefaultTaskQueue, "the task queue of the workers")
	profile := flags.String("profile", "fixer", "the agent type")
	task := flags.String("task", "Fix the failing test.", "what the agent is to do")
	deny := flags.Bool("deny", false, "deny what the agent asks, by update; otherwise allow it, by signal")
	if flags.Parse(args) != nil {
		return 2
	}
	fail := func(why any) int { fmt.Fprintln(stderr, "error:", why); return 1 }
	c, err := client.Dial(client.Options{HostPort: *address})
	if err != nil {
		return fail(err)
	}
	defer c.Close()
	once := client.StartWorkflowOptions{ID: *id, TaskQueue: *queue, WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE}
	agent, err := c.ExecuteWorkflow(ctx, once, protocol.WorkflowAgent, protocol.AgentInput{AgentType: *profile, Prompt: *task})
	if err != nil {
		return fail(err)
	}
	var result protocol.AgentResult
	ended := make(chan error, 1)
	go func() { ended <- agent.Get(ctx, &result) }()
	for {
		select {
		case err := <-ended:
			if err != nil {
				return fail(err)
			} else if result.Status != protocol.OK {
				return fail(result.Error)
			}
			fmt.Fprintf(stdout, "%d turns, %d calls, %d asked: %s\n", result.Turns, result.Calls, result.Asked, result.Output)
			return 0
		case <-time.After(time.Second / 4):
		}
		var asked protocol.Approvals
		value, err := c.QueryWorkflow(ctx, *id, "", protocol.QueryApprovals)
		if err == nil {
			err = value.Get(&asked)
		}
		for _, q := range asked.Pending {
			fmt.Fprintf(stdout, "asked for %s %s: %s\n", q.Tool, q.Input, q.Why)
			if !*deny {
				err = c.SignalWorkflow(ctx, *id, "", protocol.SignalApproval, protocol.Resolution{Key: q.Key, Decision: "allow", By: "service"})
			} else if update, e := c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: *id, UpdateName: protocol.UpdateResolve, WaitForStage: client.WorkflowUpdateStageCompleted,
				Args: []any{protocol.Resolution{Key: q.Key, Decision: "deny", By: "service", Reason: "not at night"}}}); e == nil {
				err = update.Get(ctx, nil)
			} else {
				err = e
			}
		}
		if err != nil { // no worker yet, or the agent has just ended
			fmt.Fprintln(stderr, "trying again:", err)
		}
	}
}
