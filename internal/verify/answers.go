package verify

import (
	"slices"

	"github.com/assent-dev/assent/approval"
)

// answered says whether somebody's answer lets an asked call go on.
func (j *judged) answered() bool {
	asked := j.asked[j.index]
	j.q = asked[len(asked)-1]
	j.call.Key = j.q.key
	a := j.q.closed
	switch {
	case a != nil && a.event > j.event:
		j.fail(NoAnswer, "the answer to %s was admitted afterwards, by event %d", j.q.key, a.event)
		return false
	case a == nil && len(asked) > 1:
		j.fail(VoidAnswer, "its only answer, admitted by event %d, was to a question of another run", j.q.opened)
		return false
	case a == nil:
		j.fail(NoAnswer, "event %d asks about it under the key %s, and no admitted answer allows it", j.d.event, j.q.key)
		return false
	case a.How != approval.Allowed:
		j.fail(Denied, "event %d closes its question %s as %s", a.event, j.q.key, a.How)
		return false
	}
	j.call.By, j.call.AdmissionID = a.By, a.event
	j.admission(a)
	j.p.run, j.p.policy, j.p.expires = a.RunID, a.PolicyDigest, a.Expires
	j.edited(a)
	j.inForce(a)
	return true
}

// admission holds an admission against the run that asked and the run that admitted, and against what people sent.
func (j *judged) admission(a *admission) {
	if a.RunID != j.q.run {
		j.fail(VoidAnswer, "its question %s was asked in run %s, and event %d admits the answer in run %s", j.q.key, j.q.run, a.event, a.RunID)
	}
	if run := j.runAt(a.event); run != "" && a.RunID != run {
		j.fail(OtherRun, "event %d admits its answer in run %s, and was recorded in run %s", a.event, a.RunID, run)
	}
	if rang := j.deadlines[j.q.key]; rang > j.q.opened && rang < a.event && !j.sent(rang, func(approval.Resolution) bool { return true }) {
		j.fail(Expired, "the deadline of its question %s passed at event %d, before any answer", j.q.key, rang)
	}
	if !j.sent(a.event, func(r approval.Resolution) bool {
		if r.Decision != approval.Allow {
			return false
		}
		sum, err := digest(r.Input)
		return len(r.Input) == 0 && a.InputDigest == j.d.InputDigest || err == nil && sum == a.InputDigest
	}) && !j.approver(a.event) {
		j.fail(NoAnswer, "event %d admits an answer to %s with these arguments, and nobody sent one after it was asked", a.event, j.q.key)
	}
}

// sent reports whether an answer of some kind to the question came between its opening and an event. A bare word names
// no key.
func (j *judged) sent(before int64, kind func(approval.Resolution) bool) bool {
	for _, key := range []string{j.q.key, ""} {
		for _, a := range j.answers[key] {
			if a.event > j.q.opened && a.event < before && kind(a.Resolution) {
				return true
			}
		}
	}
	return false
}

// approver reports whether an approver of a worker's own answered between the opening of the question and an event.
func (j *judged) approver(before int64) bool {
	return slices.ContainsFunc(j.approvers, func(event int64) bool { return event > j.q.opened && event < before })
}

// edited takes the arguments that the answer put in the place of those that were asked about.
func (j *judged) edited(a *admission) {
	switch {
	case a.InputRef != nil:
		j.p.input, j.p.ref = nil, a.InputRef
	case len(a.Input) > 0:
		j.p.input, j.p.ref = a.Input, nil
	case a.InputDigest != j.d.InputDigest:
		j.fail(OtherInput, "event %d admits the answer for other arguments than event %d asks about, without an edit", a.event, j.d.event)
	}
	j.call.Edited = a.InputRef != nil || len(a.Input) > 0
	j.p.digest = a.InputDigest
}

// inForce says whether the answer was revoked before the call was scheduled.
func (j *judged) inForce(a *admission) {
	for _, s := range j.answers[j.q.key] {
		if s.Decision == approval.Revoke && s.event > j.q.opened && s.event < j.event {
			j.fail(Revoked, "event %d revokes %s, before it was scheduled", s.event, j.q.key)
			return
		}
	}
}
