package main

import (
	"slices"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/follow"
)

// answers takes what happens to questions.
func (v *view) answers(e follow.Event) {
	switch e.Kind {
	case follow.ApprovalPending:
		v.questions = append(v.questions, *e.Question)
		v.state(e.Question.CallID, "waiting")
	case follow.ApprovalVote, follow.ApprovalReminder, follow.ApprovalEscalated:
		for i := range v.questions {
			if v.questions[i].Key == e.Progress.Key {
				e.Progress.Apply(&v.questions[i])
			}
		}
	case follow.ApprovalIgnored:
		v.ignored = append(v.ignored, *e.Ignored)
	case follow.Answer:
		if a := e.Answer; a.Ignored != "" {
			v.ignored = append(v.ignored, approval.Ignored{At: e.Time, Key: a.Key, By: a.By, Why: a.Ignored, Via: a.Via})
		}
	case follow.ApprovalClosed:
		c := *e.Closed
		v.questions = slices.DeleteFunc(v.questions, func(q follow.Question) bool { return q.Key == c.Key })
		v.closed = append(v.closed, c)
		if c.How == approval.Allowed {
			v.granted = append(v.granted, approval.Granted{Key: c.Key, Tool: c.Tool, CallID: c.CallID, By: c.By, At: c.At})
		}
		v.state(c.CallID, string(c.How))
	case follow.ApprovalRevoked:
		v.revoked(e.Revoked.Key, e.Revoked.Revocation)
		if !e.Revoked.Dispatched {
			v.spent(e.Revoked.CallID)
			v.state(e.Revoked.CallID, string(approval.Revoked))
		}
	}
}

// sent notes that an allowed call is on its way.
func (v *view) sent(callID string) {
	for i := range v.granted {
		if v.granted[i].CallID == callID {
			v.granted[i].Dispatched = true
		}
	}
}

// spent notes that an allow can no longer be revoked.
func (v *view) spent(callID string) {
	v.granted = slices.DeleteFunc(v.granted, func(g approval.Granted) bool { return g.CallID == callID })
}

// returned takes the end of a call.
func (v *view) returned(c follow.Call) {
	if i, ok := v.byID[c.CallID]; ok {
		v.calls[i].run = &c
	}
	state := c.Error
	if c.Result != nil {
		state = string(c.Result.Code)
	}
	v.state(c.CallID, state)
	if c.Revoked != nil {
		v.revoked(c.Revoked.Key, c.Revoked.Revocation)
	}
	v.spent(c.CallID)
}

func (v *view) revoked(key string, r approval.Revocation) {
	for i := range v.closed {
		if v.closed[i].Key == key {
			v.closed[i].Revoked = &r
		}
	}
}
