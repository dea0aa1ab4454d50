package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/devserver"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/scripted"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// bench is a server with a worker for each kind.
type bench struct {
	client  client.Client
	closers []func()
	n       atomic.Int64
	engine  *assent.Plugin
	// ran gets the moment at which a call runs, if somebody waits for it.
	ran chan time.Time
}

// work is the argument and the result of every call.
type work struct {
	Text string `json:"text"`
	N    int    `json:"n"`
}

// work is the body of every call, of both kinds.
func (b *bench) work(_ context.Context, in work) (work, error) {
	select {
	case b.ran <- time.Now():
	default:
	}
	return in, nil
}

// marked is work that tells the server first that it begins, and waits until the server has it.
func (b *bench) marked(ctx context.Context, in work) (work, error) {
	info := activity.GetInfo(ctx)
	o := client.RecordActivityHeartbeatOptions{TaskToken: info.TaskToken, Details: []any{protocol.Begun}, Namespace: info.Namespace}
	if err := b.client.RecordActivityHeartbeatWithOptions(ctx, o); err != nil {
		return work{}, err
	}
	return b.work(ctx, in)
}

func (b *bench) tool(name string, o ...tool.Option) *tool.Def {
	return tool.MustNew(name, "Does nothing.", func(ctx context.Context, _ *tool.Context, in work) (work, error) { return b.work(ctx, in) }, o...)
}

func (b *bench) close() {
	for _, f := range slices.Backward(b.closers) {
		f()
	}
}

func newBench(ctx context.Context, stderr io.Writer) (b *bench, err error) {
	b = &bench{ran: make(chan time.Time, 1)}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	bin, err := devserver.Locate(ctx, devserver.Options{Progress: stderr})
	if err != nil {
		return b, err
	}
	server, err := devserver.Start(ctx, devserver.StartOptions{Binary: bin})
	if err != nil {
		return b, err
	}
	b.closers = append(b.closers, func() { _ = server.Stop(context.Background()) })
	quiet := slog.New(slog.DiscardHandler)
	if b.client, err = client.Dial(client.Options{HostPort: server.Address(), Logger: sdklog.NewStructuredLogger(quiet)}); err != nil {
		return b, err
	}
	b.closers = append(b.closers, b.client.Close)
	dir, err := os.MkdirTemp("", "assent-bench-")
	if err != nil {
		return b, err
	}
	b.closers = append(b.closers, func() { _ = os.RemoveAll(dir) })
	return b, b.workers(dir, quiet)
}

// newEngine makes the plugin of the worker that runs agents.
func (b *bench) newEngine(dir string, log *slog.Logger) error {
	store, err := blob.NewDir(dir)
	if err != nil {
		return err
	}
	scripts, err := scripts()
	if err != nil {
		return err
	}
	b.engine, err = assent.New(assent.Config{
		Models: map[string]model.Model{"scripted": scripts}, Blobs: store, GrantKeys: keys(), Log: log,
		Profiles: map[string]config.Profile{"p": {Name: "p", Models: []string{"scripted:gate"}, Tools: []string{"work", "look", "ask", "peek"},
			Limits: protocol.Limits{MaxTurns: protocol.MostTurns, MaxToolCalls: protocol.MostToolCalls, MaxIdleTurns: protocol.MostTurns}}},
		Tools: []*tool.Def{b.tool("work", tool.Write), b.tool("look", tool.Read), b.tool("ask", tool.Write, tool.NeedsApproval()),
			b.tool("peek", tool.Read, tool.NeedsApproval())},
	})
	return err
}

// workers starts a bare worker, a guarded one and an engine.
func (b *bench) workers(dir string, log *slog.Logger) error {
	guard, err := assent.NewGuard(assent.GuardConfig{Tools: map[string]tool.Options{"Work": {Risk: tool.Write}},
		Permissions: permission.Layer{Preset: permission.Standard}, GrantKeys: keys(), Log: log})
	if err != nil {
		return err
	}
	if err := b.newEngine(dir, log); err != nil {
		return err
	}
	for queue, plugins := range map[string][]sdkworker.Plugin{"bare": nil, "gated": {guard}, "agent": {b.engine}} {
		w := sdkworker.New(b.client, queue, sdkworker.Options{Plugins: plugins})
		w.RegisterWorkflowWithOptions(loop, workflow.RegisterOptions{Name: "Loop"})
		w.RegisterWorkflowWithOptions(bareAgent, workflow.RegisterOptions{Name: "BareAgent"})
		w.RegisterActivityWithOptions(b.work, activity.RegisterOptions{Name: "Work"})
		w.RegisterActivityWithOptions(b.marked, activity.RegisterOptions{Name: "Marked"})
		w.RegisterActivityWithOptions(think, activity.RegisterOptions{Name: "Think"})
		if err := w.Start(); err != nil {
			return err
		}
		b.closers = append(b.closers, w.Stop)
	}
	return nil
}

func keys() []protocol.GrantKey {
	return []protocol.GrantKey{{ID: "bench", Secret: []byte("a secret that is shared by nobody")}}
}

// shapes are the agents that are measured, by the name of their script.
var shapes = map[string]shape{
	"gate":   {Turns: calls, Calls: 1},
	"single": {Turns: 20, Calls: 1},
	"marked": {Turns: 20, Calls: 1, Marked: true},
	"read":   {Turns: 20, Calls: 1, Reads: true},
	"reads":  {Turns: 10, Calls: 10, Reads: true},
	"reads3": {Turns: 3, Calls: 1, Reads: true},
	"three":  {Turns: 3, Calls: 1},
	"peeks":  {Turns: 60, Calls: 1, Reads: true, Asked: true},
	"asks":   {Turns: 60, Calls: 1, Asked: true},
	"marks":  {Turns: 60, Calls: 1, Asked: true, Marked: true},
	"ask1":   {Turns: 1, Calls: 1, Asked: true},
	"ask8":   {Turns: 1, Calls: 8, Asked: true},
	"signs1": {Turns: 1, Calls: 1, Asked: true, Signs: true},
	"signs8": {Turns: 1, Calls: 8, Asked: true, Signs: true},
	"long":   {Turns: 50, Calls: 20},
}

// scripts has the model of each shape.
func scripts() (scripted.Set, error) {
	set := scripted.Set{}
	for name, s := range shapes {
		uses := "work"
		switch {
		case s.Reads && s.Asked:
			uses = "peek"
		case s.Reads:
			uses = "look"
		case s.Asked:
			uses = "ask"
		}
		var one []string
		for i := range s.Calls {
			one = append(one, fmt.Sprintf("{tool: %s, args: {text: x, n: %d}}", uses, i))
		}
		turn := "  - calls: [" + strings.Join(one, ", ") + "]\n"
		m, err := scripted.Parse(name+".yaml", []byte("turns:\n"+strings.Repeat(turn, s.Turns)+"  - say: done\n"))
		if err != nil {
			return nil, err
		}
		set[name] = m
	}
	return set, nil
}
