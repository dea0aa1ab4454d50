package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/demo"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/follow"
	"github.com/assent-dev/assent/protocol"
)

// attendant shows a demo's agent and takes the answers of the person at the terminal.
type attendant struct {
	*printer
	run   *demo.Running
	flags demoFlags
	// lines are what standard input says; nil until the first question. eof is set when it said everything.
	lines chan string
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

// errLeft says that the person at the terminal leaves the agent waiting.
var errLeft = errors.New("left waiting")

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
	events, failed := make(chan follow.Event), make(chan error, 1)
	go func() {
		defer close(events)
		for e, err := range follow.Follow(ctx, a.server, a.run.ID, "", follow.Options{Wait: wait}) {
			if err != nil {
				failed <- err
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
				failed <- ctx.Err()
				return
			}
		}
		failed <- nil
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
		return a.reply(ctx, q, approval.Allow, "starter demo --yes")
	}
	a.asked = append(a.asked, q)
	if a.lines == nil {
		a.lines = readLines(a.in)
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

func (a *attendant) reply(ctx context.Context, q follow.Question, choice approval.Choice, reason string) error {
	a.sent[q.Key] = true
	r := approval.Resolution{Key: q.Key, Decision: choice, By: whoami(), Reason: reason}
	if err := a.server.SignalWorkflow(ctx, a.run.ID, "", protocol.SignalApproval, r); err != nil {
		return fmt.Errorf("answer %q: %w", q.Key, err)
	}
	return nil
}

const choices = "[a]llow  [d]eny  [w]hy  [q]uit and leave it waiting"

// open is the first question that nobody has answered here.
func (a *attendant) open() (follow.Question, bool) {
	for _, q := range a.asked {
		if !a.sent[q.Key] {
			return q, true
		}
	}
	return follow.Question{}, false
}

// prompt asks about the first open question.
func (a *attendant) prompt() {
	q, ok := a.open()
	if !ok {
		return
	}
	text := choices
	if len(a.asked) > 1 {
		text = q.Key + "   " + text
	}
	w := a.out
	if a.json() {
		w = a.err
	}
	if a.prompted = a.tty; a.prompted {
		fmt.Fprintf(w, "  %s: ", text)
		return
	}
	fmt.Fprintf(w, "  %s\n", text)
}

// newline ends a prompt that was overtaken.
func (a *attendant) newline() {
	if a.prompted {
		a.say("")
		a.prompted = false
	}
}

// line takes what was typed; ok is false at the end of the input.
func (a *attendant) line(ctx context.Context, line string, ok bool) error {
	q, asked := a.open()
	if !ok {
		a.eof, a.lines = true, make(chan string) // which nothing is ever sent on
		if asked {
			return errLeft
		}
		return nil
	}
	if !asked {
		return nil
	}
	a.prompted = false
	word, reason, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch strings.ToLower(word) {
	case "a", "allow", "y", "yes":
		return a.reply(ctx, q, approval.Allow, strings.TrimSpace(reason))
	case "d", "deny", "n", "no":
		return a.reply(ctx, q, approval.Deny, strings.TrimSpace(reason))
	case "w", "why":
		a.why(q)
	case "q", "quit":
		return errLeft
	case "":
	default:
		a.say("  %q is none of these", line)
	}
	a.prompt()
	return nil
}

// why says everything that is known of the decision to ask.
func (a *attendant) why(q follow.Question) {
	d := q.Decision
	a.say("  decided by   %s", because(d))
	for _, s := range d.Segments {
		a.say("  part         %s", partText(s))
	}
	for _, v := range d.Advisories {
		a.say("  note         %s", advisoryText(v))
	}
	a.say("  policy       %s", d.PolicyDigest)
	a.say("  call         %s, asked %s", q.CallID, q.AskedAt.Local().Format(time.DateTime))
	a.say("  Nothing has run. Allow holds once, for exactly these arguments, and is judged again before it takes effect;")
	a.say("  after a deny the agent reads your reason and goes on.")
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

// readLines reads in the background; the channel is closed at the end of the input.
func readLines(r io.Reader) chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines
}

func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
