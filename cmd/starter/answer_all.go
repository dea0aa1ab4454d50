package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/exit"
)

const (
	// answerAtOnce bounds the answers under way to one run: the server refuses more than ten updates of a workflow at once.
	answerAtOnce = 8
	// runsAtOnce bounds the runs that are answered at once.
	runsAtOnce = 8
	// quietWithin is how long nothing may become of any answer to a run before the rest is given up as taken.
	quietWithin = 15 * time.Second
	// progressEvery is how often a long command says how far it is.
	progressEvery = 2 * time.Second
)

// batch is what is answered at once in one run.
type batch struct {
	run     asking
	answers []approval.Resolution
}

// answerAll answers every question that the flags select.
func (a *app) answerAll(ctx context.Context, choice approval.Choice, f answerFlags) error {
	r, err := f.resolution(choice)
	if err != nil {
		return err
	}
	by, err := f.signer(r.By)
	if err != nil {
		return err
	}
	if (a.json() || !isTerminal(a.in)) && !f.yes {
		return exit.Usagef("see them with: starter approvals, then: starter "+word(choice)+" --all --yes", "nobody is there to be asked: --all needs --yes")
	}
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	fd := newFinder(s)
	runs, left, err := a.selected(ctx, fd, f)
	if err != nil {
		return err
	}
	batches, refused := a.batches(ctx, fd, runs, r, by, f.tool)
	n := 0
	for _, run := range runs {
		if run.more > 0 {
			a.note("%s of %s did not fit into its list; come again for them", count(run.more, "more question"), oneLine(run.id, mostLine))
		}
	}
	for _, b := range batches {
		n += len(b.answers)
	}
	if left > 0 {
		a.note("%s more were not asked; answer these first and come again", count(left, "run"))
	}
	if n+len(refused) == 0 {
		return exit.Failf("", "no question waits %s", f.where(s))
	}
	if n > 0 && !f.yes {
		switch yes, err := a.confirm(choice, batches, n); {
		case err != nil:
			return err
		case !yes:
			return exit.Failf("", "nothing was answered")
		}
	}
	return a.giveAll(ctx, fd, choice, batches, refused, n)
}

// where says which questions were looked for.
func (f *answerFlags) where(s *connect.Server) string {
	of := fmt.Sprintf("in namespace %q at %s", s.Namespace, s.Address)
	switch {
	case f.workflow != "":
		of = fmt.Sprintf("in agent %q", f.workflow)
	case f.query != "":
		of += fmt.Sprintf(" in a run of %q", f.query)
	}
	if f.tool != "" {
		of += fmt.Sprintf(" about the tool %q", f.tool)
	}
	return of
}

// selected are the runs that the flags mean, and how many were left out because there are too many.
func (a *app) selected(ctx context.Context, fd *finder, f answerFlags) ([]asking, int, error) {
	stop := a.progress(func() string { return "asking the runs for what waits" })
	defer stop()
	switch {
	case f.workflow != "":
		run, err := fd.byID(ctx, f.workflow)
		return []asking{run}, 0, err
	case f.query != "":
		return fd.those(ctx, "("+f.query+") AND ExecutionStatus='Running'")
	}
	return fd.all(ctx)
}

// batches are the answers to all questions of runs; refused says which cannot be given.
func (a *app) batches(ctx context.Context, fd *finder, runs []asking, r approval.Resolution, by signer, tool string) (out []batch, refused []error) {
	for _, run := range runs {
		b := batch{run: run}
		for _, q := range run.pending {
			if tool != "" && q.Tool != tool {
				continue
			}
			if by.key != nil {
				q = fd.whole(ctx, run, q)
			}
			one := r
			one.Key = q.Key
			signed, err := by.sign(q, run.source, one)
			if err != nil {
				refused = append(refused, err)
				continue
			}
			b.answers = append(b.answers, signed)
		}
		if len(b.answers) > 0 {
			out = append(out, b)
		}
	}
	return out, refused
}

// confirm shows what would be answered and asks whether it shall be.
func (a *app) confirm(choice approval.Choice, batches []batch, n int) (bool, error) {
	for _, b := range batches {
		for _, r := range b.answers {
			q := b.run.question(r.Key)
			a.printf("%s   %s   %s   %s\n", a.style.bold(r.Key), oneLine(b.run.id, mostLine), oneLine(q.Tool, mostLine), callText(q.Input, nil))
		}
	}
	verb := map[approval.Choice]string{approval.Allow: "allow", approval.Deny: "deny"}[choice]
	fmt.Fprintf(a.err, "%s %s in %s? [y/N] ", verb, count(n, "call"), count(len(batches), "run"))
	line, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil && line == "" {
		return false, exit.Failf("", "nothing was answered")
	}
	word := strings.ToLower(strings.TrimSpace(line))
	return word == "y" || word == "yes", nil
}

// result is what became of one answer of many.
type result struct {
	Key        string          `json:"key"`
	Decision   approval.Choice `json:"decision"`
	WorkflowID string          `json:"workflowId"`
	By         string          `json:"by,omitempty"`
	outcome
	Error string `json:"error,omitempty"`
}

// giveAll gives all answers, prints one line for each and a summary.
func (a *app) giveAll(ctx context.Context, fd *finder, choice approval.Choice, batches []batch, refused []error, n int) error {
	var mu sync.Mutex
	done, failed := 0, 0
	report := func(b batch, r approval.Resolution, o outcome, err error) {
		mu.Lock()
		defer mu.Unlock()
		if done++; err != nil || o.failed(r) {
			failed++
		}
		a.line(b, r, o, err)
	}
	stop := a.progress(func() string {
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprintf("%d of %d", done, n)
	})
	room := make(chan struct{}, runsAtOnce)
	var wg sync.WaitGroup
	for _, b := range batches {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			giveBatch(ctx, fd, b, func(r approval.Resolution, o outcome, err error) { report(b, r, o, err) })
		})
	}
	wg.Wait()
	stop()
	for _, err := range refused {
		failed++
		a.refused(err)
	}
	if !a.json() {
		past := map[approval.Choice]string{approval.Allow: "allowed", approval.Deny: "denied"}[choice]
		a.printf("%s %d of %s in %s\n", past, n+len(refused)-failed, count(n+len(refused), "call"), count(len(batches), "run"))
	}
	if failed > 0 {
		return exit.Code(exit.Failed)
	}
	return ctx.Err()
}

// giveBatch answers one run and tells what became of each answer.
func giveBatch(ctx context.Context, fd *finder, b batch, tell func(approval.Resolution, outcome, error)) {
	w := fd.witness(ctx, b.run)
	var mu sync.Mutex
	var taken []approval.Resolution
	room := make(chan struct{}, answerAtOnce)
	var wg sync.WaitGroup
	for _, r := range b.answers {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			o, err := give(ctx, fd.server, b.run, r)
			if err != nil || o.Via == "signal" {
				tell(r, o, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			taken = append(taken, r)
		})
	}
	wg.Wait()
	if len(taken) == 0 {
		return
	}
	told := map[string]bool{}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := time.AfterFunc(quietWithin, cancel)
	defer quiet.Stop()
	w.watch(ctx, taken, func(r approval.Resolution, o outcome) {
		quiet.Reset(quietWithin)
		told[r.Key], o.Via = true, "update"
		tell(r, o, nil)
	})
	for _, r := range taken {
		if !told[r.Key] {
			tell(r, outcome{Via: "update"}, nil)
		}
	}
}

// line prints what became of one answer.
func (a *app) line(b batch, r approval.Resolution, o outcome, err error) {
	if a.json() {
		out := result{Key: r.Key, Decision: r.Decision, WorkflowID: b.run.id, By: r.By, outcome: o}
		if err != nil {
			out.Error = err.Error()
		}
		_ = a.printJSON(out) // a failed write is reported by the stream
		return
	}
	switch {
	case err != nil:
		a.printf("%s %s in %s: %s\n", a.style.red("failed"), r.Key, oneLine(b.run.id, mostLine), oneLine(err.Error(), 400))
	case o.failed(r):
		a.printf("%s %s\n", a.style.red("failed"), strings.ReplaceAll(o.why(r), "\n", "\n  "))
	default:
		a.printf("%s\n", a.became(b.run, r, o, ""))
	}
}

// refused prints an answer that was not given.
func (a *app) refused(err error) {
	if a.json() {
		_ = a.printJSON(struct { // a failed write is reported by the stream
			Error string `json:"error"`
		}{err.Error()})
		return
	}
	a.printf("%s %s\n", a.style.red("failed"), oneLine(err.Error(), 400))
	var e *exit.Error
	if errors.As(err, &e) && e.Hint != "" {
		a.note("%s", e.Hint)
	}
}

// progress says now and then how far a long command is, until it is stopped.
func (a *app) progress(what func() string) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				a.note("%s …", what())
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}
