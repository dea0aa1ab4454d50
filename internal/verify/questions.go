package verify

import (
	"cmp"
	"fmt"
	"slices"

	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// question is an approval that was open from an event on. Its key is in no event before its answer: it follows from the
// questions before it.
type question struct {
	key string
	// decision is the index of the decision that asked.
	decision int
	// run is the run that asked: an answer that another one admits is void.
	run    string
	opened int64
	// seal is what a signed answer speaks of. taken are the votes that counted in the runs before.
	seal  approval.Seal
	taken []approval.Vote
	// turn and number place it among those that were opened at the same event.
	turn, number int
	// closed is its first final admission; nil while there is none. votes are the allows that counted before it, the first
	// of each principal.
	closed *admission
	votes  []*admission
}

// read takes the admissions of its key that came after it was opened. Those that do not count leave it open; any word
// that is not known closes it, and allows nothing.
func (q *question) read(all []admission) {
	voted := map[string]bool{}
	for i := range all {
		switch a := &all[i]; {
		case a.event <= q.opened, a.How == approval.Uncounted, a.How == approval.Counted && voted[a.By]:
		case a.How == approval.Counted:
			voted[a.By] = true
			q.votes = append(q.votes, a)
		default:
			q.closed = a
			return
		}
	}
}

// questions returns the questions of each decision, in the order in which they were asked, and the ledger that gave them
// their keys. A void answer opens the next.
func (r *record) questions() (map[int][]*question, *approval.Ledger) {
	ledger := approval.NewLedger()
	r.restore(ledger)
	queue := r.asked()
	out := map[int][]*question{}
	for len(queue) > 0 {
		q := queue[0]
		queue = queue[1:]
		d := r.decisions[q.decision]
		if c := d.carried; c != nil && q.opened == firstEvent {
			q.key, q.seal, q.taken = c.Key, c.Seal, c.Votes
		} else {
			q.seal = approval.Seal{RunID: q.run, ContentKey: r.contentKey(d), InputDigest: d.InputDigest,
				ContractHash: r.facts[d.Tool].ContractHash, PolicyDigest: d.Decision.PolicyDigest}
			q.key = ledger.Open(approval.Approval{Tool: d.Tool, Seal: q.seal}).Key
		}
		out[q.decision] = append(out[q.decision], q)
		q.read(r.admissions[q.key])
		if q.closed == nil || q.closed.How != approval.Void {
			continue
		}
		next := &question{decision: q.decision, run: q.closed.RunID, opened: q.closed.event, turn: q.turn, number: q.number}
		at, _ := slices.BinarySearchFunc(queue, next, (*question).compare)
		queue = slices.Insert(queue, at, next)
	}
	return out, ledger
}

// asked lists the first questions of all decisions to ask. The workflow opens those of a turn in the model's order, each
// when it and all before it are decided; those of other workflows as they are decided.
func (r *record) asked() []*question {
	type place struct{ turn, number int }
	byTurn := map[int][]int{}
	places := map[int]place{}
	for i, d := range r.decisions {
		var p place
		if _, err := fmt.Sscanf(d.CallID, "t%d.%d", &p.turn, &p.number); err != nil || !r.agent {
			p = place{}
		} else {
			byTurn[p.turn] = append(byTurn[p.turn], i)
		}
		places[i] = p
	}
	opened := map[int]int64{}
	for _, calls := range byTurn {
		slices.SortStableFunc(calls, func(a, b int) int { return cmp.Compare(places[a].number, places[b].number) })
		last := int64(0)
		for _, i := range calls {
			last = max(last, r.decisions[i].event)
			opened[i] = last
		}
	}
	var out []*question
	for i, d := range r.decisions {
		if d.Decision.Verdict != permission.Ask {
			continue
		}
		run := d.RunID
		if d.carried != nil {
			run = r.standsIn(*d.carried)
		}
		out = append(out, &question{decision: i, run: run, opened: max(opened[i], d.event), turn: places[i].turn, number: places[i].number})
	}
	slices.SortStableFunc(out, (*question).compare)
	return out
}

func (q *question) compare(o *question) int {
	return cmp.Or(cmp.Compare(q.opened, o.opened), cmp.Compare(q.turn, o.turn), cmp.Compare(q.number, o.number), cmp.Compare(q.decision, o.decision))
}

// again says that the server has begun this run anew, by its schedule or after one that failed.
func (r *record) again() bool {
	return r.started.GetContinuedExecutionRunId() != "" && (r.started.GetCronSchedule() != "" || r.started.GetAttempt() > 1)
}

// carried is what the run before has handed on to a guarded workflow.
func (r *record) carried() (c protocol.Carry) {
	p := r.started.GetHeader().GetFields()[protocol.HeaderCarry]
	if p == nil || r.agent || r.started.GetContinuedExecutionRunId() == "" {
		return c
	}
	if converter.GetDefaultDataConverter().FromPayload(p, &c) != nil {
		return protocol.Carry{}
	}
	return c
}

func (r *record) restore(l *approval.Ledger) {
	if r.state != nil {
		l.Load(r.state.Ledger)
		return
	}
	l.Restore(r.carried().Ledger)
}

// contentKey is what the key of a question is made of, as the workflow makes it: a run that was begun anew gives no key of
// the run before again.
func (r *record) contentKey(d decision) string {
	if !r.again() || r.agent || d.ContentKey == "" {
		return d.ContentKey
	}
	return approval.InRun(d.ContentKey, d.RunID)
}
