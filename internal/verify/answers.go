package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/assent-dev/assent/approval"
)

// answered says whether people's answers let an asked call go on.
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
	j.call.Signed, j.call.AdmissionID = true, a.event
	var by []string
	for _, v := range j.q.taken {
		by = append(by, v.By)
		j.call.Signed = j.call.Signed && v.Signed
	}
	for _, v := range append(slices.Clone(j.q.votes), a) {
		j.admission(v)
		by = append(by, v.By)
		j.call.Signed = j.call.Signed && v.Signed
	}
	j.call.By = strings.Join(by, ", ")
	j.quorum(a)
	j.first(a)
	j.p.run, j.p.policy, j.p.expires = a.RunID, a.PolicyDigest, a.Expires
	j.edited(a)
	j.inForce()
	return true
}

// admission holds an admission against the run that asked and the run that admitted, and against what people sent.
func (j *judged) admission(a *admission) {
	if a.RunID != j.q.run {
		j.fail(VoidAnswer, "its question %s stood in run %s, and event %d admits the answer in run %s", j.q.key, j.q.run, a.event, a.RunID)
	}
	if run := j.runAt(a.event); run != "" && a.RunID != run {
		j.fail(OtherRun, "event %d admits its answer in run %s, and was recorded in run %s", a.event, a.RunID, run)
	}
	sent := j.sent(a)
	if len(sent) == 0 {
		j.fail(NoAnswer, "event %d admits an allow of %s by %q, and nobody sent one with these arguments while it was open", a.event, j.q.key, a.By)
		return
	}
	if rang := j.deadlines[j.q.key]; rang > j.q.opened && !slices.ContainsFunc(sent, func(s answer) bool { return s.event < rang }) {
		j.fail(Expired, "the deadline of its question %s passed at event %d, before the answer that event %d admits", j.q.key, rang, a.event)
	}
	j.signed(a, sent)
}

// sent are the answers of before an admission that allow what it admits. A bare word names no key.
func (j *judged) sent(a *admission) []answer {
	var out []answer
	for _, key := range []string{j.q.key, ""} {
		for _, s := range j.named(key, a.By) {
			if s.event > j.q.opened && s.event < a.event && s.Decision == approval.Allow && j.admits(a, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

// mostName bounds a recorded name, in bytes: a longer one is recorded shortened.
const mostName = 200

// named are the answers to a key that may be by a principal: many votes on one question take no longer than on several.
func (j *judge) named(key, by string) []answer {
	const mostPrefix = mostName - 10
	prefix := func(name string) string { return name[:min(len(name), mostPrefix)] }
	index, ok := j.byName[key]
	if !ok {
		index = map[string][]answer{}
		j.byName[key] = index
		for _, s := range j.answers[key] {
			name := prefix(strings.TrimSpace(s.By))
			index[name] = append(index[name], s)
			if s.Signature != nil && prefix(s.Signature.KeyID) != name {
				index[prefix(s.Signature.KeyID)] = append(index[prefix(s.Signature.KeyID)], s)
			}
		}
	}
	return index[prefix(by)]
}

// admits reports whether an admission can be that of an answer: by the same principal, for the same arguments.
func (j *judged) admits(a *admission, s answer) bool {
	if by := strings.TrimSpace(s.By); a.By != by && len(by) <= mostName && (s.Signature == nil || s.Signature.KeyID != a.By) {
		return false
	}
	if len(s.Input) == 0 {
		return a.InputDigest == j.d.InputDigest || a.How == approval.Counted
	}
	sum, err := digest(s.Input)
	return err == nil && sum == a.InputDigest
}

// signed holds an admission that says so against the signatures of the answers.
func (j *judged) signed(a *admission, sent []answer) {
	_, signs := j.options.Principals[a.By]
	switch {
	case !a.Signed:
		if signs {
			j.fail(BadSignature, "event %d admits an answer by %q, who signs answers, without a signature", a.event, a.By)
		}
		return
	case len(j.options.Principals) == 0:
		j.note("signatures of answers: no policy with engine.keys was given")
		return
	}
	q := approval.Approval{Key: j.q.key, Tool: j.d.Tool, CallID: j.d.CallID, Seal: j.q.seal}
	err := error(&approval.SignatureError{Why: "there is none"})
	for _, s := range sent {
		if s.Signature == nil {
			continue
		}
		r := s.Resolution
		r.Key = j.q.key
		var by string
		if by, err = approval.VerifySignature(q, r, j.options.Principals); err == nil && by == a.By {
			return
		}
		if err == nil {
			err = fmt.Errorf("it is that of %q", by)
		}
	}
	j.fail(BadSignature, "event %d admits an answer as signed by %q: %v", a.event, a.By, err)
}

// quorum says whether as many distinct principals allowed the call as its question needs, its requester aside. Whether
// they are in the right groups is for the policy, which the admissions have asked.
func (j *judged) quorum(last *admission) {
	if j.d.Approval == nil || j.d.Approval.Approvers == nil {
		return
	}
	if j.agent && !j.inputRead {
		j.fail(Unreadable, "who asked for the run cannot be read")
	}
	names := map[string]bool{}
	for _, v := range j.q.taken {
		if v.By == "" || v.By == j.input.RequestedBy {
			j.fail(NoAnswer, "the run before counted an allow of %q, who may not give one", v.By)
			continue
		}
		names[v.By] = true
	}
	for _, v := range append(slices.Clone(j.q.votes), last) {
		switch {
		case v.By == "":
			j.fail(NoAnswer, "event %d admits an allow of nobody, where approvers are named", v.event)
		case v.By == j.input.RequestedBy:
			j.fail(NoAnswer, "event %d admits an allow by %q, who asked for the run", v.event, v.By)
		default:
			names[v.By] = true
		}
	}
	if need := max(j.d.Approval.Approvers.Min, 1); len(names) < need {
		j.fail(NoAnswer, "%d of %d principals allowed it", len(names), need)
	}
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

// mostQueued is how many answers to one question wait for each other; more are not looked at.
const mostQueued = 256

// first says whether somebody denied the call before the answer that allowed it. A deny closes its question, whoever
// sends it. Only what can have come in no other order is held against it: signals, to a question that was open before.
func (j *judged) first(a *admission) {
	opened := slices.ContainsFunc(j.decisions, func(d decision) bool { return d.event == j.q.opened && d.request == nil })
	sent := j.sent(a)
	if !opened || len(sent) == 0 || len(j.answers[j.q.key]) > mostQueued {
		return
	}
	allow := slices.MinFunc(sent, func(x, y answer) int { return int(x.event - y.event) })
	for _, s := range j.answers[j.q.key] {
		if s.Decision == approval.Deny && s.signal && allow.signal && s.event > j.q.opened && s.event < allow.event {
			j.fail(Denied, "event %d denies %s, before event %d allows it", s.event, j.q.key, allow.event)
			return
		}
	}
}

// inForce says whether the answer was revoked before the call was scheduled.
func (j *judged) inForce() {
	for _, s := range j.answers[j.q.key] {
		if s.Decision == approval.Revoke && s.event > j.q.opened && s.event < j.event {
			j.fail(Revoked, "event %d revokes %s, before it was scheduled", s.event, j.q.key)
			return
		}
	}
}
