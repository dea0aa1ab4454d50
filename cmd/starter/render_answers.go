package main

import (
	"strings"
	"time"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/follow"
)

// answer shows what happens to a question.
func (p *printer) answer(e follow.Event) {
	switch e.Kind {
	case follow.Answer:
		if e.Answer.Ignored != "" {
			p.ignored(approval.Ignored{By: e.Answer.By, Via: e.Answer.Via, Why: e.Answer.Ignored})
		}
	case follow.ApprovalIgnored:
		p.ignored(*e.Ignored)
	case follow.ApprovalClosed:
		p.closed(*e.Closed)
		if o := e.Overruled; o != nil {
			for _, i := range o.Invalid {
				p.printf("    %s  %s\n", oneLine(pointer(i.Pointer), mostLine), oneLine(i.Message, 400))
			}
		}
	case follow.ApprovalVote:
		v := e.Progress.Vote
		p.printf("  %s  %s by %s%s: %d of %d\n", p.style.green("counted"), e.Progress.Key, oneLine(v.By, mostLine), proof(v.Signed, v.Via),
			len(e.Progress.Votes), e.Progress.Needs)
	case follow.ApprovalReminder:
		p.printf("  %s  %s still waits (reminder %d)\n", p.style.yellow("waits"), e.Progress.Key, e.Progress.Reminded)
	case follow.ApprovalEscalated:
		to := "more people"
		if len(e.Progress.EscalatedTo) > 0 {
			to = strings.Join(e.Progress.EscalatedTo, ", ")
		}
		p.printf("  %s  %s still waits; escalated to %s\n", p.style.yellow("waits"), e.Progress.Key, oneLine(to, 400))
	case follow.ApprovalRevoked:
		r := e.Revoked
		p.printf("  %s  %s", p.style.red("revoked"), r.Key)
		p.by(r.By, false, r.Via)
		p.printf(": %s", cameOf(r.Revocation))
		if r.Reason != "" {
			p.printf(" (%s)", oneLine(r.Reason, 400))
		}
		p.printf("\n")
	}
}

func (p *printer) ignored(i approval.Ignored) {
	p.printf("  %s an answer", p.style.yellow("ignored"))
	if i.By != "" {
		p.printf(" of %s", oneLine(i.By, mostLine))
	}
	p.printf(" by %s: %s\n", i.Via, oneLine(i.Why, 400))
}

// by names who gave an answer, and says whether that is proved.
func (p *printer) by(name string, signed bool, via string) {
	if name != "" {
		p.printf(" by %s%s", oneLine(name, mostLine), proof(signed, via))
	}
}

func (p *printer) closed(c approval.Closed) {
	how := p.style.red(string(c.How))
	if c.How == approval.Allowed {
		how = p.style.green(string(c.How))
	}
	p.printf("  %s  %s", how, c.Key)
	if len(c.Votes) > 0 {
		p.printf(" by %s", voters(c.Votes))
	} else {
		p.by(c.By, c.Signed, c.Via)
	}
	if c.Reason != "" {
		p.printf(": %s", oneLine(c.Reason, 400))
	}
	p.printf("\n")
	if c.Vetted != nil {
		p.printf("    not asked again in this run; for others, add to vetted of the policy:\n    %s\n", vettedLine(*c.Vetted))
	}
}

// story shows the answers that a run had, and those that changed nothing.
func (p *printer) story() {
	v := p.view
	if len(v.closed) > 0 {
		p.printf("%s\n", p.style.bold("answers"))
	}
	for _, c := range v.closed {
		p.closed(c)
		if c.Edited {
			p.printf("    with other arguments\n")
		}
		if r := c.Revoked; r != nil {
			p.printf("    %s at %s", p.style.red("revoked"), r.At.UTC().Format(time.RFC3339))
			p.by(r.By, false, r.Via)
			p.printf(": %s\n", cameOf(*r))
		}
	}
	if len(v.ignored) > 0 {
		p.printf("%s\n", p.style.bold("answers that changed nothing"))
	}
	for _, i := range v.ignored {
		p.ignored(i)
	}
	p.grantedList(p.server, []asking{{id: v.id, granted: v.granted}})
}
