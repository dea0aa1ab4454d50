package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/connect"
)

func (a *app) revokeCommand() *cobra.Command {
	var f answerFlags
	cmd := &cobra.Command{
		Use:   "revoke KEY",
		Short: "Withdraw a question, or take an allow back",
		Long: `Withdraw a question that waits, or take back the allow of a call that has not ended.

A call that was not sent to a worker yet never runs. One that was is asked to stop: what it has done by then stays done, and
what came of it is printed. A call that has ended cannot be revoked (exit code 1). Calls that can be are listed by
starter approvals.`,
		Example: "  starter revoke shell-3f9a1c07\n  starter revoke shell-3f9a1c07 -w fix-1 --reason 'wrong cluster'",
		GroupID: groupApprovals,
		Args:    oneArg("the KEY of a question"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(approval.Revoke); err != nil {
				return err
			}
			return a.revoke(cmd.Context(), args[0], f)
		},
	}
	a.whoFlags(cmd, &f)
	a.serverFlags(cmd)
	return cmd
}

func (a *app) revoke(ctx context.Context, key string, f answerFlags) error {
	r, err := f.resolution(approval.Revoke)
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
	run, err := a.locate(ctx, fd, key, approval.Revoke, f.workflow)
	if err != nil {
		return err
	}
	r.Key = key
	if q := run.question(key); q != nil {
		if r, err = by.sign(*q, run.source, r); err != nil {
			return err
		}
	} else if by.key != nil {
		// Nobody's authority is looked at to stop a call, and there is no question any more that could be signed.
		a.note("%s is not a question any more: the revocation is not signed", key)
	}
	got, err := send(ctx, fd, run, r)
	if err != nil {
		return err
	}
	return a.answered(s, run, r, got)
}

// grantedList prints the allowed calls that have not ended.
func (a *app) grantedList(s *connect.Server, runs []asking) {
	first := true
	for _, run := range runs {
		for _, g := range run.granted {
			if first {
				a.printf("\n%s\n", a.style.bold("allowed, and not ended"))
				first = false
			}
			a.printf("%s   %s   %s", a.style.bold(g.Key), oneLine(run.id, mostLine), oneLine(g.Tool, mostLine))
			if g.By != "" {
				a.printf("   allowed by %s", oneLine(g.By, mostLine))
			}
			if !g.At.IsZero() {
				a.printf("   %s ago", span(time.Since(g.At)))
			}
			where := "not sent yet: a revoke keeps it from running"
			if g.Dispatched {
				where = "on its way to a worker, or with one: a revoke asks it to stop"
			}
			a.printf("\n  state   %s\n  cli     %s\n", where, again(s, "revoke", g.Key, "-w", run.id))
		}
	}
}
