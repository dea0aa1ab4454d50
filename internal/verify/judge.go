package verify

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// Options say what is known beside the history. The zero value checks all that history alone can show.
type Options struct {
	// Converter is the team's data converter; nil means the SDK's default.
	Converter converter.DataConverter
	// Keys verify the signatures of grants; an empty ring checks none. Namespace is then needed: grants bind it, and no
	// event names it.
	Keys      protocol.Keyring
	Namespace string
	// Principals are the public keys of those who sign answers, by name; without any, signatures of answers are not checked.
	Principals map[string]ed25519.PublicKey
	// WorkflowID replaces the one in the history, which old servers do not record.
	WorkflowID string
}

// History verifies the history of one run from its first event on; it may stop before the end of the run. What an agent's run
// took over from the one that it continues is taken on trust, and the report says so: see Chain.
func History(events []*historypb.HistoryEvent, o Options) Report {
	return Chain([]Run{{Events: events}}, o)[0]
}

// Chain verifies runs of one workflow and returns a report for each. What a run took over from another one of them has to
// follow from the history of that one.
func Chain(runs []Run, o Options) []Report {
	judges, byRun := make([]*judge, len(runs)), map[string]*judge{}
	for i, run := range runs {
		judges[i] = judgeOf(run, o)
		byRun[judges[i].out.RunID] = judges[i]
	}
	out := make([]Report, len(runs))
	for i, j := range judges {
		if j.state != nil {
			j.succeeds(byRun[j.started.GetContinuedExecutionRunId()])
		}
		slices.SortStableFunc(j.out.Findings, func(a, b Finding) int { return int(a.EventID - b.EventID) })
		out[i] = j.out
	}
	return out
}

func judgeOf(run Run, o Options) *judge {
	r := recordOf(run.Events, o.Converter)
	j := &judge{record: r, options: o, spent: map[int][]*use{}, unchecked: map[string]bool{}, byName: map[string]map[string][]answer{}}
	if len(run.Events) == 0 {
		r.find(Finding{Kind: Incomplete, Why: "there is no event"})
	}
	decided := len(r.byCall)
	if r.state != nil {
		decided = len(slices.DeleteFunc(slices.Clone(r.decisions), func(d decision) bool { return d.carried != nil }))
	}
	j.out = Report{WorkflowID: o.WorkflowID, RunID: r.runID(), WorkflowType: r.workflowType, Events: len(run.Events), Ended: r.ended,
		Decided: decided, Calls: []Call{}, Findings: []Finding{}, Unchecked: []string{}}
	if j.out.WorkflowID == "" {
		j.out.WorkflowID = r.started.GetWorkflowId()
	}
	if j.out.State = j.standing(); j.out.State == Gated {
		j.all()
	}
	if run.Missing != "" {
		j.note("%s", run.Missing)
	}
	// What cannot be read may have said that the run is gated.
	j.out.Findings = append(append(j.out.Findings, r.findings...), r.sealed...)
	return j
}

// judge holds the uses of one history against its decisions.
type judge struct {
	*record
	options Options
	asked   map[int][]*question
	ledger  *approval.Ledger
	// spent are the uses of each decision, by its index.
	spent     map[int][]*use
	unchecked map[string]bool
	// byName are the answers to each key by the beginning of the name of who gave them.
	byName map[string]map[string][]answer
	out    Report
}

func (j *judge) standing() State {
	version, marked := j.versions[protocol.ChangeGate]
	switch {
	case j.agent, version >= 1, len(j.decisions) > 0, j.granted():
		return Gated
	case marked:
		return Ungated
	}
	return Foreign
}

func (j *judge) granted() bool {
	return slices.ContainsFunc(j.uses, func(u *use) bool { return u.header || u.own() })
}

// note says once what cannot be checked.
func (j *judge) note(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); !j.unchecked[s] {
		j.unchecked[s] = true
		j.out.Unchecked = append(j.out.Unchecked, s)
	}
}

func (j *judge) all() {
	if j.runID() == "" {
		j.note("the history does not say which run it is of, so decisions were not held against it")
	}
	j.asked, j.ledger = j.questions()
	j.entered()
	for _, u := range j.uses {
		if j.tool(u) {
			j.use(u)
		}
	}
}

// tool reports whether what left the workflow has to be permitted.
func (j *judge) tool(u *use) bool {
	switch {
	case u.own(), u.header:
		return true
	case j.agent:
		return u.way != byLocal && slices.ContainsFunc(j.remotes(), func(r *tool.Remote) bool { return r.Type == u.typ && ways[r.Kind] == u.way })
	case u.way == byChild:
		// A guarded workflow type passes the gate in its own run.
		return false
	}
	// What was decided on once is guarded, also where its version is not recorded.
	return j.versions[protocol.ChangeGuard+u.typ] >= 1 || slices.ContainsFunc(j.decisions, func(d decision) bool { return d.Tool == u.typed() })
}

var ways = map[tool.RemoteKind]way{tool.RemoteActivity: byActivity, tool.RemoteWorkflow: byChild}

func (j *judge) remotes() []*tool.Remote {
	var out []*tool.Remote
	for _, f := range j.facts {
		if f.Remote != nil {
			out = append(out, f.Remote)
		}
	}
	return out
}

// judged is one use with what permits it.
type judged struct {
	*judge
	*use
	call  Call
	index int
	d     decision
	q     *question
	p     permit
}

// permit is what a use has to match.
type permit struct {
	run, digest, policy, contract string
	// Exactly one of input and ref is set, if the history has the arguments.
	input   json.RawMessage
	ref     *blob.Ref
	expires int64
}

func (j *judged) fail(kind Kind, format string, args ...any) {
	j.out.Findings = append(j.out.Findings, Finding{Kind: kind, EventID: j.event, CallID: j.call.CallID, Tool: j.call.Tool,
		Why: fmt.Sprintf(format, args...)})
}

// use judges one tool that left the workflow.
func (j *judge) use(u *use) {
	c := &judged{judge: j, use: u, call: Call{EventID: u.event, Tool: u.toolName(), CallID: u.id}}
	if c.bearer() && c.decision() && c.permitted() {
		c.matches()
		c.once()
		c.inTime()
	}
	if !u.retried {
		c.call.Refused = u.refused()
		j.out.Calls = append(j.out.Calls, c.call)
	}
}

// bearer reads whose permission a use claims.
func (j *judged) bearer() bool {
	if j.way == byLocal || j.way == byNexus {
		return true
	}
	switch {
	case !j.header && j.refused():
		j.note("event %d: %s was scheduled without a grant, and the worker refused it", j.event, j.typ)
		j.call.CallID = j.id
		return false
	case !j.header:
		j.fail(NoGrant, "the %s %q was scheduled without a grant", j.way, j.typ)
		return false
	case j.grant == nil:
		j.fail(Unreadable, "its grant cannot be read%s", j.elsewhere)
		return false
	case j.own() && j.use.call == nil && j.elsewhere != "":
		j.fail(Unreadable, "its argument cannot be read%s", j.elsewhere)
		return false
	case j.own() && j.use.call == nil:
		j.fail(Unreadable, "its argument cannot be read: it is no tool call")
		return false
	}
	j.call.CallID = j.grant.CallID
	id := j.id
	if j.way == byChild {
		// Its id is that of the run that permitted the call, and of the call.
		id = strings.TrimPrefix(id, j.grant.RunID+"_")
	}
	if rest, ok := strings.CutPrefix(id, j.grant.CallID); !ok || j.grant.CallID == "" || rest != "" && rest[0] != '~' {
		j.fail(OtherCall, "its grant is for the call %q, and its id is %q", j.grant.CallID, j.id)
		return false
	}
	return true
}

// decision finds the recorded decision on the call: the last one before it was scheduled.
func (j *judged) decision() bool {
	if j.way == byLocal || j.way == byNexus {
		return j.unnamed()
	}
	j.index = -1
	for _, i := range j.byCall[j.call.CallID] {
		if j.decisions[i].event < j.event {
			j.index = i
		} else if j.index < 0 {
			j.fail(NoDecision, "it was decided on afterwards, by event %d", j.decisions[i].event)
			return false
		}
	}
	if j.index < 0 {
		j.fail(NoDecision, "nothing before it decides on the call %q", j.call.CallID)
		return false
	}
	j.take(j.index)
	// A tool of somebody else has a type of its own, which is held against the frozen toolset.
	if name := j.typed(); name != j.d.Tool && (j.own() || !j.agent) {
		j.fail(OtherCall, "it runs %q, and event %d decides on %q", name, j.d.event, j.d.Tool)
		return false
	}
	return true
}

// typed is the tool that a use runs, by its type.
func (u *use) typed() string {
	if u.own() {
		return u.toolName()
	}
	return protocol.ToolName(u.typ)
}

// toolName is the name of a tool: the argument says it where the type does not.
func (u *use) toolName() string {
	if u.typ == protocol.ActivityCallTool && u.call != nil {
		return u.call.Name
	}
	return strings.TrimPrefix(u.typ, protocol.ToolPrefix)
}

// unnamed finds the decision on a call whose event does not say which call it is: the first of its tool that is not spent.
func (j *judged) unnamed() bool {
	name := protocol.ToolName(j.typ)
	var first, spent = -1, 0
	for i, d := range j.decisions {
		if d.Tool != name || d.event > j.event {
			continue
		}
		if len(j.spent[i]) > 0 {
			spent++
			continue
		}
		if first < 0 {
			first = i
		}
		if j.allows(i) {
			first = i
			break
		}
	}
	switch {
	case first >= 0:
		j.take(first)
		return true
	case spent > 0:
		j.fail(UsedTwice, "the %s %q ran more often than it was decided on: %d decisions are spent", j.way, j.typ, spent)
	default:
		j.fail(NoDecision, "nothing before it decides on the %s %q", j.way, j.typ)
	}
	return false
}

// allows reports whether a decision, or the answer to its question, lets its call go on.
func (j *judged) allows(i int) bool {
	d := j.decisions[i]
	if d.Decision.Verdict != permission.Ask {
		return d.Decision.Verdict == permission.Allow
	}
	q := j.asked[i]
	last := q[len(q)-1]
	return last.closed != nil && last.closed.How == approval.Allowed && last.closed.event < j.event
}

func (j *judged) take(i int) {
	j.index, j.d = i, j.decisions[i]
	j.call.CallID, j.call.Tool, j.call.Verdict = j.d.CallID, j.d.Tool, j.d.Decision.Verdict
	j.call.DecidedBy, j.call.DecisionID = j.d.Decision.DecidedBy, j.d.event
}

// permitted says whether the decision, or the answer to its question, lets the call go on, and with what.
func (j *judged) permitted() bool {
	if run := j.runAt(j.d.event); run != "" && j.d.RunID != run && j.d.carried == nil {
		j.fail(OtherRun, "event %d decides on it in run %s, and was recorded in run %s", j.d.event, j.d.RunID, run)
	}
	j.p = permit{run: j.d.RunID, digest: j.d.InputDigest, policy: j.d.Decision.PolicyDigest, contract: j.facts[j.d.Tool].ContractHash}
	j.p.input, j.p.ref = j.decided()
	switch j.d.Decision.Verdict {
	case permission.Allow:
		return true
	case permission.Ask:
		return j.answered()
	}
	j.fail(Denied, "event %d denies it by %s", j.d.event, j.d.Decision.DecidedBy)
	return false
}

// decided are the arguments that were decided on: those that were asked for, or what a hook made of them.
func (j *judged) decided() (json.RawMessage, *blob.Ref) {
	switch {
	case j.d.InputRef != nil:
		return nil, j.d.InputRef
	case j.d.Decision.Modified:
		return j.d.Decision.Input, nil
	}
	return j.requested(j.d)
}

// requested are the arguments that a call asks for, as far as the history has them apart from the call itself.
func (r *record) requested(d decision) (json.RawMessage, *blob.Ref) {
	if d.request != nil {
		return d.request.Input, d.request.InputRef
	}
	var turn, number int
	if _, err := fmt.Sscanf(d.CallID, "t%d.%d", &turn, &number); err != nil || number < 1 || number > len(r.turns[turn]) {
		return nil, nil
	}
	c := r.turns[turn][number-1]
	return c.Input, c.InputRef
}

// digest is the digest of canonical JSON that decisions and grants bind.
func digest(raw []byte) (string, error) {
	c, err := canonjson.Canonical(raw)
	if err != nil {
		return "", err
	}
	return canonjson.SHA256(c), nil
}

// same reports whether two JSON texts are the same value.
func same(a, b []byte) bool {
	x, err := canonjson.Canonical(a)
	if err != nil {
		return false
	}
	y, err := canonjson.Canonical(b)
	return err == nil && bytes.Equal(x, y)
}
