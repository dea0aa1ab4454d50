package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/exit"
)

// answerFlags are the flags of approve, deny and revoke.
type answerFlags struct {
	workflow, reason, by string
	// edit, input and inputFile bring other arguments.
	edit             bool
	input, inputFile string
	always           bool
	expires          string
	// sign is the file of a private key.
	sign   string
	unseen bool
	// all answers every question that query, workflow and tool leave.
	all, yes    bool
	query, tool string
}

func (a *app) approveCommand() *cobra.Command {
	var f answerFlags
	cmd := a.answerCommand(approval.Allow, &f)
	cmd.Use, cmd.Short = "approve KEY | approve --all", "Allow the call that a question is about"
	cmd.Long = cmd.Short + `.

` + howAnswersGo + `

--edit opens $VISUAL or $EDITOR on the arguments; --input and --input-file take them from elsewhere. Edited arguments are
judged again before they run, and the agent is told of them. --sign proves who answers, with the private key of a
principal that engine.keys names; a question whose arguments do not have the digest that is signed is refused.`
	cmd.Example = `  starter approve shell-3f9a1c07
  starter approve shell-3f9a1c07 --edit
  starter approve shell-3f9a1c07 --input '{"command":"go vet ./..."}' --reason 'vet is enough'
  starter approve shell-3f9a1c07 --sign ~/alice.pem --by alice --expires 1h
  starter approve --all --query "AssentAgent='fixer'" --tool shell`
	flags := cmd.Flags()
	flags.BoolVar(&f.edit, "edit", false, "change the arguments in $VISUAL or $EDITOR first")
	flags.StringVar(&f.input, "input", "", "other arguments, a JSON object; - is standard input")
	flags.StringVar(&f.inputFile, "input-file", "", "file with other arguments, a JSON object")
	flags.BoolVar(&f.always, "always", false, "vet the command: no more questions about it in this run")
	flags.StringVar(&f.expires, "expires", "", "how long, or until when (RFC 3339), the call may start")
	return cmd
}

func (a *app) denyCommand() *cobra.Command {
	var f answerFlags
	cmd := a.answerCommand(approval.Deny, &f)
	cmd.Use, cmd.Short = "deny KEY --reason TEXT | deny --all --reason TEXT", "Deny the call that a question is about"
	cmd.Long = cmd.Short + ".\n\n" + howAnswersGo
	cmd.Example = "  starter deny shell-3f9a1c07 --reason 'not on a Friday'\n  starter deny --all -w fix-1 --reason 'stop here' --yes"
	return cmd
}

const howAnswersGo = `The answer goes as an update, which is checked at once; where no worker answers it goes as a signal, which takes effect
when one does. The name of who answers is self-asserted unless the answer is signed: it is $USER unless --by says
otherwise, and nobody checks it. The same key can be open in several agents: -w ID names one, or KEY@ID.

--all answers every question of the runs that wait, or of those that a visibility query or -w selects. It shows them and
asks before it does anything; where there is no terminal it needs --yes.`

// answerCommand has what approve and deny share.
func (a *app) answerCommand(choice approval.Choice, f *answerFlags) *cobra.Command {
	cmd := &cobra.Command{
		GroupID: groupApprovals,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.all && len(args) == 0 {
				return nil
			}
			if f.all {
				return exit.Usagef("leave one of them out: starter "+word(choice)+" --all", "--all and the KEY %q exclude each other", args[0])
			}
			return oneArg("the KEY of a question")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(choice); err != nil {
				return err
			}
			if f.all {
				return a.answerAll(cmd.Context(), choice, *f)
			}
			return a.answer(cmd.Context(), args[0], choice, *f)
		},
	}
	a.whoFlags(cmd, f)
	flags := cmd.Flags()
	flags.BoolVar(&f.all, "all", false, "answer every question that waits")
	flags.StringVar(&f.query, "query", "", "with --all: of the runs that this visibility query selects")
	flags.StringVar(&f.tool, "tool", "", "with --all: about calls of this tool only")
	flags.BoolVar(&f.yes, "yes", false, "with --all: do not ask")
	a.serverFlags(cmd)
	return cmd
}

// whoFlags are those of every answer.
func (a *app) whoFlags(cmd *cobra.Command, f *answerFlags) {
	flags := cmd.Flags()
	flags.StringVarP(&f.workflow, "workflow", "w", "", "ID of the agent, or of one above it, when the key alone means several")
	flags.StringVar(&f.reason, "reason", "", "why; the agent reads it")
	flags.StringVar(&f.by, "by", "", "who answers (default $USER; self-asserted, or the name of the key with --sign)")
	flags.StringVar(&f.sign, "sign", "", "sign with the ed25519 private key in this PEM file")
	flags.BoolVar(&f.unseen, "unseen", false, "with --sign: also where the arguments cannot be shown and compared")
}

// check refuses flags that do not go together.
func (f *answerFlags) check(choice approval.Choice) error {
	hint := "see: starter " + word(choice) + " --help"
	edits := 0
	for _, given := range []bool{f.edit, f.input != "", f.inputFile != ""} {
		if given {
			edits++
		}
	}
	switch {
	case choice == approval.Deny && strings.TrimSpace(f.reason) == "":
		return exit.Usagef("the agent reads it: --reason 'use the staging database'", "--reason is missing")
	case edits > 1:
		return exit.Usagef(hint, "--edit, --input and --input-file exclude each other")
	case f.all && edits > 0:
		return exit.Usagef("edit one call by its key: starter approve KEY --edit", "--all cannot edit arguments")
	case f.unseen && f.sign == "":
		return exit.Usagef("starter "+word(choice)+" KEY --sign FILE --unseen", "--unseen needs --sign")
	case f.query != "" && f.workflow != "":
		return exit.Usagef(hint, "--query and --workflow exclude each other")
	case !f.all && (f.query != "" || f.tool != "" || f.yes):
		return exit.Usagef("starter "+word(choice)+` --all --query "AssentAgent='fixer'"`, "--query, --tool and --yes need --all")
	}
	_, err := f.until(time.Now())
	return err
}

// until is the last moment at which the call may start, or nil.
func (f *answerFlags) until(now time.Time) (*time.Time, error) {
	const hint = "for example: --expires 2h, or --expires 2030-01-02T15:04:05Z"
	if f.expires == "" {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, f.expires)
	if err != nil {
		d, err := time.ParseDuration(f.expires)
		if err != nil {
			return nil, exit.Usagef(hint, "--expires %q is neither a duration nor a time in RFC 3339", f.expires)
		}
		at = now.Add(d)
	}
	if !at.After(now) {
		return nil, exit.Usagef(hint, "--expires %q is over already", f.expires)
	}
	at = at.UTC().Truncate(time.Second)
	return &at, nil
}

// whoami is the name an answer is given under. Nothing proves it.
func whoami() string {
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

// resolution is what the flags say to every question.
func (f *answerFlags) resolution(choice approval.Choice) (approval.Resolution, error) {
	r := approval.Resolution{Decision: choice, Reason: f.reason, By: f.by, Always: f.always}
	if r.By == "" {
		r.By = whoami()
	}
	var err error
	r.ExpiresAt, err = f.until(time.Now())
	return r, err
}

func (a *app) answer(ctx context.Context, key string, choice approval.Choice, f answerFlags) error {
	r, err := f.resolution(choice)
	if err != nil {
		return err
	}
	by, err := f.signer(r.By)
	if err != nil {
		return err
	}
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	fd := newFinder(s)
	key, f.workflow = whose(key, f.workflow)
	run, err := a.locate(ctx, fd, key, choice, f.workflow)
	if err != nil {
		return err
	}
	q := *run.question(key)
	if f.edit || by.key != nil {
		q = fd.whole(ctx, run, q)
	}
	if r.Input, err = a.edited(ctx, f, q); err != nil {
		return err
	}
	r.Key = key
	if r, err = by.sign(q, run.source, r); err != nil {
		return err
	}
	if err := fits(r); err != nil {
		return err
	}
	got, err := send(ctx, fd, run, r)
	if err != nil {
		return err
	}
	return a.answered(s, run, r, got)
}

// whose splits KEY@ID, by which answers to a tree name the question of one workflow. No key has an @.
func whose(key, workflow string) (string, string) {
	if k, id, ok := strings.Cut(key, "@"); ok && k != "" && id != "" {
		return k, id
	}
	return key, workflow
}

// question is the open question of a key, or nil.
func (run asking) question(key string) *approval.Approval {
	for i := range run.pending {
		if run.pending[i].Key == key {
			return &run.pending[i]
		}
	}
	return nil
}

// named reports whether a key can be answered in a run.
func (run asking) named(key string, choice approval.Choice) bool {
	if choice == approval.Revoke {
		for _, g := range run.granted {
			if g.Key == key {
				return true
			}
		}
	}
	return run.question(key) != nil
}

// locate finds the one run in which a key can be answered.
func (a *app) locate(ctx context.Context, fd *finder, key string, choice approval.Choice, id string) (asking, error) {
	var runs []asking
	if id != "" {
		run, err := fd.byID(ctx, id)
		if err != nil {
			return asking{}, err
		}
		if runs = []asking{run}; !run.named(key, choice) {
			if runs, err = fd.tree(ctx, id); err != nil {
				return asking{}, err
			}
		}
	} else {
		var err error
		if runs, _, err = fd.all(ctx); err != nil {
			return asking{}, err
		}
	}
	var hits []asking
	for _, run := range runs {
		if run.named(key, choice) {
			hits = append(hits, run)
		}
	}
	switch {
	case len(hits) == 1:
		return hits[0], nil
	case len(hits) > 1:
		return asking{}, ambiguous(fd.server, key, choice, hits)
	}
	if err := settled(key, choice, runs); err != nil {
		return asking{}, err
	}
	return asking{}, notPending(fd.server, key, id, runs)
}

// settled says how a question ended that was named too late; nil if nobody knows of it.
func settled(key string, choice approval.Choice, runs []asking) error {
	for _, run := range runs {
		for _, c := range run.closed {
			switch {
			case c.Key != key:
			case choice == approval.Revoke && c.How == approval.Allowed:
				return exit.Failf("", "the call of %s has ended in %s: nothing to revoke", key, oneLine(run.id, mostLine))
			default:
				by := ""
				if c.By != "" {
					by = " by " + oneLine(c.By, mostLine)
				}
				return exit.Failf("", "%s was %s%s before in %s", key, c.How, by, oneLine(run.id, mostLine))
			}
		}
	}
	return nil
}

// word is the command that gives an answer.
func word(choice approval.Choice) string {
	switch choice {
	case approval.Allow:
		return "approve"
	case approval.Revoke:
		return "revoke"
	}
	return "deny"
}

func ambiguous(s *connect.Server, key string, choice approval.Choice, hits []asking) error {
	var b strings.Builder
	for _, run := range hits {
		fmt.Fprintf(&b, "\n%s", oneLine(run.id, mostLine))
		if q := run.question(key); q != nil {
			fmt.Fprintf(&b, "   %s   %s", q.Tool, callText(q.Input, nil))
		}
	}
	return exit.Usagef("name one: "+again(s, word(choice), key, "-w", hits[0].id), "approval %q waits in %s:%s", key, count(len(hits), "agent"), b.String())
}

// notPending lists what could have been meant.
func notPending(s *connect.Server, key, id string, runs []asking) error {
	where := fmt.Sprintf("in namespace %q at %s", s.Namespace, s.Address)
	if id != "" {
		where = fmt.Sprintf("in agent %q", id)
	}
	var b strings.Builder
	const most = 20
	n := 0
	for _, run := range runs {
		for _, q := range run.pending {
			if n++; n <= most {
				fmt.Fprintf(&b, "\n%s   %s   %s   %s", q.Key, oneLine(run.id, mostLine), q.Tool, callText(q.Input, nil))
			}
		}
	}
	if n == 0 {
		return exit.Failf("", "no approval %q waits %s; none does", key, where)
	}
	if n > most {
		fmt.Fprintf(&b, "\n… and %d more", n-most)
	}
	return exit.Failf("", "no approval %q waits %s; these do:%s", key, where, b.String())
}

// ended says that an agent can no longer be answered.
func ended(s *connect.Server, id, status string) error {
	return exit.Failf("see how: "+again(s, "show", id), "agent %q has ended (%s) and takes no answers", id, status)
}

// answered reports an answer that was given.
func (a *app) answered(s *connect.Server, run asking, r approval.Resolution, got outcome) error {
	if a.json() {
		err := a.printJSON(struct {
			Key        string          `json:"key"`
			Decision   approval.Choice `json:"decision"`
			WorkflowID string          `json:"workflowId"`
			By         string          `json:"by,omitempty"`
			outcome
		}{r.Key, r.Decision, run.id, r.By, got})
		if got.failed(r) && err == nil {
			err = exit.Code(exit.Failed)
		}
		return err
	}
	if why := got.why(r); got.failed(r) {
		return exit.Failf("", "%s", why)
	}
	a.printf("%s\n", a.became(run, r, got, as(r)))
	switch {
	case got.Via == "signal":
		a.note("%s; the answer takes effect when one runs. See: %s", got.Note, again(s, "watch", run.id))
	case got.unknown():
		a.note("the worker took the answer and has not said what came of it; see: %s", again(s, "watch", run.id))
	}
	if c := got.Closed; c != nil && c.Vetted != nil {
		a.printf("  not asked again in this run; for others, add to vetted of the policy:\n  %s\n", vettedLine(*c.Vetted))
	}
	return nil
}

// as says who gave an answer.
func as(r approval.Resolution) string {
	switch {
	case r.Signature != nil:
		return fmt.Sprintf(" as %s (signed)", oneLine(r.Signature.KeyID, mostLine))
	case r.By != "":
		return fmt.Sprintf(" as %s (self-asserted)", oneLine(r.By, mostLine))
	}
	return ""
}

// fits refuses an answer that no worker would look at.
func fits(r approval.Resolution) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("answer %q: %w", r.Key, err)
	}
	if len(raw) > approval.MaxAnswer {
		return exit.Failf("put long material into a file that the tool reads", "the answer has %d bytes, at most %d are read", len(raw), approval.MaxAnswer)
	}
	return nil
}
