// Command embed is a worker with the whole engine. Start an agent on it: starter run --profile clerk --task hi
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
	"go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/scripted"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

type person struct{ Name string }

func greet(context.Context, *tool.Context, person) (string, error) { return "hello", nil }

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("embed", flag.ContinueOnError)
	flags.SetOutput(stderr)
	address := flags.String("address", os.Getenv("TEMPORAL_ADDRESS"), "the Temporal server; empty means 127.0.0.1:7233")
	blobs := flags.String("blobs", "blobs", "the folder of transcripts and large values")
	if flags.Parse(args) != nil {
		return 2
	}
	if err := serve(ctx, *address, *blobs, stdout); err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, address, blobs string, stdout io.Writer) error {
	store, err := blob.NewDir(blobs)
	if err != nil {
		return err
	}
	play, err := scripted.Parse("script", []byte("turns: [{calls: [{tool: greet, args: {Name: ada}}]}, {say: done}]"))
	if err != nil {
		return err
	}
	engine, err := assent.New(assent.Config{
		Models: map[string]model.Model{"scripted": scripted.Set{"clerk": play}}, Blobs: store, DecideTimeout: 20 * time.Second, // a decision that comes late denies
		Profiles:    map[string]config.Profile{"clerk": {Name: "clerk", Models: []string{"scripted:clerk"}, Tools: []string{"greet"}}},
		Tools:       []*tool.Def{tool.MustNew("greet", "Writes a greeting.", greet, tool.Write)},
		Permissions: permission.Layer{Preset: permission.Strict}, // write risk or worse asks
	})
	if err != nil {
		return err
	}
	c, err := client.Dial(client.Options{HostPort: address, Plugins: []client.Plugin{engine}})
	if err != nil {
		return err
	}
	defer c.Close()
	w := worker.New(c, "assent", worker.Options{})
	if err = w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	fmt.Fprintln(stdout, "serving the queue assent")
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	<-ctx.Done()
	return nil
}
