package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/demo"
	"github.com/assent-dev/assent/internal/exit"
)

// attendant shows a demo's agent and takes the answers of the person at the terminal.
type attendant struct {
	*printer
	run   *demo.Running
	flags demoFlags
	// lines are what standard input says; nil until the first question. eof is set when it said everything. more asks for the
	// next line: nothing is read while an answer is looked at, or an editor has the terminal.
	lines chan string
	more  chan<- struct{}
	eof   bool
	tty   bool
	// closed are the keys of questions that had their answer before this process came; asked those that were put here
	// and wait, in order; sent those that were answered here.
	closed map[string]bool
	asked  []follow.Question
	sent   map[string]bool
	// prompted is true while the cursor stands behind a prompt.
	prompted bool
	crashed  bool
}

// attend shows the agent until it ends or is left, and brings server and worker down.
func (a *app) attend(ctx context.Context, r *demo.Running, f demoFlags, wait bool) error {
	at := &attendant{printer: a.printer(r.Server, r.ID), run: r, flags: f, tty: isTerminal(a.in),
		closed: map[string]bool{}, sent: map[string]bool{}}
	at.web = webOf(r)
	err := at.all(ctx, wait)
	at.newline()
	switch {
	case at.view.end != nil && err == nil:
		return at.finish(ctx)
	case ctx.Err() != nil:
		return at.leave(exit.Interrupted)
	case errors.Is(err, errLeft) || err == nil && at.view.suspended():
		return at.leave(exit.Suspended)
	case err == nil: // without waiting, in the middle of a turn
		return at.leave(exit.OK)
	}
	return exit.WithHint(errors.Join(err, r.Down()), "the demo is kept; see "+r.Dir()+", and go on with: "+self()+" watch "+r.ID)
}

// slow is how long a call may run before it is said that it does.
const slow = 2 * time.Second

// all takes events, lines and misfortunes until the agent ends.
func (a *attendant) all(ctx context.Context, wait bool) error {
	if err := a.past(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	events, failed := a.events(ctx, wait)
	running := time.NewTimer(slow)
	defer running.Stop()
	for {
		// A line that was typed before its question must not answer it, so a terminal is read all the time.
		var lines <-chan string
		if _, open := a.open(); open || a.tty {
			lines = a.lines
		}
		select {
		case e, ok := <-events:
			if !ok {
				return <-failed
			}
			if err := a.event(ctx, e); err != nil {
				return err
			}
			running.Reset(slow)
		case line, ok := <-lines:
			if err := a.line(ctx, line, ok); err != nil {
				return err
			}
			a.more <- struct{}{}
		case <-running.C:
			a.sayRunning()
		case <-a.run.Lost():
			return fmt.Errorf("the worker process %d has ended; see %s", a.run.WorkerPID(), a.run.Log())
		case <-a.run.ServerLost():
			return errors.New("the demo's Temporal server has ended")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// past finds the questions that are answered already, so that nobody is asked again.
func (a *attendant) past(ctx context.Context) error {
	for e, err := range follow.Follow(ctx, a.server, a.run.ID, "", follow.Options{}) {
		if err != nil {
			return unknownAgent(a.server, a.run.ID, err)
		}
		if e.Kind == follow.ApprovalClosed {
			a.closed[e.Closed.Key] = true
		}
	}
	return nil
}

// events follows the agent from its beginning. The error is sent when the events have ended.
func (a *attendant) events(ctx context.Context, wait bool) (<-chan follow.Event, <-chan error) {
	failed := make(chan error, 1)
	feed, err := follow.Start(ctx, a.server, a.run.ID, "", follow.Options{Wait: wait, Live: true})
	if err != nil {
		none := make(chan follow.Event)
		close(none)
		failed <- err
		return none, failed
	}
	events := make(chan follow.Event)
	go func() {
		defer close(events)
		for e := range feed.Events {
			select {
			case events <- e:
			case <-ctx.Done():
				failed <- ctx.Err()
				return
			}
		}
		_, err := feed.Wait()
		failed <- err
	}()
	return events, failed
}

func (a *attendant) event(ctx context.Context, e follow.Event) error {
	a.newline()
	switch {
	case e.Kind == follow.AgentEnd && !a.json():
		a.view.add(e) // the end of a demo has words of its own
		return nil
	case e.Kind == follow.ToolEnd && !a.json() && a.commandOutput(*e.Tool):
		a.view.add(e)
		return nil
	}
	// A question that has its answer is told, not put.
	a.quiet = e.Kind == follow.ApprovalPending && a.closed[e.Question.Key]
	if err := a.print(e); err != nil {
		return err
	}
	switch e.Kind {
	case follow.ApprovalPending:
		return a.question(ctx, e)
	case follow.ApprovalClosed:
		a.asked = slices.DeleteFunc(a.asked, func(q follow.Question) bool { return q.Key == e.Closed.Key })
		a.prompt()
	case follow.ApprovalVote:
		a.stillOpen(e.Progress.Key)
	case follow.ApprovalIgnored:
		a.stillOpen(e.Ignored.Key)
	}
	return nil
}

// sayRunning tells that a call takes its time.
func (a *attendant) sayRunning() {
	if a.json() || len(a.asked) > 0 {
		return
	}
	for _, c := range a.view.calls {
		if c.state == "running" {
			a.printf("         %s\n", a.style.dim("… "+oneLine(c.decided.Tool, mostLine)+" is running"))
		}
	}
}

// question takes a question that is open: it has been shown by now.
func (a *attendant) question(ctx context.Context, e follow.Event) error {
	q := *e.Question
	if a.closed[q.Key] {
		if !a.json() {
			a.printf("  %s  %s  %s  %s\n", pad("ask", a.style.yellow("ask"), 5), a.style.bold(oneLine(q.Tool, mostLine)),
				callText(q.Input, q.InputRef), a.style.dim(because(q.Decision)))
		}
		return nil
	}
	if a.json() {
		// Standard output is for programs; the person is asked beside it.
		aside := *a.app
		aside.out, aside.style, aside.output = a.err, a.errStyle, outputText
		people := &printer{app: &aside, server: a.server, view: a.view, web: a.web}
		people.pending(e)
	}
	if a.flags.crash && !a.crashed {
		if err := a.crash(ctx); err != nil {
			return err
		}
	}
	if a.flags.yes {
		return a.reply(ctx, approval.Resolution{Key: q.Key, Decision: approval.Allow, Reason: "starter demo --yes"})
	}
	a.asked = append(a.asked, q)
	if a.lines == nil {
		a.lines, a.more = readLines(a.in)
	}
	if a.eof {
		return errLeft
	}
	a.prompt()
	return nil
}

// crash kills the worker and starts it again.
func (a *attendant) crash(ctx context.Context) error {
	a.crashed = true
	pid := a.run.WorkerPID()
	a.run.KillWorker()
	a.say("  %s   worker process %d was killed (SIGKILL); the question stays on the server", a.style.red("crash"), pid)
	if err := a.run.StartWorker(ctx); err != nil {
		return err
	}
	a.say("  %s   worker process %d has taken over", a.style.green("back "), a.run.WorkerPID())
	return nil
}

// say prints a line of the demo itself, which is no event of the agent.
func (a *attendant) say(format string, args ...any) {
	w := a.out
	if a.json() {
		w = a.err
	}
	fmt.Fprintf(w, format+"\n", args...)
}

// leave brings everything down and says how to come back.
func (a *attendant) leave(code int) error {
	if code == exit.Interrupted {
		a.note("\ninterrupted; the worker and the server are being ended")
	}
	if err := a.run.Down(); err != nil {
		return err
	}
	if a.view.suspended() {
		a.note("the agent waits for an answer; its server and worker have ended. Bring them back with:")
	} else {
		a.note("the agent stands still; its server and worker have ended. Bring them back with:")
	}
	fmt.Fprintf(a.err, "  %s watch %s\n", self(), a.run.ID)
	return exit.Code(code)
}

// readLines reads in the background, one line each time it is told to; the first without being told. The channel of lines is
// closed at the end of the input.
func readLines(r io.Reader) (chan string, chan<- struct{}) {
	lines, more := make(chan string), make(chan struct{}, 1)
	more <- struct{}{}
	go func() {
		defer close(lines)
		s := bufio.NewScanner(r)
		s.Buffer(nil, approval.MaxAnswer)
		for range more {
			if !s.Scan() {
				return
			}
			lines <- s.Text()
		}
	}()
	return lines, more
}

func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
