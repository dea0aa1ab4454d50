package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/protocol"
)

func (a *app) watchCommand() *cobra.Command {
	var noWait, children bool
	cmd := &cobra.Command{
		Use:   "watch ID",
		Short: "Show what an agent does until it ends",
		Long: `Show what an agent did and does until it ends: turns, calls with verdicts, questions, results.

Everything comes from the workflow's history, so it needs no worker and shows each event once; while a model speaks, its
words come from the worker. Ctrl-C ends the
watching, not the agent (exit code 130). With --no-wait it shows what there is and exits with 3 if the agent waits for
an answer. With --children it shows the agents that this one starts as well, and ends when all have. Otherwise the exit
code is the agent's: 0 ok, 1 error or cancelled, 4 limit or escalated.`,
		Example: "  starter watch fix-1\n  starter watch fix-1 -o json | jq -c 'select(.event == \"turn\")'",
		GroupID: groupAgents,
		Args:    oneArg("the ID of an agent"),
		RunE: func(cmd *cobra.Command, args []string) error {
			// A demo's server and worker end with the demo; whoever watches it brings them back.
			if a.settings.Address == "" {
				if resumed, err := a.resumeDemo(cmd.Context(), args[0], !noWait); resumed {
					return err
				}
			}
			s, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			p := a.printer(s, args[0])
			if children {
				p.children = map[string]*printer{}
			}
			return a.watch(cmd.Context(), p, !noWait)
		},
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "show what there is and return")
	cmd.Flags().BoolVar(&children, "children", false, "show the agents that this one starts as well")
	a.serverFlags(cmd)
	return cmd
}

// watch prints the events of an agent until it ends, and returns its exit code as an error.
func (a *app) watch(ctx context.Context, p *printer, wait bool) error {
	err := a.follow(ctx, p.server, p.view.id, follow.Options{Wait: wait, FromFirst: true, Live: true, Children: p.children != nil}, p.print)
	switch {
	case ctx.Err() != nil && p.view.end == nil:
		a.note("\nthe agent goes on; come back with: %s", again(p.server, "watch", p.view.id))
		return exit.Code(exit.Interrupted)
	case err != nil:
		return unknownAgent(p.server, p.view.id, err)
	case p.view.end == nil && p.view.suspended():
		return exit.Code(exit.Suspended)
	}
	if end := p.view.end; end != nil && code(end) == exit.Usage {
		return &exit.Error{Code: exit.Usage, Err: errors.New(end.Error)}
	}
	return exit.Code(code(p.view.end))
}

const (
	// hush is how long nothing may happen before a reason is looked for, and lookEvery how often that is done.
	hush      = 3 * time.Second
	lookEvery = 5 * time.Second
)

// follow hands the events of an agent to each, and says on standard error why nothing happens when nothing does.
func (a *app) follow(ctx context.Context, s *connect.Server, id string, o follow.Options, each func(follow.Event) error) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	feed, err := follow.Start(reading, s, id, "", o)
	if err != nil {
		return err
	}
	look := &looker{server: s, id: id}
	quiet := time.NewTimer(hush)
	defer quiet.Stop()
	for {
		select {
		case e, ok := <-feed.Events:
			if !ok {
				_, err := feed.Wait()
				return err
			}
			look.add(e)
			if err := each(e); err != nil {
				return err
			}
			quiet.Reset(hush)
		case <-quiet.C:
			if why := look.why(ctx); why != "" {
				a.note("%s", why)
			}
			quiet.Reset(lookEvery)
		}
	}
}

// looker finds out why nothing happens.
type looker struct {
	server    *connect.Server
	id, queue string
	open      int
	said      string
	// tools are the names of calls whose activity type does not say them, by activity id.
	tools map[string]string
}

func (l *looker) add(e follow.Event) {
	if e.WorkflowID != l.id {
		return
	}
	switch e.Kind {
	case follow.AgentStart:
		l.queue = e.Start.TaskQueue
	case follow.ApprovalPending:
		l.open++
	case follow.ApprovalClosed:
		l.open--
	case follow.ToolStart:
		if l.tools == nil {
			l.tools = map[string]string{}
		}
		l.tools[e.Tool.ActivityID] = e.Tool.Tool
	case follow.ToolEnd:
		delete(l.tools, e.Tool.ActivityID)
	}
}

// named is what a pending activity is called: one of a source's tools by the tool's name.
func (l *looker) named(p *workflowpb.PendingActivityInfo) string {
	name := p.GetActivityType().GetName()
	if t := l.tools[p.GetActivityId()]; name == protocol.ActivityCallTool && t != "" {
		return protocol.ToolPrefix + t
	}
	return name
}

// why returns a line that was not the last one said, or nothing.
func (l *looker) why(ctx context.Context) string {
	why := l.find(ctx)
	if why == l.said {
		return ""
	}
	l.said = why
	return why
}

// stuck is how long a task may wait for a worker.
const stuck = 10 * time.Second

func (l *looker) find(ctx context.Context) string {
	if l.queue == "" {
		return ""
	}
	switch yes, err := served(ctx, l.server, l.queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW); {
	case err == nil && !yes:
		return noWorker(l.server, l.queue)
	case unavailable(err) && ctx.Err() == nil:
		return fmt.Sprintf("the Temporal server at %s does not answer; waiting for it", l.server.Address)
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	desc, err := l.server.DescribeWorkflow(ctx, l.id, "")
	if err != nil {
		return ""
	}
	d := desc.RawResponse
	if t := d.GetPendingWorkflowTask(); t.GetState() == enumspb.PENDING_WORKFLOW_TASK_STATE_SCHEDULED &&
		time.Since(t.GetScheduledTime().AsTime()) > stuck {
		return fmt.Sprintf("no worker takes the agent's task on queue %q; it waits until one does", l.queue)
	}
	for _, p := range d.GetPendingActivities() {
		name := l.named(p)
		switch {
		case p.GetAttempt() > 1 && p.GetLastFailure() != nil:
			return fmt.Sprintf("%s failed and is tried again (attempt %d): %s", name, p.GetAttempt(), oneLine(p.GetLastFailure().GetMessage(), 400))
		case p.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED && l.open == 0:
			return fmt.Sprintf("%s is running", name)
		case p.GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED && time.Since(p.GetScheduledTime().AsTime()) > stuck:
			return fmt.Sprintf("%s waits for a worker", name)
		}
	}
	return ""
}

// noWorker says that nothing can go on, and what would help.
func noWorker(s *connect.Server, queue string) string {
	line := "worker --config assent.yaml --queue " + shellQuote(queue)
	if s.Address != connect.DefaultAddress {
		line += " --address " + shellQuote(s.Address)
	}
	if s.Namespace != connect.DefaultNamespace {
		line += " --namespace " + shellQuote(s.Namespace)
	}
	return fmt.Sprintf("no worker polls queue %q in namespace %q at %s; the agent waits for one. Start it with: go run ./cmd/%s", queue, s.Namespace, s.Address, line)
}
