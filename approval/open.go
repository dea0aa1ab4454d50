package approval

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/assent-dev/assent/permission"
)

// Occasion is what an open question waits for besides answers. It ends the summary of its timer: `KEY · reminder`.
type Occasion string

// The occasions.
const (
	AtDeadline   Occasion = "deadline"
	AtEscalation Occasion = "escalation"
	AtReminder   Occasion = "reminder"
)

// MostReminders bounds the reminders of one question: each is a timer in history.
const MostReminders = 100

// Upcoming is the first of escalation and reminder, at the same moment in this order; the occasion is empty if there is
// none. reminded is when the last reminder was given, or when the question was asked.
func (a Approval) Upcoming(p permission.ApprovalPolicy, reminded time.Time) (at time.Time, what Occasion) {
	if e := p.Escalate; e != nil && a.Escalated == nil {
		at, what = a.AskedAt.Add(e.After), AtEscalation
	}
	if p.Remind > 0 && a.Reminded < MostReminders {
		if next := reminded.Add(p.Remind); what == "" || next.Before(at) {
			at, what = next, AtReminder
		}
	}
	return at, what
}

// Escalate adds groups to those that may answer.
func (a *Approval) Escalate(at time.Time, groups []string) {
	a.Escalated, a.EscalatedTo = &at, groups
	// No groups means anybody, and more than that there are not.
	if a.Approvers == nil || len(a.Approvers.Groups) == 0 {
		return
	}
	wider := permission.Approvers{Groups: slices.Clone(a.Approvers.Groups), Min: a.Approvers.Min}
	for _, g := range groups {
		if !slices.Contains(wider.Groups, g) {
			wider.Groups = append(wider.Groups, g)
		}
	}
	a.Approvers = &wider
}

// mostNames bounds the names of all votes together, in bytes.
const mostNames = 2000

// Join makes one answer of the votes that a question needed. One vote alone is the answer itself.
func (c *Closed) Join(votes []Vote) {
	if len(votes) < 2 {
		return
	}
	names := make([]string, len(votes))
	c.Votes, c.Signed = votes, true
	for i, v := range votes {
		names[i] = v.By
		c.Signed = c.Signed && v.Signed
	}
	if c.By = strings.Join(names, ", "); len(c.By) > mostNames {
		n := mostNames
		for !utf8.RuneStart(c.By[n]) {
			n--
		}
		c.By = c.By[:n] + "…"
	}
}
