// Command storage runs an agent whose blobs and whose large Temporal payloads are in one store, and says what is in it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/garbage"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/scripted"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/storage"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	if len(args) != 2 {
		fmt.Fprintln(stderr, "usage: storage ADDRESS-OF-TEMPORAL FOLDER-OF-BLOBS")
		return 2
	}
	if err := share(ctx, args[0], args[1], fmt.Sprint("storage-", time.Now().UnixNano()), stdout); err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	return 0
}

func share(ctx context.Context, address, folder, id string, stdout io.Writer) error {
	store, err := blob.NewDir(folder)
	if err != nil {
		return err
	}
	driver, err := storage.NewDriver(store, "")
	external := converter.ExternalStorage{Drivers: []converter.StorageDriver{driver}, PayloadSizeThreshold: 64 << 10}
	play, err2 := scripted.Parse("script", []byte("turns: [{say: That was long.}]"))
	engine, err3 := assent.New(assent.Config{Models: map[string]model.Model{"scripted": scripted.Set{"s": play}}, Blobs: store,
		Profiles: map[string]config.Profile{"p": {Name: "p", Models: []string{"scripted:s"}}}})
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	c, err := client.Dial(client.Options{HostPort: address, Plugins: []client.Plugin{engine}, ExternalStorage: external})
	if err != nil {
		return err
	}
	defer c.Close()
	w := worker.New(c, id, worker.Options{})
	defer w.Stop()
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: id}, protocol.WorkflowAgent,
		protocol.AgentInput{AgentType: "p", Prompt: strings.Repeat("a long prompt ", 10<<10)})
	if err = errors.Join(err, w.Start()); err != nil {
		return err
	}
	var res protocol.AgentResult
	if err := run.Get(ctx, &res); err != nil {
		return err
	}
	report, err := garbage.Look(ctx, store, garbage.Options{Drivers: external.Drivers, Since: time.Now().Add(-time.Hour),
		Sources: []garbage.Source{{Client: c, Namespace: "default", Query: "WorkflowId='" + id + "'"}}})
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s: %s %d blobs, %d that nobody needs\n", res.Status, res.Output, len(report.Entries), len(report.Unused(time.Now())))
	return nil
}
