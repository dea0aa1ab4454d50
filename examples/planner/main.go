// Command planner runs a workflow that spawns three agents at once, each in a worktree of its own, and shows their patches.
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
	"github.com/assent-dev/assent/toolbox"
	"github.com/assent-dev/assent/worktree"
	"github.com/assent-dev/assent/worktree/git"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("planner", flag.ContinueOnError)
	flags.SetOutput(stderr)
	address := flags.String("address", os.Getenv("TEMPORAL_ADDRESS"), "the Temporal server; empty means 127.0.0.1:7233")
	repo := flags.String("repo", ".", "the git repository; it is not changed")
	work := flags.String("work", "planner-work", "the folder of worktrees and blobs")
	if flags.Parse(args) != nil {
		return 2
	}
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	defer stop()
	if err := serve(ctx, *address, *repo, *work, stdout); err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, address, repo, work string, stdout io.Writer) error {
	store, err1 := blob.NewDir(work + "/blobs")
	trees, err2 := git.New(git.Config{Repos: map[string]string{"main": repo}, Root: work + "/trees"})
	c, err3 := client.Dial(client.Options{HostPort: address})
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	defer c.Close()
	defer trees.Close()
	host, err1 := trees.HostID()
	engine, err2 := assent.New(assent.Config{
		Models: map[string]model.Model{"scripted": scripts()}, Tools: toolbox.Files(), Blobs: store, Worktrees: trees, HostID: host, Client: c,
		DecideTimeout: 20 * time.Second, // a decision that comes late denies
		Profiles: map[string]config.Profile{"writer": {Name: "writer", Models: []string{"scripted:intro"}, Tools: []string{"write_file"},
			Isolation: worktree.Isolation{Kind: worktree.Tree, Repo: "main"}}},
	})
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	w := worker.New(c, "planner", worker.Options{Plugins: []worker.Plugin{engine}})
	w.RegisterWorkflow(Plan)
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	plan, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: "planner"}, Plan, []string{"intro", "guide", "index"})
	var pieces []Piece
	if err == nil {
		err = plan.Get(ctx, &pieces)
	}
	return errors.Join(err, show(ctx, store, pieces, stdout), ctx.Err())
}
