// Command guard has a workflow of its own with two activities, and asks before one of them. There is no agent.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

func Build(_ context.Context, service string) (string, error)       { return service + ":v2", nil }
func DeployService(_ context.Context, image string) (string, error) { return "deployed " + image, nil }

// Release knows nothing of the guard.
func Release(ctx workflow.Context, service string) (done string, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	var image string
	if err = workflow.ExecuteActivity(ctx, Build, service).Get(ctx, &image); err == nil {
		err = workflow.ExecuteActivity(ctx, DeployService, image).Get(ctx, &done)
	}
	return done, err
}

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("guard", flag.ContinueOnError)
	flags.SetOutput(stderr)
	address := flags.String("address", os.Getenv("TEMPORAL_ADDRESS"), "the Temporal server; empty means 127.0.0.1:7233")
	id := flags.String("id", "release-api", "the workflow id")
	if flags.Parse(args) != nil {
		return 2
	}
	done, err := release(ctx, *address, *id, stdout)
	if err == nil {
		fmt.Fprintln(stdout, done)
		return 0
	}
	fmt.Fprintln(stderr, "error:", err) // a refusal is an assent.Denied
	return 1
}

func release(ctx context.Context, address, id string, stdout io.Writer) (done string, err error) {
	guard, err := assent.NewGuard(assent.GuardConfig{
		Tools: map[string]tool.Options{"DeployService": {Risk: tool.Execute}}, Permissions: permission.Layer{Preset: permission.Standard}, DecideTimeout: 20 * time.Second,
	})
	if err != nil {
		return "", err
	}
	c, err := client.Dial(client.Options{HostPort: address, Plugins: []client.Plugin{guard}})
	if err != nil {
		return "", err
	}
	defer c.Close()
	w := worker.New(c, "releases", worker.Options{})
	w.RegisterWorkflow(Release)
	w.RegisterActivity(Build)
	w.RegisterActivity(DeployService)
	if err := w.Start(); err != nil {
		return "", err
	}
	defer w.Stop()
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: "releases"}, Release, "api")
	if err == nil {
		fmt.Fprintf(stdout, "temporal workflow signal -w %s --name assent_approval --input '\"allow\"'\n", id)
		err = run.Get(ctx, &done)
	}
	return done, err
}
