// Command events follows an agent and prints what it does as it does it, and what it cost. It needs the server and no worker:
// everything is read from the agent's history.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/follow"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("events", flag.ContinueOnError)
	flags.SetOutput(stderr)
	address := flags.String("address", os.Getenv("TEMPORAL_ADDRESS"), "the Temporal server; empty means 127.0.0.1:7233")
	id := flags.String("id", "fix-1234", "the workflow id of the agent")
	children := flags.Bool("children", false, "follow the agents that it starts as well")
	if flags.Parse(args) != nil {
		return 2
	}
	fail := func(why any) int { fmt.Fprintln(stderr, "error:", why); return 1 }
	c, err := client.Dial(client.Options{HostPort: *address})
	if err != nil {
		return fail(err)
	}
	defer c.Close()
	feed, err := follow.Start(ctx, c, *id, "", follow.Options{Wait: true, FromFirst: true, Children: *children})
	if err != nil {
		return fail(err)
	}
	usd := map[string]float64{}
	for e := range feed.Events {
		who := e.Time.Format(time.TimeOnly) + " " + e.WorkflowID
		switch e.Kind {
		case follow.Turn:
			usd[e.WorkflowID] += e.Turn.CostUSD
			fmt.Fprintf(stdout, "%s turn %d of %s: %d in, %d out, %d calls\n", who, e.Turn.Number, e.Turn.Model, e.Turn.Usage.InputTokens,
				e.Turn.Usage.OutputTokens, len(e.Turn.Calls))
		case follow.Decision:
			fmt.Fprintf(stdout, "%s %s by %s: %s %s\n", who, e.Decision.Decision.Verdict, e.Decision.Decision.DecidedBy, e.Decision.Tool, e.Decision.Input)
		case follow.ApprovalPending:
			fmt.Fprintf(stdout, "%s waits for an answer to %s\n", who, e.Question.Key)
		case follow.ApprovalClosed:
			fmt.Fprintf(stdout, "%s %s was %s by %q\n", who, e.Closed.Key, e.Closed.How, e.Closed.By)
		case follow.ToolEnd:
			if e.Tool.Result != nil {
				fmt.Fprintf(stdout, "%s %s: %s after %s\n", who, e.Tool.Tool, e.Tool.Result.Code, e.Tool.Took)
			}
		case follow.AgentEnd:
			fmt.Fprintf(stdout, "%s %s, %.4f USD\n", who, e.End.Closed, usd[e.WorkflowID])
		}
	}
	end, err := feed.Wait()
	if err != nil {
		return fail(err)
	}
	if end.Result != nil {
		fmt.Fprintf(stdout, "%s: %s\n", end.Result.Status, end.Result.Output)
	}
	return 0
}
